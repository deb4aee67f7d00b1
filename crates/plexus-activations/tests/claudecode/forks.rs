//! Where a session can be forked, and by whom.

use plexus_core::{Caller, SessionId};
use serde_json::{Value, json};

use crate::common::{SimulatedHub, texts};

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_begins_after_any_chat_that_completed_or_at_the_root() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("trunk", json!({})).await;
    let first = hub.chat_to_end(&session, "sim:\nsay one").await;
    hub.chat_to_end(&session, "sim:\nsay two").await;
    let fork = |name: &str, at: &Value| json!({"session_id": session, "new_name": name, "at": at});
    let head = hub.session(&session).await["head"].clone();
    // In the middle of a chat there is nothing that the agent's memory could be cut at.
    let page = hub.page(&session, 0, 0, 100).await;
    let said = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["event"]["type"] == "content")
        .unwrap();
    let refused = hub.call("claudecode.fork", fork("inside", &said["node_id"])).await.unwrap_err();
    assert_eq!(refused.kind.to_string(), "invalid");
    assert!(refused.hint.contains(head["node_id"].as_str().unwrap()), "{refused:?}");
    let list = hub.ok("claudecode.list", json!({})).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "something was created by halves");

    let middle = &first.last().unwrap()["new_head"]["node_id"];
    let behind = hub.ok("claudecode.fork", fork("middle", middle)).await;
    assert_eq!(behind["head"], json!({"tree_id": head["tree_id"], "node_id": middle}));
    let behind = behind["id"].as_str().unwrap();
    let events = hub.chat_to_end(behind, "sim:\nrecall").await;
    assert_eq!(texts(&events), ["sim:\nsay one"]);

    let at_head = hub.ok("claudecode.fork", fork("head", &head["node_id"])).await;
    assert_eq!(at_head["head"], head);
    let events = hub.chat_to_end(at_head["id"].as_str().unwrap(), "sim:\nrecall").await;
    assert_eq!(texts(&events), ["sim:\nsay one\nsim:\nsay two"]);

    let tree = hub.ok("arbor.tree_get", json!({"tree_id": head["tree_id"]})).await;
    let root = tree["tree"]["root"].clone();
    let at_root = hub.ok("claudecode.fork", fork("root", &root)).await;
    assert_eq!(at_root["head"], json!({"tree_id": head["tree_id"], "node_id": root}));
    let events = hub.chat_to_end(at_root["id"].as_str().unwrap(), "sim:\nrecall").await;
    assert_eq!(texts(&events), ["Nothing was said before."]);

    // The fork is a session like any other: it can be forked after its own chats, and what is its
    // source's is forked there.
    let own = &hub.session(behind).await["head"]["node_id"];
    let again = hub
        .ok("claudecode.fork", json!({"session_id": behind, "new_name": "again", "at": own}))
        .await;
    let events = hub.chat_to_end(again["id"].as_str().unwrap(), "sim:\nrecall").await;
    assert_eq!(texts(&events), ["sim:\nsay one\nsim:\nrecall"]);
    let of_its_source = json!({"session_id": behind, "new_name": "other", "at": middle});
    let refused = hub.call("claudecode.fork", of_its_source).await.unwrap_err();
    assert_eq!(refused.kind.to_string(), "invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_the_source_after_the_fork_are_not_the_forks() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("trunk", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay one").await;
    let fork = async |of: &str, name: &str| {
        let forked = hub.ok("claudecode.fork", json!({"session_id": of, "new_name": name})).await;
        forked["id"].as_str().unwrap().to_owned()
    };
    let branch = fork(&session, "branch").await;
    // Also through a fork that has not said anything itself.
    let twig = fork(&branch, "twig").await;
    hub.chat_to_end(&session, "sim:\nsay two").await;
    for session in [&branch, &twig] {
        let events = hub.chat_to_end(session, "sim:\nrecall").await;
        assert_eq!(texts(&events), ["sim:\nsay one"]);
    }
    assert_eq!(
        texts(&hub.chat_to_end(&session, "sim:\nrecall").await),
        ["sim:\nsay one\nsim:\nsay two"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_forks_nothing_that_has_more_than_itself() {
    let hub = SimulatedHub::new().await;
    let lead = hub.create("lead", json!({"can_spawn": true, "allowed_tools": ["Read"]})).await;
    let wide = hub.create("wide", json!({"parent": lead, "allowed_tools": ["Bash"]})).await;
    let id = |text: &str| text.parse::<SessionId>().unwrap();
    let as_lead = || Caller::Session(id(&lead));
    let own = hub.create_params("narrow", json!({"allowed_tools": ["Read"]}));
    let own = hub.call_as(as_lead(), "claudecode.create", own).await.unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();

    let refused = hub
        .call_as(
            as_lead(),
            "claudecode.fork",
            json!({"session_id": wide, "new_name": "wide again"}),
        )
        .await
        .unwrap_err();
    assert_eq!(refused.kind.to_string(), "forbidden", "{refused:?}");

    // What the operator allows for a while is for that session, not for its forks.
    let mode = json!({"session_id": own, "mode": "allow_all", "expires_in_secs": 600});
    hub.ok("loopback.mode_set", mode).await;
    let forked = hub
        .call_as(
            as_lead(),
            "claudecode.fork",
            json!({"session_id": own, "new_name": "narrow again"}),
        )
        .await
        .unwrap();
    let fork = hub.store().session(id(forked["id"].as_str().unwrap())).await.unwrap();
    let origin = hub.store().session(id(&own)).await.unwrap();
    assert_eq!((fork.config, fork.parent), (origin.config, origin.parent));
    assert_eq!(hub.session(&fork.id.to_string()).await["mode"], json!(null));
    assert_eq!(hub.session(&own).await["mode"]["mode"], "allow_all");
}

//! Where a session can be forked, and by whom.

use plexus_core::{Caller, SessionId};
use serde_json::{Value, json};

use crate::common::{World, texts};

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_in_the_middle_is_refused_and_one_at_the_root_begins_anew() {
    let world = World::new().await;
    let session = world.create("trunk", json!({})).await;
    let first = world.chat_to_end(&session, "sim:\nsay one").await;
    world.chat_to_end(&session, "sim:\nsay two").await;
    let fork = |name: &str, at: &Value| json!({"session_id": session, "new_name": name, "at": at});
    let middle = &first.last().unwrap()["new_head"]["node_id"];
    let refused = world.call("claudecode.fork", fork("middle", middle)).await.unwrap_err();
    assert_eq!(serde_json::to_value(refused.kind).unwrap(), "invalid");
    let head = world.session(&session).await["head"].clone();
    assert!(refused.hint.contains(head["node_id"].as_str().unwrap()), "{refused:?}");
    let list = world.ok("claudecode.list", json!({})).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "something was created by halves");

    let at_head = world.ok("claudecode.fork", fork("head", &head["node_id"])).await;
    assert_eq!(at_head["head"], head);
    let events = world.chat_to_end(at_head["id"].as_str().unwrap(), "sim:\nrecall").await;
    assert_eq!(texts(&events), ["sim:\nsay one\nsim:\nsay two"]);

    let tree = world.ok("arbor.tree_get", json!({"tree_id": head["tree_id"]})).await;
    let root = tree["tree"]["root"].clone();
    let at_root = world.ok("claudecode.fork", fork("root", &root)).await;
    assert_eq!(at_root["head"], json!({"tree_id": head["tree_id"], "node_id": root}));
    let events = world.chat_to_end(at_root["id"].as_str().unwrap(), "sim:\nrecall").await;
    assert_eq!(texts(&events), ["Nothing was said before."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_forks_nothing_that_has_more_than_itself() {
    let world = World::new().await;
    let lead = world.create("lead", json!({"can_spawn": true, "allowed_tools": ["Read"]})).await;
    let wide = world.create("wide", json!({"parent": lead, "allowed_tools": ["Bash"]})).await;
    let id = |text: &str| text.parse::<SessionId>().unwrap();
    let as_lead = || Caller::Session(id(&lead));
    let own = world.create_params("narrow", json!({"allowed_tools": ["Read"]}));
    let own = world.call_as(as_lead(), "claudecode.create", own).await.unwrap()["id"].as_str().unwrap().to_owned();

    let refused = world
        .call_as(as_lead(), "claudecode.fork", json!({"session_id": wide, "new_name": "wide again"}))
        .await
        .unwrap_err();
    assert_eq!(serde_json::to_value(refused.kind).unwrap(), "forbidden", "{refused:?}");

    // What the operator allows for a while is for that session, not for its forks.
    let mode = json!({"session_id": own, "mode": "allow_all", "expires_in_secs": 600});
    world.ok("loopback.mode_set", mode).await;
    let forked = world
        .call_as(as_lead(), "claudecode.fork", json!({"session_id": own, "new_name": "narrow again"}))
        .await
        .unwrap();
    let fork = world.store().session(id(forked["id"].as_str().unwrap())).await.unwrap();
    let origin = world.store().session(id(&own)).await.unwrap();
    assert_eq!((fork.config, fork.parent), (origin.config, origin.parent));
    assert_eq!(world.session(&fork.id.to_string()).await["mode"], json!(null));
    assert_eq!(world.session(&own).await["mode"]["mode"], "allow_all");
}

//! Names of sessions, and how their last chat ended, as `get` and `list` show it.

use plexus_core::{Caller, SessionId};
use serde_json::json;

use crate::common::SimulatedHub;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_another_name_and_keeps_its_id() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("before", json!({})).await;
    let other = hub.create("taken", json!({})).await;
    for method in ["agents.rename", "claudecode.rename"] {
        let rename = json!({"session_id": session, "new_name": "after"});
        let renamed = hub.ok(method, rename).await;
        assert_eq!(renamed, json!({"type": "renamed", "id": session, "name": "after"}));
    }
    assert_eq!(hub.ok("agents.get", json!({"name": "after"})).await["session"]["id"], session);
    let gone = hub.call("agents.get", json!({"name": "before"})).await.unwrap_err();
    assert_eq!(gone.kind.to_string(), "not_found");

    let taken = json!({"name": "after", "new_name": "taken"});
    let taken = hub.call("agents.rename", taken).await.unwrap_err();
    assert_eq!((taken.kind.to_string().as_str(), taken.standing), ("conflict", Some(json!(other))));
    let rings = json!({"name": "after", "new_name": "ri\u{7}ng"});
    let rings = hub.call("agents.rename", rings).await.unwrap_err();
    assert!(rings.message.contains("no control characters; U+0007 is one"), "{rings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_like_the_beginning_of_an_id_is_refused() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("docs", json!({})).await;
    let name = &session[..8];
    for (method, params) in [
        ("agents.create", json!({"name": name, "working_dir": hub.work()})),
        ("claudecode.create", json!({"name": session, "working_dir": hub.work()})),
        ("cone.create", json!({"name": name})),
        ("agents.fork", json!({"session_id": session, "new_name": name})),
        ("agents.rename", json!({"session_id": session, "new_name": name})),
        ("identity.parent", json!({"name": name})),
    ] {
        let refused = hub.call(method, params).await.unwrap_err();
        assert_eq!(refused.kind.to_string(), "invalid", "{method}: {refused:?}");
        assert!(refused.message.contains("beginning of a session's id"), "{method}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_of_one_name_are_told_apart_by_their_creators() {
    let hub = SimulatedHub::new().await;
    for parent in ["red", "blue"] {
        let id = hub.create(parent, json!({"can_spawn": true})).await;
        let caller = Caller::Session(id.parse::<SessionId>().unwrap());
        let child = json!({"name": "child", "working_dir": hub.work()});
        hub.call_as(caller, "agents.create", child).await.unwrap();
    }
    let conflict = hub.call("agents.get", json!({"name": "child"})).await.unwrap_err();
    assert_eq!(conflict.kind.to_string(), "conflict", "{conflict:?}");
    for creator in ["created by red", "created by blue"] {
        assert!(conflict.hint.contains(creator), "{conflict:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_renames_what_is_below_it_and_nothing_else() {
    let hub = SimulatedHub::new().await;
    let parent = hub.create("parent", json!({"can_spawn": true})).await;
    let stranger = hub.create("stranger", json!({})).await;
    let caller = Caller::Session(parent.parse::<SessionId>().unwrap());
    let name = json!({"name": "child", "working_dir": hub.work()});
    let child = hub.call_as(caller, "agents.create", name).await.unwrap();
    let to = |id: &serde_json::Value| json!({"session_id": id, "new_name": "new"});
    hub.call_as(caller, "agents.rename", to(&child["id"])).await.unwrap();
    for id in [json!(parent), json!(stranger)] {
        let refused = hub.call_as(caller, "agents.rename", to(&id)).await;
        assert!(refused.is_err(), "{id} was renamed by {parent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_by_which_a_parent_outside_is_known_stays() {
    let hub = SimulatedHub::new().await;
    let parent = hub.ok("identity.parent", json!({"name": "outside"})).await;
    let rename = json!({"session_id": parent["session_id"], "new_name": "other"});
    let refused = hub.call("agents.rename", rename).await.unwrap_err();
    assert!(refused.message.contains("known by this name"), "{refused:?}");
    let again = hub.ok("identity.parent", json!({"name": "outside"})).await;
    assert_eq!(again["session_id"], parent["session_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_make_no_session_a_parent_outside() {
    let hub = SimulatedHub::new().await;
    let parent = hub.create("parent", json!({"can_spawn": true})).await;
    let caller = Caller::Session(parent.parse::<SessionId>().unwrap());
    let work = hub.work();
    let params = json!({"name": "child", "working_dir": work, "metadata": {"identity": true}});
    let child = hub.call_as(caller, "agents.create", params).await.unwrap();
    let rename = json!({"session_id": child["id"], "new_name": "other"});
    hub.call_as(caller, "agents.rename", rename).await.unwrap();
    let chat = json!({"session_id": child["id"], "prompt": "hello"});
    hub.call_as(caller, "agents.chat_async", chat).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_in_which_something_was_denied_says_so() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let chat = hub.chat(&session, "sim:\ntool Bash {\"command\":\"touch x\"}\nsay on").await;
    let approval = hub.wait_for_approval(&session).await;
    hub.respond(&approval, false).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let refused = json!({"denied": 1, "expired": 0});
    assert_eq!(hub.session(&session).await["refused"], refused);
    let list = hub.ok("agents.list", json!({})).await;
    assert_eq!(list["sessions"][0]["refused"], refused);
    hub.chat_to_end(&session, "sim:\nsay fine").await;
    assert!(hub.session(&session).await.get("refused").is_none(), "it is of the newest chat");
}

//! What a session is not told: the patterns of rules above it, and whose a foreign id is.

use std::sync::Arc;

use plexus_core::{CallError, Caller, ErrorKind, SessionId};
use plexus_store::Topic;
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer, bash, within};

#[tokio::test]
async fn rule_test_tells_a_session_no_pattern_that_rules_would_hide() {
    let hub = Arc::new(ChildlessHub::new().await);
    for (decision, pattern) in [
        ("deny", "Bash(hidden-deny:*)"),
        ("ask", "Bash(hidden-ask:*)"),
        ("allow", "Bash(hidden-allow x)"),
    ] {
        hub.ok("loopback.rule_add", json!({"decision": decision, "pattern": pattern})).await;
    }
    hub.engine
        .load_rules(
            std::path::Path::new("loopback.toml"),
            "[[rule]]\ndecision = \"deny\"\npattern = \"Bash(hidden-file:*)\"\n",
        )
        .unwrap();
    let parent = hub.create("parent", json!({"can_spawn": true, "may_decide": ["*"]})).await;
    let as_parent = Caller::Session(parent);
    let child = hub.create_as(as_parent, "child", json!({})).await.unwrap();
    let own = json!({"decision": "deny", "pattern": "Bash(shown-deny:*)"});
    hub.call_as(as_parent, "loopback.rule_add", own).await.unwrap();
    let test = async |caller, command: &str| {
        let params = json!({"session_id": child, "tool_name": "Bash", "input": bash(command)});
        hub.call_as(caller, "loopback.rule_test", params).await.unwrap()
    };
    for (command, expected) in [
        ("hidden-deny x", "deny"),
        ("hidden-file x", "deny"),
        ("hidden-ask x", "ask"),
        ("hidden-allow x", "allow"),
        // What cannot be read may be what a rule denies: the doubt names the rule.
        ("$X y", "ask"),
    ] {
        let told = test(as_parent, command).await;
        assert_eq!((&told["decision"], told.get("rule_id")), (&json!(expected), None), "{told}");
        assert!(!told["why"].as_str().unwrap().contains("hidden-"), "{told}");
        let full = test(Caller::Operator, command).await;
        assert!(full["why"].as_str().unwrap().contains("hidden-"), "{full}");
    }
    let shown = test(as_parent, "shown-deny x").await;
    assert!(shown["why"].as_str().unwrap().contains("shown-deny"), "{shown}");
    // The decision itself says no more.
    let told = answer(tokio::spawn({
        let hub = Arc::clone(&hub);
        async move { hub.permit(child, "t", "Bash", bash("hidden-deny x")).await }
    }))
    .await;
    assert_eq!(told, json!({"behavior": "deny", "message": "denied by a rule"}));
}

/// A session with a chat, and an event of it. There is no agent, so the chat has failed.
async fn with_event(hub: &ChildlessHub, caller: Caller, name: &str) -> (SessionId, Value) {
    let session = hub.create_as(caller, name, json!({})).await.unwrap();
    let prompt = json!({"session_id": session, "prompt": "hi"});
    hub.ok("claudecode.chat_async", prompt).await;
    let mut wake = hub.store.watch(Topic::Session(session));
    let ended = async {
        loop {
            wake.seen();
            let params = json!({"session_id": session, "from_seq": 0});
            let page = hub.ok("claudecode.poll", params).await;
            if page["status"] == "failed" {
                return page["events"][1].clone();
            }
            wake.changed().await;
        }
    };
    (session, within("the end of a chat", ended).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_node_is_as_unknown_as_one_that_does_not_exist() {
    let hub = ChildlessHub::new().await;
    let parent = hub.create("parent", json!({"can_spawn": true})).await;
    let as_parent = Caller::Session(parent);
    let (own, _) = with_event(&hub, as_parent, "own").await;
    let (foreign, event) = with_event(&hub, Caller::Operator, "foreign").await;
    let foreign_node = event["node_id"].as_str().unwrap().to_owned();
    let handle = event["handle"].to_string();
    let unknown = "01a1de6b-3b61-7165-a8ba-abb6087cecc4";
    // Each call, with the place of the node's id empty.
    let calls = [
        ("claudecode.poll", "cursor", json!({"session_id": own})),
        ("claudecode.cursor_set", "cursor", json!({"session_id": own, "consumer": "c"})),
        ("claudecode.render_context", "end", json!({"session_id": own})),
        ("claudecode.fork", "at", json!({"session_id": own, "new_name": "f"})),
    ];
    let refused = async |method: &str, params: Value| -> CallError {
        hub.call_as(as_parent, method, params).await.unwrap_err()
    };
    let same = |foreign_error: CallError, unknown_error: CallError, what: &str| {
        let masked = |text: &str| text.replace(&foreign_node, "NODE").replace(unknown, "NODE");
        assert_eq!(
            (foreign_error.kind(), masked(&foreign_error.message)),
            (unknown_error.kind(), masked(&unknown_error.message)),
            "{what}"
        );
        assert_eq!(foreign_error.kind, ErrorKind::NotFound, "{what}");
        let shown = serde_json::to_string(&foreign_error).unwrap();
        assert!(!shown.contains(&foreign.to_string()), "{what} names the session: {shown}");
    };
    for (method, field, params) in &calls {
        let with = |node: &str| {
            let mut params = params.clone();
            params[field] = json!(node);
            params
        };
        same(
            refused(method, with(&foreign_node)).await,
            refused(method, with(unknown)).await,
            method,
        );
    }
    let method = "plexus.resolve_handle";
    let of = |node: &str| -> Value {
        let handle = handle.replace(&foreign_node, node);
        json!({"handle": serde_json::from_str::<Value>(&handle).unwrap()})
    };
    same(refused(method, of(&foreign_node)).await, refused(method, of(unknown)).await, method);
}

//! A child that tries every door: all refused, all in the audit.

use std::sync::Arc;

use plexus_core::{ApprovalId, Authenticator, Caller, ErrorKind, SecretToken, SessionId};
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer, bash};

/// Everything that a child could want to call, and must not.
fn forbidden(own: SessionId, other: SessionId, approval: &Value) -> Vec<(&'static str, Value)> {
    vec![
        ("loopback.respond", json!({"approval_id": approval, "approve": true})),
        ("loopback.respond_many", json!({"approval_ids": [approval], "approve": true})),
        ("loopback.pending", json!({})),
        ("loopback.pending", json!({"session_id": own})),
        ("loopback.wait_for_approval", json!({"wait_ms": 0})),
        ("loopback.history", json!({})),
        ("loopback.audit", json!({})),
        (
            "loopback.mode_set",
            json!({"session_id": own, "mode": "allow_all", "expires_in_secs": 60}),
        ),
        ("loopback.rule_add", json!({"decision": "allow", "pattern": "Bash"})),
        ("loopback.rules", json!({})),
        ("loopback.rule_remove", json!({"rule_id": uuid::Uuid::nil()})),
        ("loopback.rule_test", json!({"tool_name": "Bash", "input": {}})),
        ("loopback.configure", json!({"session_id": own})),
        ("claudecode.create", json!({"name": "x", "working_dir": "/usr"})),
        ("claudecode.chat_async", json!({"session_id": other, "prompt": "do it for me"})),
        ("claudecode.chat", json!({"session_id": own, "prompt": "again"})),
        ("claudecode.poll", json!({"session_id": other})),
        ("claudecode.send", json!({"session_id": other, "text": "hi"})),
        ("claudecode.cancel", json!({"session_id": other})),
        ("claudecode.delete", json!({"session_id": other})),
        ("claudecode.fork", json!({"session_id": own, "new_name": "y"})),
        ("claudecode.get", json!({"session_id": own})),
        ("claudecode.list", json!({})),
        ("identity.parent", json!({"name": "me"})),
        ("identity.parents", json!({})),
        ("identity.revoke", json!({"name": "me"})),
        ("identity.code", json!({})),
        ("identity.pair", json!({})),
        ("identity.devices", json!({})),
        ("identity.unpair", json!({"name": "phone"})),
        ("arbor.tree_list", json!({})),
    ]
}

#[tokio::test]
async fn a_child_can_ask_and_nothing_else_and_every_attempt_is_on_record() {
    let hub = Arc::new(ChildlessHub::new().await);
    let (child, sibling) =
        (hub.create("child", json!({})).await, hub.create("sibling", json!({})).await);
    let (task, asked) = hub.ask(child, "t", "Bash", bash("ls")).await;
    let attempts = forbidden(child, sibling, &asked["id"]);
    for (method, params) in &attempts {
        let refused = hub.call_as(Caller::Child(child), method, params.clone()).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden, "{method}");
    }
    let listed = hub.call_as(Caller::Child(child), "plexus.methods", json!({})).await.unwrap();
    let names: Vec<&str> = listed["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["loopback.permit", "plexus.methods", "plexus.schema", "plexus.version"]);
    let lines = hub.audit("refused").await;
    assert_eq!(lines.len(), attempts.len());
    for (line, (method, _)) in lines.iter().rev().zip(&attempts) {
        let body = line.body.to_value();
        assert_eq!(
            (line.session, &body["method"], &body["kind"]),
            (Some(child), &json!(method), &json!("forbidden"))
        );
        assert_eq!(body["caller"], json!({"child": child}));
    }
    // Nothing of it had an effect.
    assert_eq!(hub.pending_for(child, "t").await["id"], asked["id"]);
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
}

#[tokio::test]
async fn a_session_that_names_others_or_guesses_ids_learns_nothing() {
    let hub = Arc::new(ChildlessHub::new().await);
    let grant = json!({"can_spawn": true, "may_decide": ["*"]});
    let (me, victim) = (hub.create("me", grant.clone()).await, hub.create("victim", grant).await);
    let of_victim = hub.create_as(Caller::Session(victim), "child", json!({})).await.unwrap();
    let (task, asked) = hub.ask(of_victim, "t", "Bash", bash("ls")).await;
    let (own_task, own) = hub.ask(me, "t", "Bash", bash("ls")).await;
    let caller = Caller::Session(me);
    let guessed = ApprovalId::generate();
    for (approval, what) in [
        (asked["id"].clone(), "a stranger's"),
        (own["id"].clone(), "its own"),
        (json!(guessed), "a guess"),
    ] {
        for approve in [true, false] {
            let refused = hub
                .call_as(
                    caller,
                    "loopback.respond",
                    json!({"approval_id": approval, "approve": approve}),
                )
                .await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::NotFound, "{what}");
            assert_eq!(
                refused.message,
                format!("find the approval {}", approval.as_str().unwrap()),
                "{what} reads like any other"
            );
        }
    }
    let many = json!({"approval_ids": [asked["id"], own["id"]], "approve": true});
    let outcomes =
        hub.call_as(caller, "loopback.respond_many", many).await.unwrap()["outcomes"].clone();
    assert!(
        outcomes.as_array().unwrap().iter().all(|outcome| outcome["error"]["kind"] == "not_found"),
        "{outcomes}"
    );
    for id in [victim, of_victim, me, SessionId::generate()] {
        for (method, params) in [
            ("claudecode.get", json!({"session_id": id})),
            ("claudecode.poll", json!({"session_id": id})),
            ("claudecode.cancel", json!({"session_id": id})),
            ("claudecode.delete", json!({"session_id": id})),
            ("claudecode.chat_async", json!({"session_id": id, "prompt": "x"})),
            ("claudecode.fork", json!({"session_id": id, "new_name": "x"})),
            ("loopback.rule_test", json!({"session_id": id, "tool_name": "Bash", "input": {}})),
            (
                "loopback.rule_add",
                json!({"decision": "allow", "pattern": "Bash", "scope": {"session": id}}),
            ),
        ] {
            let refused = hub.call_as(caller, method, params).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::NotFound, "{method} of {id}: {refused:?}");
        }
    }
    let mode = json!({"session_id": of_victim, "mode": "allow_all", "expires_in_secs": 60});
    for (method, params) in
        [("loopback.mode_set", mode), ("loopback.configure", json!({"session_id": of_victim}))]
    {
        assert_eq!(
            hub.call_as(caller, method, params).await.unwrap_err().kind,
            ErrorKind::Forbidden,
            "{method}"
        );
    }
    assert!(hub.audit("refused").await.iter().all(|line| line.session == Some(me)));
    assert!(hub.audit("refused").await.len() > 40);
    for (task, asked) in [(task, asked), (own_task, own)] {
        hub.respond(Caller::Operator, &asked, true).await.unwrap();
        assert_eq!(answer(task).await["behavior"], "allow");
    }
}

#[tokio::test]
async fn the_same_call_with_other_input_is_denied_and_on_record() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("ls")).await;
    // Before the decision, and after it: an allow for one input is no allow for another.
    let told = hub.permit(session, "t", "Bash", bash("rm -rf /")).await;
    assert_eq!(told["behavior"], "deny");
    hub.respond(Caller::Operator, &asked, true).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "allow");
    let told = hub.permit(session, "t", "Bash", bash("rm -rf /")).await;
    assert_eq!(told["behavior"], "deny");
    assert!(told["message"].as_str().unwrap().contains("other input"), "{told}");
    let lines = hub.audit("refused").await;
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.session == Some(session) && line.body.to_value()["tool_use_id"] == "t"));
}

#[tokio::test]
async fn a_malformed_request_is_refused_with_words_and_leaves_nothing_waiting() {
    let hub = ChildlessHub::new().await;
    let session = hub.create("s", json!({})).await;
    for wrong in [
        json!({}),
        json!({"tool_name": "Bash", "input": {}}),
        json!({"tool_name": "Bash", "input": "ls", "tool_use_id": "t"}),
        json!({"tool_name": 1, "input": {}, "tool_use_id": "t"}),
        json!({"tool_name": "", "input": {}, "tool_use_id": "t"}),
        json!({"tool_name": "Bash", "input": {}, "tool_use_id": ""}),
        json!([]),
    ] {
        let refused = hub
            .call_as(Caller::Child(session), "loopback.permit", wrong.clone())
            .await
            .unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{wrong}");
        assert!(!refused.message.is_empty());
    }
    for not_a_child in [Caller::Operator, Caller::Session(session)] {
        let params = json!({"tool_name": "Bash", "input": {}, "tool_use_id": "t"});
        let refused = hub.call_as(not_a_child, "loopback.permit", params).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
    }
    assert_eq!(hub.ok("loopback.pending", json!({})).await["approvals"], json!([]));
}

#[tokio::test]
async fn tokens_stand_for_one_caller_and_end() {
    let hub = ChildlessHub::new().await;
    let identity = Arc::clone(&hub.engine.identity);
    let who = async |token: &str| identity.authenticate(&SecretToken::new(token)).await;
    let session = hub.create("s", json!({})).await;
    let config = hub.ok("loopback.configure", json!({"session_id": session})).await;
    let header = config["mcp_config"]["mcpServers"]["plexus"]["headers"]["Authorization"]
        .as_str()
        .unwrap()
        .to_owned();
    let child = header.strip_prefix("Bearer ").unwrap();
    assert_eq!(who(child).await.unwrap(), Caller::Child(session));
    assert_eq!(who("plx_operator-of-the-hub-0123456789").await.unwrap(), Caller::Operator);
    let parent = hub.ok("identity.parent", json!({"name": "ide"})).await;
    assert!(matches!(who(parent["token"].as_str().unwrap()).await.unwrap(), Caller::Session(_)));
    for wrong in [
        "",
        "plx_",
        "plx_operator-of-the-hub-012345678",
        &child[..child.len() - 1],
        &format!("{child}0"),
        &child.to_uppercase(),
    ] {
        assert_eq!(who(wrong).await.unwrap_err().kind, ErrorKind::Unauthorized, "{wrong}");
    }
    let noted = hub.ok("loopback.audit", json!({})).await["lines"].clone();
    assert_eq!(noted.as_array().unwrap().len(), 6);
    assert!(!noted.to_string().contains(&child[8..24]), "no part of a token is on record");
    hub.ok("claudecode.delete", json!({"session_id": session})).await;
    assert_eq!(
        who(child).await.unwrap_err().kind,
        ErrorKind::Unauthorized,
        "a token goes with its session"
    );
    // A one-time code works once.
    let code = hub.ok("identity.code", json!({})).await["code"].as_str().unwrap().to_owned();
    let token = identity.exchange(&SecretToken::new(code.clone())).await.unwrap();
    assert_eq!(who(token.token.expose()).await.unwrap(), Caller::Operator);
    assert_eq!(
        identity.exchange(&SecretToken::new(code)).await.unwrap_err().kind,
        ErrorKind::Unauthorized
    );
}

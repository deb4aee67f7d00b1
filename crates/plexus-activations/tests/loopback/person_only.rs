//! Calls that the agent leaves to a person: rules and sessions may deny them, and only the operator
//! may allow them.

use plexus_core::{CallError, Caller, ErrorKind, SessionId};
use plexus_engine::approvals::Question;
use plexus_store::{ApprovalRecord, ApprovalStatus, DecidedBy, JsonText, Owner};
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, bash};

const REASON: &str = "its tool demands a person";

/// Asks on the control channel about a call that the agent leaves to a person.
async fn ask(hub: &ChildlessHub, session: SessionId, id: &str) -> ApprovalRecord {
    let session = hub.store.session(session).await.unwrap();
    let question = Question {
        session: &session,
        chat: None,
        run: None,
        channel: "control",
        request_id: id,
        tool_name: "Bash",
        tool_use_id: id,
        input: JsonText::from(bash("make deploy")),
        description: None,
        person_only: Some(REASON.to_owned()),
    };
    hub.engine.approvals.open(&question).await.unwrap()
}

/// A session that may allow everything of its children, and a child of it.
async fn family(hub: &ChildlessHub) -> (Caller, SessionId) {
    let grants = json!({"can_spawn": true, "may_decide": ["*"], "allowed_tools": ["Bash"]});
    let parent = Caller::Session(hub.create("parent", grants).await);
    let child = hub.create_as(parent, "child", json!({})).await.unwrap();
    (parent, child)
}

async fn pending(hub: &ChildlessHub, session: SessionId) -> Vec<Value> {
    let page = hub.ok("loopback.pending", json!({"session_id": session})).await;
    page["approvals"].as_array().unwrap().clone()
}

async fn respond(
    hub: &ChildlessHub,
    caller: Caller,
    asked: &ApprovalRecord,
    approve: bool,
) -> Result<Value, CallError> {
    let answer = json!({"approval_id": asked.id, "approve": approve});
    hub.call_as(caller, "loopback.respond", answer).await
}

#[tokio::test]
async fn a_person_only_call_passes_every_rule_and_mode() {
    let hub = ChildlessHub::new().await;
    let (_, child) = family(&hub).await;
    hub.ok("loopback.rule_add", json!({"decision": "allow", "pattern": "Bash"})).await;
    let all = json!({"session_id": child, "mode": "allow_all", "expires_in_secs": 600});
    hub.ok("loopback.mode_set", all).await;
    let asked = ask(&hub, child, "t1").await;
    assert_eq!((asked.status, asked.owner), (ApprovalStatus::Pending, Owner::Operator));
    // What comes later does not release it either.
    hub.ok("loopback.rule_add", json!({"decision": "allow", "pattern": "Bash(make:*)"})).await;
    let shown = pending(&hub, child).await;
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0]["person_only"], REASON);
    assert_eq!(shown[0]["suggested_rules"], json!([]));
    respond(&hub, Caller::Operator, &asked, true).await.unwrap();
    let decided = hub.store.approval(asked.id).await.unwrap();
    assert_eq!(decided.status, ApprovalStatus::Allowed);
    assert_eq!(decided.decision.unwrap().by, DecidedBy::Operator);
}

#[tokio::test]
async fn a_session_may_only_deny_a_person_only_call() {
    let hub = ChildlessHub::new().await;
    let (parent, child) = family(&hub).await;
    let asked = ask(&hub, child, "t1").await;
    let refused = respond(&hub, parent, &asked, true).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert!(refused.message.contains(REASON), "{}", refused.message);
    assert_eq!(pending(&hub, child).await.len(), 1);
    respond(&hub, parent, &asked, false).await.unwrap();
    assert_eq!(hub.store.approval(asked.id).await.unwrap().status, ApprovalStatus::Denied);
}

#[tokio::test]
async fn a_person_only_call_is_allowed_once_and_alone() {
    let hub = ChildlessHub::new().await;
    let (_, child) = family(&hub).await;
    let asked = ask(&hub, child, "t1").await;
    let many = json!({"approval_ids": [asked.id], "approve": true});
    let outcomes = hub.ok("loopback.respond_many", many).await["outcomes"].clone();
    assert_eq!(outcomes[0]["error"]["kind"], "forbidden", "{outcomes}");
    let remember = json!({"approval_id": asked.id, "approve": true, "remember": {"scope": "all"}});
    let refused = hub.call("loopback.respond", remember).await.unwrap_err();
    assert!(refused.message.contains(REASON), "{}", refused.message);
    assert_eq!(pending(&hub, child).await.len(), 1);
    let many = json!({"approval_ids": [asked.id], "approve": false});
    let outcomes = hub.ok("loopback.respond_many", many).await["outcomes"].clone();
    assert_eq!(outcomes[0]["ok"], true, "{outcomes}");
}

#[tokio::test]
async fn a_deny_rule_denies_a_person_only_call() {
    let hub = ChildlessHub::new().await;
    let (_, child) = family(&hub).await;
    hub.ok("loopback.rule_add", json!({"decision": "deny", "pattern": "Bash(make:*)"})).await;
    let asked = ask(&hub, child, "t1").await;
    assert_eq!(asked.status, ApprovalStatus::Denied);
}

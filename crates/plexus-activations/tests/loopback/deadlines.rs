//! Nothing waits unseen: deadlines, reminders, escalation, across restarts.

use std::sync::Arc;
use std::time::Duration;

use plexus_core::{ApprovalId, Caller, ErrorKind, SessionId};
use plexus_store::{Change, Owner, PageRequest, Priority, ReadLimit, StartChat, Topic};
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer, bash, pass, within};

/// Waits until the approval has been passed on, or reminded of, at least this often.
async fn at_step(hub: &ChildlessHub, id: ApprovalId, step: u32) {
    let mut wake = hub.store.watch(Topic::Approval(id));
    within("an escalation", async {
        while hub.store.approval(id).await.unwrap().escalations < step {
            wake.changed().await;
        }
    })
    .await;
}

#[tokio::test]
async fn expiry_is_a_denial_that_says_so() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({"loopback_timeout_secs": 1})).await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("ls")).await;
    assert_eq!(
        answer(task).await,
        json!({"behavior": "deny", "message": "denied: nobody answered within 1 s"})
    );
    let decided = hub.last_decision(session).await;
    assert_eq!(
        (&decided["status"], &decided["decided_by"]),
        (&json!("expired"), &json!("deadline"))
    );
    let late = hub.respond(Caller::Operator, &asked, true).await.unwrap_err();
    assert_eq!(
        (late.kind(), &late.standing.unwrap()["status"]),
        (ErrorKind::Conflict, &json!("expired"))
    );
}

#[tokio::test]
async fn a_deadline_keeps_counting_while_no_server_runs() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let hub = Arc::new(ChildlessHub::in_file(folder).await);
    let short = hub.create("short", json!({"loopback_timeout_secs": 1})).await;
    let long = hub.create("long", json!({"loopback_timeout_secs": 1000})).await;
    let (one, _) = hub.ask(short, "t", "Bash", bash("ls")).await;
    let (two, asked) = hub.ask(long, "t", "Bash", bash("ls")).await;
    // A server that dies takes its connections with it, and nothing else.
    one.abort();
    two.abort();
    let _both = (one.await, two.await);
    let hub = Arc::into_inner(hub).unwrap();
    hub.down().await;
    let folder = Arc::clone(&hub.folder);
    drop(hub);
    pass(Duration::from_millis(1_100)).await;
    let hub = Arc::new(ChildlessHub::in_file(folder).await);
    let again = hub.permit(short, "t", "Bash", bash("ls")).await;
    assert_eq!(again, json!({"behavior": "deny", "message": "denied: nobody answered within 1 s"}));
    let still = hub.pending_for(long, "t").await;
    assert_eq!((&still["id"], &still["expires_at"]), (&asked["id"], &asked["expires_at"]));
    let call = plexus_core::Call::plain(Caller::Child(long));
    let rejoin = plexus_core::method::raw(&json!({"tool_use_id": "t"})).unwrap();
    let inner = Arc::clone(&hub.hub);
    let joined =
        tokio::spawn(
            async move { inner.call_internal(call, "loopback.permit_rejoin", rejoin).await },
        );
    hub.respond(Caller::Operator, &still, true).await.unwrap();
    let plexus_core::Reply::Value(told) = within("the answer", joined).await.unwrap().unwrap()
    else {
        panic!()
    };
    assert_eq!(
        told.give().await.unwrap().get(),
        r#"{"behavior":"allow","updatedInput":{"command":"ls"}}"#
    );
}

#[tokio::test]
async fn a_session_without_a_deadline_is_reminded_of_and_passed_on_all_the_same() {
    let hub = Arc::new(ChildlessHub::new().await);
    let grant = json!({"can_spawn": true, "may_decide": ["*"], "loopback_timeout_secs": 0});
    let parent = hub.create("parent", grant).await;
    let params = json!({"loopback_timeout_secs": 0, "escalate_after_secs": 1});
    let child = hub.create_as(Caller::Session(parent), "child", params).await.unwrap();
    let (task, asked) = hub.ask(child, "t", "Bash", bash("ls")).await;
    assert_eq!(asked.get("expires_at"), None);
    let id = asked["id"].as_str().unwrap().parse().unwrap();
    at_step(&hub, id, 1).await;
    let asked = hub.pending_for(child, "t").await;
    assert_eq!(asked["escalated_to"], "operator");
    // And again: a reminder.
    at_step(&hub, id, 2).await;
    hub.respond(Caller::Operator, &asked, true).await.unwrap();
    answer(task).await;
}

#[tokio::test]
async fn an_unanswered_request_goes_up_to_the_grandparent_then_to_the_operator_and_the_first_answer_wins()
 {
    let hub = Arc::new(ChildlessHub::new().await);
    let grant = json!({"can_spawn": true, "may_decide": ["Bash"], "loopback_timeout_secs": 600});
    let top = hub.create("top", grant.clone()).await;
    let middle = hub.create_as(Caller::Session(top), "middle", grant).await.unwrap();
    let params = json!({"loopback_timeout_secs": 600, "escalate_after_secs": 1});
    let child = hub.create_as(Caller::Session(middle), "child", params).await.unwrap();
    // A chat, so that every step leaves a notice: a slow machine may see two steps at once.
    let start = Change::StartChat(StartChat::new(child, "go"));
    hub.store.commit(vec![start], Priority::Normal).await.unwrap();
    let (task, asked) = hub.ask(child, "t", "Bash", bash("ls")).await;
    let id = asked["id"].as_str().unwrap().parse().unwrap();
    at_step(&hub, id, 2).await;
    assert_eq!(hub.store.approval(id).await.unwrap().owner, Owner::Operator);
    assert_eq!(hub.pending_for(child, "t").await["escalated_to"], "operator");
    let events = hub.store.read_events(child, 0, 0, ReadLimit::events(100)).await.unwrap().events;
    let passed_on = events
        .iter()
        .filter_map(|event| event.body.as_str().split_once("passed on to ")?.1.split(';').next());
    assert_eq!(
        passed_on.collect::<Vec<_>>(),
        [format!("session {top}"), "the operator".to_owned()]
    );
    // The session that was asked before may still answer.
    hub.respond(Caller::Session(middle), &asked, true).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "allow");
    assert_eq!(hub.last_decision(child).await["decided_by"], json!({"session": middle}));
}

#[tokio::test]
async fn who_cannot_allow_a_call_is_passed_over() {
    let hub = Arc::new(ChildlessHub::new().await);
    let top =
        hub.create("top", json!({"can_spawn": true, "may_decide": ["Bash", "WebSearch"]})).await;
    let grant = json!({"can_spawn": true, "may_decide": ["WebSearch"]});
    let middle = hub.create_as(Caller::Session(top), "middle", grant).await.unwrap();
    let child = hub.create_as(Caller::Session(middle), "child", json!({})).await.unwrap();
    let owner = async |tool: &str, input: Value| {
        let (task, asked) = hub.ask(child, tool, tool, input).await;
        let id = asked["id"].as_str().unwrap().parse().unwrap();
        let owner = hub.store.approval(id).await.unwrap().owner;
        hub.respond(Caller::Operator, &asked, false).await.unwrap();
        answer(task).await;
        owner
    };
    assert_eq!(owner("WebSearch", json!({"query": "x"})).await, Owner::Session(middle));
    assert_eq!(owner("Bash", bash("ls")).await, Owner::Session(top));
    assert_eq!(owner("WebFetch", json!({"url": "https://example.org"})).await, Owner::Operator);
}

#[tokio::test]
async fn deleting_a_session_takes_its_requests_along() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session: SessionId = hub.create("s", json!({})).await;
    let (task, _) = hub.ask(session, "t", "Bash", bash("ls")).await;
    hub.ok("claudecode.delete", json!({"session_id": session})).await;
    assert_eq!(answer(task).await["behavior"], "deny");
    let left = hub.store.approvals(Default::default(), PageRequest::first(10)).await.unwrap();
    assert!(left.items.is_empty());
}

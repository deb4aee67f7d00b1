//! `pending`, `wait_for_approval` and `history`: every field, and who sees what.

use std::sync::Arc;

use futures::StreamExt as _;
use plexus_core::digest::input_digest;
use plexus_core::{Call, Caller, ErrorKind, Reply, ReplyStream};
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer, bash, within};

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn a_pending_approval_has_every_documented_field() {
    let hub = Arc::new(ChildlessHub::new().await);
    assert_eq!(hub.ok("loopback.pending", json!({})).await, json!({"type": "ok", "approvals": []}));
    let session = hub.create("asker", json!({"loopback_timeout_secs": 100})).await;
    let (task, asked) = hub.ask(session, "toolu_1", "Bash", bash("git status")).await;
    let expected = [
        "created_at",
        "expires_at",
        "handle",
        "id",
        "input",
        "input_digest",
        "risk",
        "session_id",
        "session_name",
        "status",
        "suggested_rules",
        "target",
        "tool_name",
        "tool_use_id",
        "working_dir",
    ];
    assert_eq!(keys(&asked), expected);
    assert_eq!(asked["session_id"], json!(session));
    assert_eq!(asked["session_name"], "asker");
    assert_eq!(asked["tool_name"], "Bash");
    assert_eq!(asked["tool_use_id"], "toolu_1");
    assert_eq!(asked["input"], bash("git status"));
    assert_eq!(asked["input_digest"], input_digest(&bash("git status")));
    assert_eq!(asked["status"], "pending");
    assert_eq!(asked["target"], json!({"kind": "shell", "command": "git status"}));
    let reasons = ["only looks, as far as its words tell"];
    assert_eq!(asked["risk"], json!({"level": "low", "score": 20, "reasons": reasons}));
    assert_eq!(asked["expires_at"].as_i64().unwrap() - asked["created_at"].as_i64().unwrap(), 100);
    let patterns: Vec<&str> = asked["suggested_rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["pattern"].as_str().unwrap())
        .collect();
    assert_eq!(patterns, ["Bash(git status)", "Bash(git status:*)", "Bash"]);

    let polled = hub.ok("loopback.wait_for_approval", json!({"wait_ms": 0})).await;
    assert_eq!(polled["approvals"][0], asked);
    hub.respond(Caller::Operator, &asked, true).await.unwrap();
    answer(task).await;
    let decided = hub.last_decision(session).await;
    let expected = [
        "approval_id",
        "created_at",
        "decided_at",
        "decided_by",
        "delivered_at",
        "handle",
        "input",
        "input_digest",
        "session_id",
        "status",
        "target",
        "tool_name",
        "tool_use_id",
    ];
    assert_eq!(keys(&decided), expected);
    assert_eq!(decided["target"], asked["target"]);
    assert_eq!(
        (&decided["status"], &decided["decided_by"]),
        (&json!("allowed"), &json!("operator"))
    );
    assert_eq!(hub.ok("loopback.pending", json!({})).await["approvals"], json!([]));
}

#[tokio::test]
async fn waiting_for_an_approval_ends_with_one_or_with_the_time() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    assert_eq!(
        hub.ok("loopback.wait_for_approval", json!({"wait_ms": 5})).await,
        json!({"type": "timeout"})
    );
    for params in [json!({"wait_ms": 60_000}), json!({"wait_ms": 60_000, "session_id": session})] {
        let waiting = {
            let (hub, params) = (Arc::clone(&hub), params.clone());
            tokio::spawn(async move { hub.ok("loopback.wait_for_approval", params).await })
        };
        let (task, asked) = hub.ask(session, &format!("t{params}"), "Bash", bash("ls")).await;
        assert_eq!(within("the waiter", waiting).await.unwrap()["approvals"][0]["id"], asked["id"]);
        hub.respond(Caller::Operator, &asked, true).await.unwrap();
        answer(task).await;
    }
    let too_long =
        hub.call("loopback.wait_for_approval", json!({"wait_ms": 60_001})).await.unwrap_err();
    assert_eq!(too_long.kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn pages_of_pending_and_decided_approvals_are_complete() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let mut tasks = Vec::new();
    for n in 0..7 {
        tasks.push(hub.ask(session, &format!("t{n}"), "Bash", bash("ls")).await);
    }
    let read = async |method: &str, list: &str, id: &str| {
        let (mut all, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() {
                json!({"limit": 3})
            } else {
                json!({"limit": 3, "cursor": cursor})
            };
            let page = hub.ok(method, params).await;
            all.extend(page[list].as_array().unwrap().iter().map(|it| it[id].clone()));
            match page.get("cursor") {
                Some(next) => cursor = next.clone(),
                None => return all,
            }
        }
    };
    let mut asked: Vec<Value> = tasks.iter().map(|(_, asked)| asked["id"].clone()).collect();
    assert_eq!(read("loopback.pending", "approvals", "id").await, asked);
    let many = json!({"approval_ids": asked, "approve": true});
    hub.ok("loopback.respond_many", many).await;
    for (task, _) in tasks {
        answer(task).await;
    }
    asked.reverse();
    assert_eq!(read("loopback.history", "decisions", "approval_id").await, asked);
}

#[tokio::test]
async fn a_session_sees_what_waits_below_it_and_nothing_else() {
    let hub = Arc::new(ChildlessHub::new().await);
    let grant = json!({"can_spawn": true, "may_decide": ["*"]});
    let (a, b) = (hub.create("a", grant.clone()).await, hub.create("b", grant).await);
    let below_a = hub.create_as(Caller::Session(a), "x", json!({})).await.unwrap();
    let below_b = hub.create_as(Caller::Session(b), "x", json!({})).await.unwrap();
    let (one, first) = hub.ask(below_a, "t", "Bash", bash("ls")).await;
    let (two, _) = hub.ask(below_b, "t", "Bash", bash("ls")).await;
    let (own, _) = hub.ask(a, "t", "Bash", bash("ls")).await;
    for method in ["loopback.pending", "loopback.wait_for_approval"] {
        let seen = hub.call_as(Caller::Session(a), method, json!({})).await.unwrap();
        let ids: Vec<&Value> =
            seen["approvals"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, [&first["id"]], "{method}");
        for hidden in [b, below_b, a] {
            let refused = hub
                .call_as(Caller::Session(a), method, json!({"session_id": hidden}))
                .await
                .unwrap_err();
            assert_eq!(refused.kind, ErrorKind::NotFound, "{method} of a stranger, or of itself");
        }
    }
    let all: Vec<Value> =
        hub.ok("loopback.pending", json!({})).await["approvals"].as_array().unwrap().clone();
    let ids: Vec<&Value> = all.iter().map(|it| &it["id"]).collect();
    hub.ok("loopback.respond_many", json!({"approval_ids": ids, "approve": true})).await;
    for task in [one, two, own] {
        answer(task).await;
    }
    let seen = hub.call_as(Caller::Session(a), "loopback.history", json!({})).await.unwrap();
    let decided: Vec<&Value> =
        seen["decisions"].as_array().unwrap().iter().map(|it| &it["approval_id"]).collect();
    assert_eq!(decided, [&first["id"]]);
}

/// Listens to what waits, as somebody.
async fn listen(hub: &ChildlessHub, caller: Caller) -> ReplyStream {
    let call = Call { can_stream: true, ..Call::plain(caller) };
    let params = plexus_core::method::raw(&json!({})).unwrap();
    match hub.hub.call_internal(call, "loopback.pending_changes", params).await.unwrap() {
        Reply::Stream(stream) => stream,
        Reply::Value(answer) => panic!("no stream: {answer:?}"),
    }
}

#[tokio::test]
async fn a_listener_hears_of_its_own_requests_and_a_stranger_of_none() {
    let hub = Arc::new(ChildlessHub::new().await);
    let (parent, stranger) =
        (hub.create("parent", json!({})).await, hub.create("stranger", json!({})).await);
    let child = hub.create("child", json!({"parent": parent})).await;
    let mut operator_hears = listen(&hub, Caller::Operator).await;
    let mut parent_hears = listen(&hub, Caller::Session(parent)).await;
    let mut child_hears = listen(&hub, Caller::Session(child)).await;
    let mut stranger_hears = listen(&hub, Caller::Session(stranger)).await;
    let (task, asked) = hub.ask(child, "toolu_1", "Bash", bash("ls")).await;
    for (who, stream) in [("the operator", &mut operator_hears), ("the parent", &mut parent_hears)]
    {
        let told =
            within(&format!("the question, told to {who}"), stream.next()).await.unwrap().unwrap();
        assert_eq!(told.body.get(), r#"{"waiting":1}"#, "{who}");
    }
    // All were woken by the same commit. But a session cannot decide its own question, so it does
    // not hear of it here, and neither does a stranger.
    for (who, stream) in [("the child", &mut child_hears), ("a stranger", &mut stranger_hears)] {
        assert!(futures::FutureExt::now_or_never(stream.next()).is_none(), "{who} was told");
    }
    hub.respond(Caller::Session(parent), &asked, false).await.unwrap();
    answer(task).await;
    for (who, stream) in [("the operator", &mut operator_hears), ("the parent", &mut parent_hears)]
    {
        let told =
            within(&format!("the decision, told to {who}"), stream.next()).await.unwrap().unwrap();
        assert_eq!(told.body.get(), r#"{"waiting":0}"#, "{who}");
    }
}

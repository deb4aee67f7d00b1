//! Blocked calls that survive a lost connection and another process.

use std::sync::Arc;

use plexus_transport::Limits;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::mcp_client::{Events, McpClient};
use crate::support::{CHILD, HubState, OPERATOR, OTHER_CHILD, PARENT, Server, until};

fn ask(id: Value, key: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "test_ask", "arguments": {"key": key}, "_meta": {"progressToken": 3, "claudecode/toolUseId": key}}})
}

const ALLOW: &str = r#"{"behavior":"allow","updatedInput":{"n":1}}"#;

fn allow() -> Value {
    serde_json::from_str(ALLOW).unwrap()
}

#[tokio::test]
async fn the_stream_opens_at_once_and_the_answer_is_exactly_one_text_block() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let mut events = Events::of(client.post(&ask(json!("r-1"), "k1")).await);
    let first = events.next().await.unwrap();
    assert!(first.id.is_some());
    assert_eq!((first.retry, first.data.as_str()), (Some(15_000), ""));
    until("the question", || state.knows("k1")).await;
    state.answer("k1", allow());
    let answer = events.answer().await;
    assert_eq!(
        answer,
        json!({"jsonrpc": "2.0", "id": "r-1", "result": {"content": [{"type": "text", "text": ALLOW}]}})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_to_come_back_with_is_sent_before_the_work_begins() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let mut question = ask(json!(1), "k1");
    question["params"]["arguments"]["input"] = json!({"stands_still": true});
    let mut events = Events::of(client.post(&question).await);
    assert!(events.next().await.unwrap().id.is_some());
    assert!(!state.knows("k1"), "the work stands still where it began");
    state.answer("go", allow());
    until("the question", || state.knows("k1")).await;
    state.answer("k1", allow());
    assert_eq!(events.answer().await["result"]["content"][0]["text"], ALLOW);
}

/// Claude Code keeps one retry interval for all streams of a connection, the last one it received,
/// and counts their failures together.
#[tokio::test]
async fn no_other_stream_of_a_child_shortens_the_patience_of_its_blocked_call() {
    let server = Server::start(&Arc::default()).await;
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mut events = Events::of(client.post(&list).await);
    assert_eq!(events.next().await.unwrap().retry, Some(15_000));
    assert_eq!(client.get(None).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    let (parent, _) = McpClient::begin(&server, PARENT).await;
    assert_eq!(Events::of(parent.get(None).await).next().await.unwrap().retry, Some(15_000));
}

#[tokio::test]
async fn every_failure_is_a_denial_with_a_reason() {
    let server = Server::start(&Arc::default()).await;
    for (token, arguments, reason) in [
        (CHILD, json!({"key": "k", "input": {"bad": 1}}), "use that input"),
        (CHILD, json!({"key": "k", "surprise": 1}), "surprise"),
        (CHILD, json!({"key": 7}), "read the parameters"),
        (CHILD, json!({}), "read the parameters"),
        (CHILD, json!([]), "read the parameters"),
        (OPERATOR, json!({"key": "k"}), "it is not for you"),
    ] {
        let (mut client, _) = McpClient::begin(&server, token).await;
        let result = client.call("test_ask", arguments.clone()).await;
        assert_eq!(result.as_object().unwrap().keys().collect::<Vec<_>>(), ["content"], "{result}");
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        let denial: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(denial["behavior"], "deny");
        assert!(denial["message"].as_str().unwrap().contains(reason), "{arguments}: {denial}");
    }
}

#[tokio::test]
async fn a_blocked_call_is_answered_by_a_process_that_never_knew_its_session() {
    let state = Arc::<HubState>::default();
    let server = Server::lasting(&state).await;
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let session = client.session.clone();
    let mut events = Events::of(client.post(&ask(json!(41), "k1")).await);
    let id = events.next().await.unwrap().id.unwrap();
    until("the question", || state.knows("k1")).await;
    let address = server.kill();
    assert_eq!(events.next().await, None, "the connection broke without an answer");

    let server = Server::at(&state, Limits::default(), address).await;
    let mut client = McpClient::new(&server, CHILD);
    client.session = session;
    assert_eq!(
        client.post(&ask(json!(42), "k2")).await.status(),
        StatusCode::NOT_FOUND,
        "a new call begins again"
    );
    let mut events = Events::of(client.get(Some(&id)).await);
    let fresh = events.next().await.unwrap();
    assert_ne!(fresh.id.as_deref(), Some(id.as_str()));
    assert_eq!(fresh.retry, Some(15_000));

    // A second restart during the same wait.
    let session = client.session.clone();
    let address = server.kill();
    assert_eq!(events.next().await, None);
    let server = Server::at(&state, Limits::default(), address).await;
    let mut client = McpClient::new(&server, CHILD);
    client.session = session;
    let mut events = Events::of(client.get(fresh.id.as_deref()).await);
    let third = events.next().await.unwrap().id;
    assert!(third.is_some() && third != fresh.id);
    state.answer("k1", allow());
    let answer = events.answer().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(41), &json!(ALLOW))
    );
}

#[tokio::test]
async fn an_answer_that_was_given_meanwhile_is_there_at_once() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let mut events = Events::of(client.post(&ask(json!(1), "k1")).await);
    let id = events.next().await.unwrap().id.unwrap();
    until("the question", || state.knows("k1")).await;
    drop(events);
    until("the end of the waiting", || state.working() == 0).await;
    assert!(state.knows("k1"), "a lost connection is not a change of mind");
    state.answer("k1", allow());
    let answer = Events::of(client.get(Some(&id)).await).answer().await;
    assert_eq!(answer["result"]["content"][0]["text"], ALLOW);
}

#[tokio::test]
async fn an_event_id_grants_nothing() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let mut events = Events::of(client.post(&ask(json!(1), "k1")).await);
    let id = events.next().await.unwrap().id.unwrap();
    until("the question", || state.knows("k1")).await;

    // Another caller, which may not call the method.
    let mut stranger = McpClient::new(&server, OPERATOR);
    assert_eq!(stranger.get(Some(&id)).await.status(), StatusCode::NOT_FOUND);
    // A sibling with the session of the first.
    let mut sibling = McpClient::new(&server, OTHER_CHILD);
    sibling.session = client.session.clone();
    assert_eq!(sibling.get(Some(&id)).await.status(), StatusCode::NOT_FOUND);
    stranger.session = client.session.clone();
    assert_eq!(stranger.get(Some(&id)).await.status(), StatusCode::NOT_FOUND);
    // No token at all.
    let bare = server
        .http
        .get(server.url("/mcp"))
        .header("accept", "text/event-stream")
        .header("last-event-id", &id);
    assert_eq!(bare.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    // Forged ids: of an internal method, of one that cannot be resumed, and nonsense.
    for made_up in [
        r#"{"i":1,"m":"test.ask_again","k":"k1","n":0}"#,
        r#"{"i":1,"m":"test.ask_end","k":"k1","n":0}"#,
        r#"{"i":1,"m":"test.echo","k":"k1","n":0}"#,
        r#"{"i":1,"m":"no.such","k":"k1","n":0}"#,
    ] {
        let id = format!(
            "plx1.{}",
            base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, made_up)
        );
        assert_eq!(client.get(Some(&id)).await.status(), StatusCode::NOT_FOUND, "{made_up}");
    }
    assert_eq!(client.get(Some("plx1.nonsense")).await.status(), StatusCode::BAD_REQUEST);
    assert!(state.knows("k1"));
    state.answer("k1", allow());
    assert_eq!(events.answer().await["id"], 1);
}

#[tokio::test]
async fn a_question_that_nobody_knows_any_more_is_denied() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let mut events = Events::of(client.post(&ask(json!(1), "k1")).await);
    let id = events.next().await.unwrap().id.unwrap();
    drop(events);
    let elsewhere = Server::start(&Arc::default()).await;
    let mut client = McpClient::new(&elsewhere, CHILD);
    client.session = Some("of-another-process".into());
    let answer = Events::of(client.get(Some(&id)).await).answer().await;
    let denial: Value =
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(denial["behavior"], "deny");
}

#[tokio::test]
async fn a_cancelled_question_is_ended_also_after_a_resumption_in_another_process() {
    let state = Arc::<HubState>::default();
    let server = Server::lasting(&state).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "x"}});
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let mut events = Events::of(client.post(&ask(json!(1), "k1")).await);
    let id = events.next().await.unwrap().id.unwrap();
    until("the question", || state.knows("k1")).await;

    // Another caller's cancellation of the same id ends nothing.
    let (other, _) = McpClient::begin(&server, OTHER_CHILD).await;
    assert_eq!(other.post(&cancel).await.status(), StatusCode::ACCEPTED);
    assert!(state.knows("k1"));

    let session = client.session.clone();
    let address = server.kill();
    let server = Server::at(&state, Limits::default(), address).await;
    let mut client = McpClient::new(&server, CHILD);
    client.session = session;
    let mut events = Events::of(client.get(Some(&id)).await);
    events.next().await.unwrap();
    assert_eq!(client.post(&cancel).await.status(), StatusCode::ACCEPTED);
    until("the end of the question", || !state.knows("k1")).await;
    assert_eq!(events.next().await, None, "a cancelled call has no answer");
}

#[tokio::test]
async fn the_same_question_again_joins_the_open_one_and_both_are_answered() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (client, _) = McpClient::begin(&server, CHILD).await;
    let first = Events::of(client.post(&ask(json!(1), "k1")).await);
    let second = Events::of(client.post(&ask(json!(2), "k1")).await);
    until("both", || state.working() == 2).await;
    state.answer("k1", allow());
    for (events, id) in [(first, 1), (second, 2)] {
        let answer = events.answer().await;
        assert_eq!(
            (&answer["id"], &answer["result"]["content"][0]["text"]),
            (&json!(id), &json!(ALLOW))
        );
    }
}

//! A method that panics: its caller gets an `internal` error over every transport.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::mcp_client::{Events, McpClient};
use crate::sockets::{receive, send, socket};
use crate::support::{CHILD, OPERATOR, PANIC_MESSAGE, PANICS, Server};

const BOTH: [bool; 2] = [false, true];

/// Checks an error as callers see it.
fn assert_internal(error: &Value, kind: &Value) {
    assert_eq!(kind, "internal", "{error}");
    assert!(!error.to_string().contains(PANIC_MESSAGE), "{error}");
}

#[tokio::test]
async fn a_method_that_panics_answers_a_post() {
    let server = Server::start(&Arc::default()).await;
    for after_await in BOTH {
        let answer = server.rpc(OPERATOR, "test.panic", json!({"after_await": after_await})).await;
        assert_internal(&answer, &answer["error"]["data"]["kind"]);
    }
    assert_eq!(server.doors.stats().panics_total, 2);
    let answer = server.rpc(OPERATOR, "test.echo", json!({"text": "a"})).await;
    assert_eq!(answer["result"]["text"], "a", "{answer}");
}

#[tokio::test]
async fn a_method_that_panics_answers_on_its_socket() {
    let server = Server::start(&Arc::default()).await;
    let mut socket = socket(&server, OPERATOR).await;
    for (id, after_await) in [(1, false), (2, true)] {
        send(&mut socket, id, "test.panic", json!({"after_await": after_await})).await;
        let answer = receive(&mut socket).await;
        assert_eq!(answer["id"], id, "{answer}");
        assert_internal(&answer, &answer["error"]["data"]["kind"]);
    }
    send(&mut socket, 3, "test.count", json!({"session_id": PANICS})).await;
    let item = receive(&mut socket).await;
    assert_eq!(item["params"]["event"]["n"], 0, "{item}");
    let answer = receive(&mut socket).await;
    assert_eq!(answer["id"], 3, "{answer}");
    assert_internal(&answer, &answer["error"]["data"]["kind"]);
    assert_eq!(server.doors.stats().panics_total, 3);
}

#[tokio::test]
async fn a_stream_that_panics_ends_sse_with_an_error() {
    let server = Server::start(&Arc::default()).await;
    let url = server.url(&format!("/events?session_id={PANICS}"));
    let response = server.http.get(url).bearer_auth(OPERATOR).send().await.unwrap();
    let mut events = Events::of(response);
    assert_eq!(events.next().await.unwrap().retry, Some(1_000));
    let item: Value = serde_json::from_str(&events.next().await.unwrap().data).unwrap();
    assert_eq!(item["n"], 0);
    let error: Value = serde_json::from_str(&events.next().await.unwrap().data).unwrap();
    assert_internal(&error, &error["kind"]);
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_method_that_panics_answers_over_mcp() {
    let server = Server::start(&Arc::default()).await;
    let (mut client, _) = McpClient::begin(&server, OPERATOR).await;
    for after_await in BOTH {
        let result = client.call("test_panic", json!({"after_await": after_await})).await;
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let error: Value = serde_json::from_str(text).unwrap();
        assert_internal(&error, &error["kind"]);
    }
    let (mut child, _) = McpClient::begin(&server, CHILD).await;
    let result = child.call("test_panic_exactly", json!({})).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    let denial: Value = serde_json::from_str(text).unwrap();
    assert_eq!(denial["behavior"], "deny", "{denial}");
}

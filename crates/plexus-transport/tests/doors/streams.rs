//! Streams over the WebSocket and SSE: many at once, resumed where they stopped, and dropped with
//! their reader.

use std::sync::Arc;

use futures::{SinkExt, StreamExt};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::mcp_client::Events;
use crate::sockets::{receive, send, socket};
use crate::support::{CHILD, HubState, OPERATOR, PARENT, Server, soon, until};

#[tokio::test]
async fn a_stream_ends_with_the_answer_of_its_call() {
    let server = Server::start(&Arc::default()).await;
    let mut socket = socket(&server, OPERATOR).await;
    send(&mut socket, 5, "test.count", json!({"to": 3})).await;
    for n in 0..3 {
        let item = receive(&mut socket).await;
        assert_eq!(item["method"], "stream");
        assert_eq!((&item["params"]["id"], &item["params"]["event"]["n"]), (&json!(5), &json!(n)));
    }
    assert_eq!(
        receive(&mut socket).await,
        json!({"jsonrpc": "2.0", "id": 5, "result": {"type": "end"}})
    );
}

#[tokio::test]
async fn endless_streams_do_not_hold_a_call_on_the_same_socket() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let mut socket = socket(&server, OPERATOR).await;
    for id in 1..=4 {
        send(&mut socket, id, "test.count", json!({"bytes": 10_000})).await;
    }
    until("four streams", || state.working() == 4).await;
    // Nothing is read for a moment. The items that the streams may queue are bounded, so the call's
    // answer follows soon after them.
    send(&mut socket, 9, "test.echo", json!({"text": "quick"})).await;
    let mut items = 0;
    loop {
        let message = receive(&mut socket).await;
        if message["id"] == 9 {
            assert_eq!(message["result"]["text"], "quick");
            break;
        }
        items += 1;
        assert!(items < 5_000, "the answer did not come within {items} items");
    }
    send(&mut socket, 10, "rpc.cancel", json!({"id": 2})).await;
    until("the end of one stream", || state.working() <= 3).await;
    drop(socket);
    until("the end of all", || state.working() == 0).await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_slows_nobody_else() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let mut slow = socket(&server, OPERATOR).await;
    send(&mut slow, 1, "test.count", json!({"bytes": 100_000})).await;
    until("the stream", || state.working() == 1).await;
    let mut quick = socket(&server, OPERATOR).await;
    send(&mut quick, 2, "test.count", json!({"to": 1_000})).await;
    let mut last = Value::Null;
    while last["id"] != 2 {
        last = receive(&mut quick).await;
    }
    assert_eq!(last["result"]["type"], "end");
    drop((slow, quick));
    until("the end of all", || state.working() == 0).await;
}

#[tokio::test]
async fn a_closed_socket_drops_the_work() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let mut socket = socket(&server, OPERATOR).await;
    send(&mut socket, 1, "test.sleep", json!({"ms": 600_000})).await;
    send(&mut socket, 2, "test.count", json!({})).await;
    until("the work", || state.working() == 2).await;
    socket.close(None).await.unwrap();
    until("the end of the work", || state.working() == 0).await;
}

#[tokio::test]
async fn a_message_over_the_limit_closes_the_socket_and_nothing_else() {
    let limits = plexus_transport::Limits { body_bytes: 10_000, ..Default::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let mut socket = socket(&server, OPERATOR).await;
    // The server may close the connection while the message is still on its way.
    let _closed = socket.send(Message::text("x".repeat(1_000_000))).await;
    let last = soon("the end of the socket", async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(_)) | Err(_)) | None => break true,
                Some(Ok(_)) => {}
            }
        }
    });
    assert!(last.await);
    assert_eq!(
        server.rpc(OPERATOR, "test.echo", json!({"text": "a"})).await["result"]["text"],
        "a"
    );
}

#[tokio::test]
async fn sse_goes_on_after_last_event_id() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let open = |cursor: Option<String>, query: &'static str| {
        let mut request =
            server.http.get(server.url(&format!("/events{query}"))).bearer_auth(OPERATOR);
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        request.send()
    };
    let mut cursor = None;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut events = Events::of(open(cursor.take(), "?session_id=s1").await.unwrap());
        assert_eq!(events.next().await.unwrap().retry, Some(1_000));
        for _ in 0..5 {
            let event = events.next().await.unwrap();
            let body: Value = serde_json::from_str(&event.data).unwrap();
            assert_eq!(body["session_id"], "s1");
            seen.push(body["n"].as_u64().unwrap());
            cursor = event.id;
        }
    }
    assert_eq!(seen, (0..15).collect::<Vec<_>>());
    until("the end of the work of dropped streams", || state.working() == 0).await;

    assert_eq!(open(Some("nonsense".into()), "").await.unwrap().status(), StatusCode::BAD_REQUEST);
    assert_eq!(open(None, "?sesion_id=1").await.unwrap().status(), StatusCode::BAD_REQUEST);
    let child = server.http.get(server.url("/events")).bearer_auth(CHILD).send().await.unwrap();
    assert_eq!(child.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_stop_ends_every_stream_and_lets_a_short_call_finish() {
    let state = Arc::<HubState>::default();
    let mut server = Server::start(&state).await;
    let mut socket = socket(&server, OPERATOR).await;
    send(&mut socket, 1, "test.count", json!({})).await;
    let mut events = Events::of(
        server.http.get(server.url("/events")).bearer_auth(OPERATOR).send().await.unwrap(),
    );
    events.next().await.unwrap();
    let (client, _) = crate::mcp_client::McpClient::begin(&server, CHILD).await;
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "test_ask", "arguments": {"key": "k"}}});
    let mut blocked = Events::of(client.post(&ask).await);
    blocked.next().await.unwrap();
    let (listener, _) = crate::mcp_client::McpClient::begin(&server, PARENT).await;
    let mut listening = Events::of(listener.get(None).await);
    listening.next().await.unwrap();
    until("the question", || state.knows("k")).await;
    let sleep = json!({"jsonrpc": "2.0", "id": 1, "method": "test.sleep", "params": {"ms": 700}});
    let short = tokio::spawn(
        server.http.post(server.url("/rpc")).bearer_auth(OPERATOR).json(&sleep).send(),
    );
    // The short call may have finished already.
    until("all the work", || state.begun() == 4).await;

    server.stop().await;
    let answer: Value = short.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["result"]["ms"], 700, "the call that was under way was answered: {answer}");
    while events.next().await.is_some() {}
    assert_eq!((blocked.next().await, listening.next().await), (None, None));
    while let Some(Ok(_)) = soon("the end of the socket", socket.next()).await {}
    assert!(state.knows("k"), "what was asked stays asked");
    until("the end of the work", || state.working() == 0).await;
}

/// Limits of a server that cuts nobody off when it stops.
fn patient() -> plexus_transport::Limits {
    let drain = std::time::Duration::from_secs(3_600);
    plexus_transport::Limits { drain, ..Default::default() }
}

#[tokio::test]
async fn a_stop_answers_the_calls_that_only_wait() {
    let state = Arc::<HubState>::default();
    let mut server = Server::with(&state, patient()).await;
    let post = |body: &Value| {
        let request = server.http.post(server.url("/rpc")).bearer_auth(OPERATOR).json(body);
        tokio::spawn(request.send())
    };
    let doze =
        json!({"jsonrpc": "2.0", "id": 1, "method": "test.doze", "params": {"ms": 3_600_000}});
    let (alone, batch) = (post(&doze), post(&json!([doze, doze])));
    until("both calls", || state.begun() == 2).await;

    server.stop().await;
    let alone: Value = alone.await.unwrap().unwrap().json().await.unwrap();
    let batch: Vec<Value> = batch.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(batch.len(), 2);
    for answer in batch.iter().chain([&alone]) {
        let error = &answer["error"]["data"];
        assert_eq!(error["kind"], "unavailable", "{answer}");
        assert_eq!(error["message"], "wait for test.doze any longer: the server stops");
        assert!(error["hint"].as_str().unwrap().contains("ask again"), "{answer}");
        assert_eq!(error["retry_after_ms"], 1_000, "{answer}");
    }
    until("the end of the work", || state.working() == 0).await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_calls_that_are_resumed_later() {
    let state = Arc::<HubState>::default();
    let mut server = Server::with(&state, patient()).await;
    let (client, _) = crate::mcp_client::McpClient::begin(&server, CHILD).await;
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "test_ask", "arguments": {"key": "k"}}});
    let mut blocked = Events::of(client.post(&ask).await);
    blocked.next().await.unwrap();
    until("the question", || state.knows("k")).await;

    server.stop().await;
    assert_eq!(blocked.next().await, None);
    assert!(state.knows("k"), "what was asked stays asked");
}

#[tokio::test]
async fn a_revoked_token_ends_what_it_opened() {
    let state = Arc::<HubState>::default();
    let limits = plexus_transport::Limits {
        token_check: std::time::Duration::from_millis(100),
        ..Default::default()
    };
    let server = Server::with(&state, limits).await;
    let mut events = Events::of(
        server.http.get(server.url("/events")).bearer_auth(PARENT).send().await.unwrap(),
    );
    let (client, _) = crate::mcp_client::McpClient::begin(&server, CHILD).await;
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "test_ask", "arguments": {"key": "k"}}});
    let mut blocked = Events::of(client.post(&ask).await);
    blocked.next().await.unwrap();
    let mut socket = socket(&server, PARENT).await;
    send(&mut socket, 1, "test.sleep", json!({"ms": 600_000})).await;
    until("all the work", || state.working() == 3).await;
    state.revoked.lock().unwrap().extend([PARENT.to_owned(), CHILD.to_owned()]);
    while events.next().await.is_some() {}
    while blocked.next().await.is_some() {}
    while let Some(Ok(_)) = soon("the end of the socket", socket.next()).await {}
    until("the end of the work", || state.working() == 0).await;
    assert_eq!(
        server.rpc(OPERATOR, "test.echo", json!({"text": "a"})).await["result"]["text"],
        "a"
    );
}

#[tokio::test]
async fn a_revocation_of_this_server_cuts_everything_at_once() {
    let state = Arc::<HubState>::default();
    // Nothing but the revocation itself can end what is open.
    let limits = plexus_transport::Limits {
        token_check: std::time::Duration::from_secs(3_600),
        ..Default::default()
    };
    let server = Server::with(&state, limits).await;
    let mut events = Events::of(
        server.http.get(server.url("/events")).bearer_auth(PARENT).send().await.unwrap(),
    );
    let mut socket = socket(&server, PARENT).await;
    send(&mut socket, 1, "test.sleep", json!({"ms": 3_600_000})).await;
    let sleep =
        json!({"jsonrpc": "2.0", "id": 1, "method": "test.sleep", "params": {"ms": 3_600_000}});
    let polling =
        tokio::spawn(server.http.post(server.url("/rpc")).bearer_auth(PARENT).json(&sleep).send());
    until("all the work", || state.working() == 3).await;
    state.revoked.lock().unwrap().push(PARENT.to_owned());
    state.revocations.send_modify(|count| *count += 1);
    while events.next().await.is_some() {}
    while let Some(Ok(_)) = soon("the end of the socket", socket.next()).await {}
    let answer: Value =
        soon("the end of the call", polling).await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["error"]["data"]["kind"], "unauthorized", "{answer}");
    until("the end of the work", || state.working() == 0).await;
}

#[tokio::test]
async fn a_revocation_of_this_server_cuts_long_calls_and_subscriptions_over_mcp() {
    let state = Arc::<HubState>::default();
    let limits = plexus_transport::Limits {
        token_check: std::time::Duration::from_secs(3_600),
        ..Default::default()
    };
    let server = Server::with(&state, limits).await;
    let (client, _) = crate::mcp_client::McpClient::begin(&server, PARENT).await;
    let sleep = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "test_sleep", "arguments": {"ms": 3_600_000}}});
    let polling = Events::of(client.post(&sleep).await);
    // In the newest protocol a subscription is a request that stays open.
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
    "notifications": {"resourceSubscriptions": ["test://questions"]},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    let listening = server.http.post(server.url("/mcp")).bearer_auth(PARENT).json(&listen);
    let listening = listening
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "subscriptions/listen");
    let mut listening = Events::of(listening.send().await.unwrap());
    until("all the work", || state.working() == 2).await;
    state.revoked.lock().unwrap().push(PARENT.to_owned());
    state.revocations.send_modify(|count| *count += 1);
    let answer = polling.answer().await;
    let said = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("unauthorized"), "{answer}");
    while listening.next().await.is_some() {}
    until("the end of the work", || state.working() == 0).await;
}

#[tokio::test]
async fn an_open_socket_makes_no_call_with_a_revoked_token() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let mut socket = socket(&server, PARENT).await;
    send(&mut socket, 1, "test.echo", json!({"text": "a"})).await;
    assert_eq!(receive(&mut socket).await["result"]["text"], "a");
    state.revoked.lock().unwrap().push(PARENT.to_owned());
    send(&mut socket, 2, "test.echo", json!({"text": "b"})).await;
    assert_eq!(receive(&mut socket).await["error"]["data"]["kind"], "unauthorized");
}

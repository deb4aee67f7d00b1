//! Floods of each kind: the error names the caller's own share, and the operator is served all the
//! time.

use std::sync::Arc;
use std::time::Duration;

use plexus_transport::Limits;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use crate::mcp_client::McpClient;
use crate::sockets::{connect, next_message, send, socket};
use crate::support::{CHILD, HubState, OPERATOR, OTHER_CHILD, PARENT, Server, soon, until};

/// Longer than any test, for timeouts that must not fire.
const NEVER: Duration = Duration::from_secs(3_600);

/// Makes a call as the operator on a new connection.
async fn the_operator_is_served(server: &Server) {
    let fresh = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "test.echo", "params": {"text": "hi"}});
    let request = fresh.post(server.url("/rpc")).bearer_auth(OPERATOR).json(&body);
    let answer: Value =
        soon("the operator's answer", request.send()).await.unwrap().json().await.unwrap();
    assert_eq!(answer["result"]["text"], "hi", "{answer}");
}

fn header(server: &Server, line: &str, token: &str, more: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n{more}\r\n",
        server.address
    )
}

/// Sends `request` unchanged and returns the connection.
async fn raw(server: &Server, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads what comes first.
async fn some(stream: &mut TcpStream) -> String {
    let mut answer = [0; 1_024];
    let count = soon("an answer", stream.read(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

/// Reads up to the end of the connection.
async fn whole(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset also ends the connection.
    let _reset = soon("the end of the connection", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn sockets_count_as_connections_and_one_caller_has_its_share_of_them() {
    let limits = Limits { connections: 16, connections_per_caller: 4, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(socket(&server, CHILD).await);
    }
    assert_eq!(server.doors.stats().open_connections, 4);
    for _ in 0..20 {
        let Err(SocketError::Http(refused)) = connect(&server, CHILD).await else {
            panic!("a fifth socket was opened")
        };
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = String::from_utf8(refused.into_body().unwrap()).unwrap();
        assert!(body.contains("limits.connections_per_caller") && body.contains("busy"), "{body}");
    }
    open.push(socket(&server, OTHER_CHILD).await);
    the_operator_is_served(&server).await;
    drop(open);
    until("the end of the sockets", || server.doors.stats().open_connections == 0).await;
}

#[tokio::test]
async fn the_operator_finds_a_place_when_all_other_callers_have_taken_theirs() {
    // Two places are for clients without a token and fourteen for the rest, one of them the
    // operator's.
    let limits = Limits { connections: 16, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let mut open = Vec::new();
    let refused = loop {
        match connect(&server, CHILD).await {
            Ok(socket) => open.push(socket),
            Err(SocketError::Http(refused)) => break refused,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(open.len(), 13);
    let body = String::from_utf8(refused.into_body().unwrap()).unwrap();
    assert!(body.contains("(limits.connections)"), "{body}");
    the_operator_is_served(&server).await;
    assert!(server.doors.stats().open_connections <= 16);
}

#[tokio::test]
async fn connections_that_show_no_token_lock_nobody_out() {
    let limits =
        Limits { connections: 16, header_timeout: NEVER, body_timeout: NEVER, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let half = "content-length: 100\r\n\r\n{";
    let exchange = format!("POST /auth/exchange HTTP/1.1\r\nhost: {}\r\n{half}", server.address);
    let mut open = Vec::new();
    for request in ["", "GET /rpc HTTP/1.1\r\nhost: ", &exchange].iter().cycle().take(90) {
        open.push(raw(&server, request).await);
        assert!(server.doors.stats().open_connections <= 16);
    }
    the_operator_is_served(&server).await;
    until("room", || server.doors.stats().open_connections <= 3).await;
    drop(open);
}

#[tokio::test]
async fn a_sign_in_that_is_large_is_refused_before_it_is_read() {
    let server = Server::start(&Arc::default()).await;
    for (path, bytes) in [("/auth/exchange", 5_000), ("/hooks/respond", 70_000)] {
        let head = header(&server, &format!("POST {path}"), "none", "");
        let request = format!(
            "{}content-length: {bytes}\r\n\r\n",
            head.trim_end_matches("\r\n").to_owned() + "\r\n"
        );
        let mut stream = raw(&server, &request).await;
        let mut status = [0; 12];
        soon("the refusal", stream.read_exact(&mut status)).await.unwrap();
        // This server sends no webhooks, so it accepts no answer of any size.
        let expected = if path == "/auth/exchange" { b" 413" } else { b" 404" };
        assert_eq!(&status[8..], expected, "{path}");
    }
}

#[tokio::test]
async fn a_call_over_the_share_is_refused_before_its_body_comes() {
    let state = Arc::<HubState>::default();
    let limits = Limits { calls_per_caller: 2, body_timeout: NEVER, ..Limits::default() };
    let server = Server::with(&state, limits).await;
    let promised = "content-length: 100\r\nexpect: 100-continue\r\n";
    let mut open = Vec::new();
    for path in ["/rpc", "/mcp"] {
        let mut stream =
            raw(&server, &header(&server, &format!("POST {path}"), PARENT, promised)).await;
        // The body is asked for once the call is admitted, so it has its place from here on.
        let asked = some(&mut stream).await;
        assert!(asked.contains(" 100 "), "{asked}");
        open.push(stream);
    }
    for path in ["/rpc", "/mcp"] {
        let request = header(&server, &format!("POST {path}"), PARENT, "content-length: 2\r\n");
        let mut stream = raw(&server, &format!("{request}{{}}")).await;
        let refused = some(&mut stream).await;
        assert!(refused.contains(" 503 "), "{refused}");
        assert!(refused.contains("limits.calls_per_caller"), "{refused}");
    }
    the_operator_is_served(&server).await;
}

#[tokio::test]
async fn bodies_of_one_caller_are_bounded_together() {
    let limits =
        Limits { held_bytes_per_caller: 100_000, body_timeout: NEVER, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let begin = header(&server, "POST /rpc", PARENT, "content-length: 90000\r\n");
    let mut slow = raw(&server, &begin).await;
    slow.write_all(&[b' '; 80_000]).await.unwrap();
    until("what came of the body", || server.doors.stats().held_bytes == 80_000).await;
    let large = server.http.post(server.url("/rpc")).bearer_auth(PARENT).body(" ".repeat(50_000));
    let refused = soon("the refusal", large.send()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.text().await.unwrap().contains("limits.held_bytes_per_caller"));
    the_operator_is_served(&server).await;
    drop(slow);
    until("the end of the body", || server.doors.stats().held_bytes == 0).await;
}

#[tokio::test]
async fn an_unfinished_message_on_a_socket_counts_as_held() {
    let limits = Limits { held_bytes_per_caller: 300_000, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let mut stream =
        raw(&server, &header(&server, "GET /rpc", PARENT, crate::hostile::UPGRADE)).await;
    let mut head = [0; 512];
    soon("the upgrade", stream.read(&mut head)).await.unwrap();
    // The header of a masked text frame of one million bytes, and a fifth of its payload.
    stream.write_all(&[0x81, 0xff, 0, 0, 0, 0, 0, 0x0f, 0x42, 0x40, 0, 0, 0, 0]).await.unwrap();
    stream.write_all(&[b' '; 200_000]).await.unwrap();
    until("what came of the message", || server.doors.stats().held_bytes >= 200_000).await;
    let _reset = stream.write_all(&[b' '; 700_000]).await;
    whole(&mut stream).await;
    until("the end of the socket", || server.doors.stats().open_connections == 0).await;
    // The held bytes are released a moment after the place: two tasks drop the two.
    until("what was held", || server.doors.stats().held_bytes == 0).await;
}

#[tokio::test]
async fn a_socket_that_answers_no_pings_is_ended() {
    let limits = Limits { socket_ping: Duration::from_millis(50), ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let mut stream =
        raw(&server, &header(&server, "GET /rpc", PARENT, crate::hostile::UPGRADE)).await;
    whole(&mut stream).await;
    until("its place", || server.doors.stats().open_connections == 0).await;
}

#[tokio::test]
async fn a_socket_without_a_call_is_ended_with_the_name_of_the_setting() {
    let limits = Limits {
        socket_ping: Duration::from_millis(100),
        socket_idle: Duration::from_millis(1),
        ..Limits::default()
    };
    let server = Server::with(&Arc::default(), limits).await;
    let mut socket = socket(&server, PARENT).await;
    let reason = loop {
        if let Message::Close(frame) = next_message(&mut socket).await {
            break frame.unwrap().reason.to_string();
        }
    };
    assert!(reason.contains("limits.socket_idle_secs"), "{reason}");
}

#[tokio::test]
async fn a_stream_that_nobody_reads_is_ended_and_goes_on_at_its_cursor() {
    let state = Arc::<HubState>::default();
    let limits = Limits { stall_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = Server::with(&state, limits).await;
    let mut events = raw(&server, &header(&server, "GET /events", PARENT, "")).await;
    let mut socket = socket(&server, PARENT).await;
    send(&mut socket, 1, "test.count", json!({"bytes": 100_000})).await;
    // One may have ended before the other begins.
    until("both streams", || state.begun() == 2).await;
    until("the end of both", || state.working() == 0).await;
    until("their places", || server.doors.stats().open_streams == 0).await;
    until("what was kept for a reader that went", || server.doors.stats().held_bytes == 0).await;
    // Data already sent still arrives, and its last complete event has the cursor to continue from.
    let seen = whole(&mut events).await;
    let last = seen.rsplit("id: ").find_map(|rest| Some(rest.split_once("\ndata: ")?.0));
    let last: u64 = last.unwrap().parse().unwrap();
    let request = server.http.get(server.url("/events")).bearer_auth(PARENT);
    let again = request.header("last-event-id", last.to_string()).send().await.unwrap();
    let mut again = crate::mcp_client::Events::of(again);
    again.next().await.unwrap();
    let event: Value = serde_json::from_str(&again.next().await.unwrap().data).unwrap();
    assert_eq!(event["n"], last + 1);
}

#[tokio::test]
async fn streams_that_nobody_reads_hold_no_more_than_the_share_of_their_caller() {
    let state = Arc::<HubState>::default();
    let share = 3_000_000;
    let limits = Limits {
        stall_timeout: NEVER,
        socket_ping: NEVER,
        held_bytes_per_caller: share,
        ..Limits::default()
    };
    let server = Server::with(&state, limits).await;
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut socket = socket(&server, PARENT).await;
        for id in 0..4 {
            send(&mut socket, id, "test.count", json!({"bytes": 1_000_000})).await;
        }
        unread.push(socket);
    }
    // A stream that found room goes on; every other one was told why it ended.
    until("the end of the streams that found no room", || {
        let stats = server.doors.stats();
        state.working() <= 3 && stats.errors_total == 0 && stats.calls_total == 32
    })
    .await;
    assert!(server.doors.stats().held_bytes <= share, "{:?}", server.doors.stats());
    let mut told = 0;
    for socket in &mut unread {
        for _ in 0..4 {
            let Message::Text(text) = next_message(socket).await else { continue };
            told += usize::from(text.contains("limits.held_bytes_per_caller"));
        }
    }
    assert!(told > 0, "nobody was told why its stream ended");
    the_operator_is_served(&server).await;
}

#[tokio::test]
async fn answers_that_nobody_reads_count_as_held_until_they_are_read() {
    let share = 14_000_000;
    let limits = Limits { held_bytes_per_caller: share, stall_timeout: NEVER, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    // More than the kernels of both sides buffer.
    let text = "x".repeat(4_000_000);
    let echo = json!({"text": text});
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "test.echo", "params": echo});
    let params = json!({"name": "test_echo", "arguments": echo});
    let tool = |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    let (client, _) = McpClient::begin(&server, PARENT).await;
    for door in ["/rpc", "/mcp"] {
        let mut unread = Vec::new();
        for id in 100..106 {
            unread.push(if door == "/rpc" {
                let request = server.http.post(server.url(door)).bearer_auth(PARENT).json(&rpc);
                soon("the headers", request.send()).await.unwrap()
            } else {
                client.post(&tool(id)).await
            });
            assert!(server.doors.stats().held_bytes <= share, "{door}");
        }
        the_operator_is_served(&server).await;
        // An accepted call gets its whole answer, and a refused one gets the reason.
        let (mut served, mut refused) = (0, 0);
        for response in unread {
            let answer = soon("the answer", response.text()).await.unwrap();
            served += usize::from(answer.contains(&text));
            refused += usize::from(answer.contains("limits.held_bytes_per_caller"));
        }
        assert_eq!(served + refused, 6, "{door}");
        assert!(
            served > 0 && refused > 0,
            "{served} were answered and {refused} refused at {door}"
        );
        until("room", || server.doors.stats().held_bytes == 0).await;
    }
}

#[tokio::test]
async fn failures_that_nobody_reads_count_as_held_until_they_are_read() {
    let limits =
        Limits { held_bytes_per_caller: 9_000_000, stall_timeout: NEVER, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    // The failure repeats it: more than the kernels of both sides buffer.
    let unknown = json!({"x".repeat(8_000_000): 1});
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "test.echo", "params": unknown});
    let unread = server.http.post(server.url("/rpc")).bearer_auth(PARENT).json(&rpc).send();
    let unread = soon("the headers", unread).await.unwrap();
    assert!(server.doors.stats().held_bytes > 8_000_000, "{:?}", server.doors.stats());
    let echo = json!({"jsonrpc": "2.0", "id": 1, "method": "test.echo", "params": {"text": "hi"}});
    let post = |token| server.http.post(server.url("/rpc")).bearer_auth(token).json(&echo).send();
    assert_eq!(post(PARENT).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    the_operator_is_served(&server).await;
    let answer: Value = unread.json().await.unwrap();
    assert_eq!(answer["error"]["code"], -32602);
    until("what was held", || server.doors.stats().held_bytes == 0).await;
    assert_eq!(post(PARENT).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_page_that_is_refused_for_want_of_room_is_the_next_one_again() {
    let limits =
        Limits { held_bytes_per_caller: 150_000, body_timeout: NEVER, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let (mut client, _) = McpClient::begin(&server, PARENT).await;
    let mut socket = socket(&server, PARENT).await;
    let page = json!({"bytes": 100_000});
    for (door, n) in [("http", 0), ("socket", 1), ("mcp", 2)] {
        until("the end of what was before", || server.doors.stats().held_bytes < 50_000).await;
        let begin = header(&server, "POST /rpc", PARENT, "content-length: 110000\r\n");
        let mut slow = raw(&server, &begin).await;
        slow.write_all(&[b' '; 100_000]).await.unwrap();
        until("the body", || server.doors.stats().held_bytes >= 100_000).await;
        let mut answers = Vec::new();
        for room in ["none", "enough"] {
            answers.push(match door {
                "http" => server.rpc(PARENT, "test.page", page.clone()).await,
                "socket" => {
                    send(&mut socket, n, "test.page", page.clone()).await;
                    crate::sockets::receive(&mut socket).await
                }
                _ => {
                    let call = json!({"name": "test_page", "arguments": page});
                    client.ask("tools/call", call).await
                }
            });
            if room == "none" {
                slow.shutdown().await.unwrap();
                until("room", || server.doors.stats().held_bytes < 50_000).await;
            }
        }
        let [refused, given] = answers.try_into().unwrap();
        let reason = refused.to_string();
        assert!(reason.contains("limits.held_bytes_per_caller"), "{door}: {reason:.500}");
        let result = &given["result"];
        let read = result.get("structuredContent").unwrap_or(result);
        assert_eq!(read["n"], n, "a page is lost at {door}");
    }
}

#[tokio::test]
async fn streams_and_waits_of_one_caller_are_bounded() {
    let state = Arc::<HubState>::default();
    let server = Server::with(&state, Limits { streams_per_caller: 3, ..Limits::default() }).await;
    let mut socket = socket(&server, PARENT).await;
    for id in 0..3 {
        send(&mut socket, id, "test.sleep", json!({"ms": 600_000})).await;
    }
    until("three waits", || state.working() == 3).await;
    let refused = server.http.get(server.url("/events")).bearer_auth(PARENT).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.text().await.unwrap().contains("limits.streams_per_caller"));
    for _ in 0..4 {
        let open = server.http.get(server.url("/events")).bearer_auth(OPERATOR).send();
        assert_eq!(open.await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn one_caller_replaces_its_own_mcp_sessions_and_never_those_of_others() {
    let limits = Limits { mcp_sessions: 16, mcp_sessions_per_caller: 4, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let (mut other, _) = McpClient::begin(&server, PARENT).await;
    let mut flood = Vec::new();
    for _ in 0..40 {
        flood.push(McpClient::begin(&server, CHILD).await.0);
    }
    assert_eq!(server.doors.stats().mcp_sessions, 5);
    let echoed = other.call("test_echo", json!({"text": "still here"})).await;
    assert_eq!(echoed["structuredContent"]["text"], "still here", "{echoed}");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(flood[0].post(&ping).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(flood[39].post(&ping).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn mcp_sessions_in_use_leave_room_for_the_operator() {
    let state = Arc::<HubState>::default();
    let limits = Limits { mcp_sessions: 16, ..Limits::default() };
    let server = Server::with(&state, limits).await;
    let mut blocked = Vec::new();
    for n in 0..14 {
        let (client, _) = McpClient::begin(&server, CHILD).await;
        let params = json!({"name": "test_ask", "arguments": {"key": format!("k{n}")}});
        let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        blocked.push(client.post(&ask).await);
    }
    until("all questions", || state.working() == 14).await;
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}});
    for token in [CHILD, PARENT] {
        let refused = McpClient::new(&server, token).post(&begin).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.text().await.unwrap().contains("limits.mcp_sessions)"));
    }
    let (mut operator, _) = McpClient::begin(&server, OPERATOR).await;
    let echoed = operator.call("test_echo", json!({"text": "let me in"})).await;
    assert_eq!(echoed["structuredContent"]["text"], "let me in", "{echoed}");
}

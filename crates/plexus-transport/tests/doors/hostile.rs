//! Hostile and broken clients: each gets the right answer, and the server goes on.

use std::sync::Arc;
use std::time::Duration;

use plexus_transport::Limits;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{CHILD, HubState, OPERATOR, PARENT, Server, soon, until};

/// Longer than any test, for timeouts that must not fire.
const NEVER: Duration = Duration::from_secs(3_600);

async fn is_alive(server: &Server) {
    let answer = server.rpc(OPERATOR, "test.echo", json!({"text": "alive"})).await;
    assert_eq!(answer["result"]["text"], "alive", "{answer}");
}

/// The same where a limit is so short that a slow machine may exceed it with an honest request,
/// which is then retried.
async fn is_alive_after_all(server: &Server) {
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "test.echo", "params": {"text": "alive"}});
    let ask = || async {
        let asked = server
            .http
            .post(server.url("/rpc"))
            .bearer_auth(OPERATOR)
            .json(&body)
            .send()
            .await
            .ok()?;
        let answer: Value = asked.json().await.ok()?;
        (answer["result"]["text"] == "alive").then_some(())
    };
    testkit::wait::eventually_async("an answer", testkit::wait::PATIENCE, ask).await;
}

/// Sends `request` unchanged and returns the status of the answer.
async fn raw(server: &Server, request: &str) -> u16 {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0_u8; 12];
    soon("a status line", stream.read_exact(&mut answer)).await.unwrap();
    std::str::from_utf8(&answer[9..]).unwrap().parse().unwrap()
}

pub(crate) const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[tokio::test]
async fn another_host_and_another_site_are_refused_at_every_door() {
    let server = Server::start(&Arc::default()).await;
    let ours = server.address.to_string();
    let port = server.address.port();
    let good = format!("host: {ours}\r\n");
    let rebinding = format!("host: evil.example:{port}\r\n");
    let wrong_port = "host: 127.0.0.1:1\r\n".to_owned();
    let twice = format!("host: {ours}\r\nhost: evil.example\r\n");
    let site = format!("host: {ours}\r\norigin: http://evil.example\r\n");
    let null = format!("host: {ours}\r\norigin: null\r\n");
    let encrypted = format!("host: {ours}\r\norigin: https://{ours}\r\n");
    let auth = format!("authorization: Bearer {OPERATOR}\r\n");
    for (line, more, fine) in [
        ("GET /events HTTP/1.1", "", 200),
        ("GET /rpc HTTP/1.1", UPGRADE, 101),
        ("POST /rpc HTTP/1.1", "content-length: 2\r\n", 200),
        ("GET /mcp HTTP/1.1", "accept: text/event-stream\r\n", 400),
        ("POST /auth/exchange HTTP/1.1", "content-length: 2\r\n", 400),
        ("GET /nothing HTTP/1.1", "", 404),
    ] {
        assert_eq!(
            raw(&server, &format!("{line}\r\n{good}{auth}{more}\r\n{{}}")).await,
            fine,
            "{line}"
        );
        for bad in [&rebinding, &wrong_port, &twice, &site, &null, &encrypted] {
            let status = raw(&server, &format!("{line}\r\n{bad}{auth}{more}\r\n{{}}")).await;
            assert!(matches!(status, 400 | 403), "{line} {bad}: {status}");
        }
        // An absolute target names a host too, and `Host` does not excuse it.
        let (method, rest) = line.split_once(' ').unwrap();
        for (target, expected) in [(ours.as_str(), fine), ("evil.example", 403)] {
            let absolute = format!("{method} http://{target}{rest}");
            let status = raw(&server, &format!("{absolute}\r\n{good}{auth}{more}\r\n{{}}")).await;
            assert_eq!(status, expected, "{absolute}");
        }
    }
    is_alive(&server).await;
}

#[tokio::test]
async fn a_missing_or_wrong_token_is_401_at_every_door() {
    let server = Server::start(&Arc::default()).await;
    for path in ["/rpc", "/events", "/mcp"] {
        for token in [None, Some("plx_wrong"), Some("")] {
            for method in [reqwest::Method::GET, reqwest::Method::POST] {
                let mut request = server.http.request(method, server.url(path)).body("{}");
                if let Some(token) = token {
                    request = request.bearer_auth(token);
                }
                let response = request.send().await.unwrap();
                // /events has no POST, but the token is checked before that is found out.
                assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path} {token:?}");
                assert_eq!(response.headers()["www-authenticate"], "Bearer");
                let body = response.text().await.unwrap();
                assert!(body.contains("unauthorized") && !body.contains("plx_wrong"), "{body}");
            }
        }
    }
    let in_url =
        server.http.get(server.url(&format!("/events?token={OPERATOR}"))).send().await.unwrap();
    assert_eq!(in_url.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_refusal_that_left_the_body_unread_closes_its_connection_and_says_so() {
    let server =
        Server::with(&Arc::default(), Limits { body_bytes: 64 * 1024, ..Limits::default() }).await;
    // Larger than what arrives together with the headers: the refusal comes before the body.
    let body = bytes::Bytes::from(vec![b' '; 2 * 1024 * 1024]);
    let post = |path: &str, token: &str| {
        server.http.post(server.url(path)).bearer_auth(token).body(body.clone())
    };
    // One client reuses its connections: the next call shows what a refusal does to its connection.
    for round in 0..20 {
        for (path, token, status) in [
            ("/rpc", "plx_wrong", 401),
            ("/rpc", OPERATOR, 413),
            ("/mcp", OPERATOR, 413),
            ("/events", OPERATOR, 405),
            ("/nothing", OPERATOR, 404),
        ] {
            let refused = post(path, token).send().await;
            let refused =
                refused.unwrap_or_else(|error| panic!("round {round}, {path}: {error:?}"));
            assert_eq!(refused.status(), status, "{path}");
            assert_eq!(refused.headers()["connection"], "close", "{path}");
            refused.bytes().await.unwrap();
            is_alive(&server).await;
        }
    }
    let fine = server.http.post(server.url("/rpc")).bearer_auth("plx_wrong").send().await.unwrap();
    assert!(
        fine.headers().get("connection").is_none(),
        "without a body there is nothing to close for"
    );
    let read =
        server.http.post(server.url("/rpc")).bearer_auth(OPERATOR).body("{}").send().await.unwrap();
    assert!(
        read.headers().get("connection").is_none(),
        "a body that was read leaves nothing behind"
    );
}

#[tokio::test]
async fn slow_headers_are_hung_up_on() {
    let limits = Limits { header_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"POST /rpc HTTP/1.1\r\nhost: ").await.unwrap();
    let mut rest = Vec::new();
    soon("the end of the connection", stream.read_to_end(&mut rest)).await.unwrap();
    until("the connection's end in the count", || server.doors.stats().open_connections == 0).await;
    is_alive_after_all(&server).await;
}

#[tokio::test]
async fn a_slow_body_is_timed_out_at_every_door_that_takes_one() {
    let limits = Limits { body_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    for path in ["/rpc", "/mcp", "/auth/exchange"] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {OPERATOR}\r\ncontent-length: 100\r\n\r\n{{",
            server.address
        );
        assert_eq!(raw(&server, &request).await, 408, "{path}");
    }
    is_alive_after_all(&server).await;
}

#[tokio::test]
async fn idle_connections_are_bounded_and_the_oldest_makes_room() {
    let limits = Limits { connections: 80, header_timeout: NEVER, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let mut idle = Vec::new();
    for _ in 0..60 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    // Connections without a token have an eighth of all places.
    until("as many as there are places", || server.doors.stats().open_connections == 10).await;
    for stream in idle.iter_mut().take(50) {
        let ended = soon("the end of an older one", stream.read(&mut [0; 1])).await;
        assert!(matches!(ended, Ok(0) | Err(_)));
    }
    is_alive(&server).await;
    drop(idle);
    until("room", || server.doors.stats().open_connections <= 1).await;
}

#[tokio::test]
async fn unreadable_requests_and_unknown_methods_have_their_codes() {
    let server = Server::start(&Arc::default()).await;
    let batch =
        format!("[{}]", vec![r#"{"jsonrpc":"2.0","id":1,"method":"test.echo"}"#; 10_000].join(","));
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"test.echo","params":{{"text":{}{}}}}}"#,
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    let call = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    };
    for (body, code, kind) in [
        ("{nope".to_owned(), -32700, "invalid"),
        (batch, -32600, "invalid"),
        (deep, -32602, "invalid"),
        (call("test.nothing", "{}"), -32601, "not_found"),
        (call("nothing.at_all", "{}"), -32601, "not_found"),
        (call("test.ask_again", r#"{"key":"k"}"#), -32601, "not_found"),
        (call("test.echo", r#"{"text":"a","sesion":"b"}"#), -32602, "invalid"),
        (call("test.echo", r#"{"text":7}"#), -32602, "invalid"),
        (call("test.count", "{}"), -32602, "invalid"),
        (call("test.ask", r#"{"key":"k"}"#), -32000, "forbidden"),
    ] {
        let response = server
            .http
            .post(server.url("/rpc"))
            .bearer_auth(OPERATOR)
            .body(body.clone())
            .send()
            .await
            .unwrap();
        let answer: Value = response.json().await.unwrap();
        let error = &answer["error"];
        assert_eq!(
            (error["code"].as_i64(), error["data"]["kind"].as_str()),
            (Some(code), Some(kind)),
            "{}",
            &body[..body.len().min(80)]
        );
    }
    is_alive(&server).await;
}

#[tokio::test]
async fn one_caller_with_too_much_under_way_is_busy_and_others_are_not() {
    let state = Arc::<HubState>::default();
    let server = Server::with(&state, Limits { calls_per_caller: 2, ..Limits::default() }).await;
    let sleep =
        json!({"jsonrpc": "2.0", "id": 1, "method": "test.sleep", "params": {"ms": 600_000}});
    let open: Vec<_> = (0..2)
        .map(|_| {
            tokio::spawn(
                server.http.post(server.url("/rpc")).bearer_auth(PARENT).json(&sleep).send(),
            )
        })
        .collect();
    until("two calls under way", || state.working() == 2).await;
    let refused =
        server.http.post(server.url("/rpc")).bearer_auth(PARENT).json(&sleep).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "1");
    let body: Value = refused.json().await.unwrap();
    assert_eq!(body["error"]["data"]["kind"], "busy");
    assert!(body["error"]["data"]["retry_after_ms"].is_u64());
    is_alive(&server).await;

    // A lost connection drops the work and frees its place.
    for call in open {
        call.abort();
    }
    until("the end of the work after the disconnect", || state.working() == 0).await;
    let answer = server.rpc(PARENT, "test.echo", json!({"text": "again"})).await;
    assert_eq!(answer["result"]["text"], "again");
}

#[tokio::test]
async fn waiting_calls_over_all_doors_are_bounded() {
    let state = Arc::<HubState>::default();
    let server = Server::with(&state, Limits { streams: 1, ..Limits::default() }).await;
    let events = server.http.get(server.url("/events")).bearer_auth(OPERATOR).send().await.unwrap();
    assert_eq!(events.status(), StatusCode::OK);
    let answer = server.rpc(OPERATOR, "test.sleep", json!({"ms": 1})).await;
    assert_eq!(answer["error"]["data"]["kind"], "busy", "{answer}");
    let refused =
        server.http.get(server.url("/events")).bearer_auth(OPERATOR).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    is_alive(&server).await;
    drop(events);
    until("the end of the stream", || server.doors.stats().open_streams == 0).await;
    assert_eq!(server.rpc(OPERATOR, "test.sleep", json!({"ms": 1})).await["result"]["ms"], 1);
}

#[tokio::test]
async fn calls_and_errors_are_counted() {
    let server = Server::start(&Arc::default()).await;
    is_alive(&server).await;
    server.rpc(CHILD, "test.secret", json!({"text": "a"})).await;
    let stats = server.doors.stats();
    assert_eq!((stats.calls_total, stats.errors_total), (2, 1));
}

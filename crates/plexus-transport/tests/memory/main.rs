//! Measures the memory that the doors use. It is a separate program, because other tests in the
//! same process would be measured too.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;

use futures::StreamExt;
use plexus_transport::Limits;
use reqwest::{Body, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::mcp_client::{Events, McpClient};
use crate::support::{CHILD, HubState, OPERATOR, Server, soon, until};

#[path = "../doors/mcp_client.rs"]
#[expect(dead_code, reason = "most of it is for the tests of the doors")]
mod mcp_client;
#[path = "../doors/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "most of it is for the tests of the doors")]
mod support;

/// Held by the test that measures.
static ALONE: Mutex<()> = Mutex::const_new(());

fn resident_kib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4
}

#[tokio::test]
async fn bodies_of_100_mb_are_refused_and_leave_no_memory_behind() {
    let _alone = ALONE.lock().await;
    let server = Server::start(&Arc::default()).await;
    let chunk = bytes::Bytes::from(vec![b'['; 1024 * 1024]);
    let send = |path: &'static str, declared: bool| {
        let chunk = chunk.clone();
        let server = &server;
        async move {
            let chunks = futures::stream::repeat(chunk).take(100).map(Ok::<_, std::io::Error>);
            let mut request = server
                .http
                .post(server.url(path))
                .bearer_auth(OPERATOR)
                .body(Body::wrap_stream(chunks));
            request = request
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream");
            if declared {
                request = request.header("content-length", 100 * 1024 * 1024);
            }
            soon("the refusal", request.send()).await.unwrap().status()
        }
    };
    assert_eq!(send("/rpc", false).await, StatusCode::PAYLOAD_TOO_LARGE);
    let before = resident_kib() / 1024;
    for _ in 0..3 {
        for (path, declared) in [("/rpc", false), ("/rpc", true), ("/mcp", false), ("/mcp", true)] {
            assert_eq!(send(path, declared).await, StatusCode::PAYLOAD_TOO_LARGE, "{path}");
        }
    }
    let alive = server.rpc(OPERATOR, "test.echo", json!({"text": "alive"})).await;
    assert_eq!(alive["result"]["text"], "alive");
    let after = resident_kib() / 1024;
    assert!(after < before + 64, "{before} MiB before 1.2 GB of bodies, {after} MiB after");
}

/// Blocked calls in one test. Each uses two descriptors here, and many systems allow a thousand.
const MANY: usize = 300;

/// How much memory one blocked call with its own session may use here, where its client is in the
/// same process. About 60 KiB were measured; the allocator keeps a varying amount.
const KIB_FOR_EACH: u64 = 160;

/// Warm-up calls, which pay for everything shared before the measurement.
const FIRST: usize = 100;

#[tokio::test]
async fn many_blocked_calls_cost_little_and_are_all_answered() {
    let _alone = ALONE.lock().await;
    let state = Arc::<HubState>::default();
    let limits = Limits { mcp_sessions_per_caller: MANY + FIRST, ..Limits::default() };
    let server = Server::with(&state, limits).await;
    let mut open = Vec::new();
    let mut before = 0;
    for n in 0..MANY + FIRST {
        if n == FIRST {
            before = resident_kib();
        }
        let (client, _) = McpClient::begin(&server, CHILD).await;
        let mut events = Events::of(client.post(&ask(n)).await);
        events.next().await.unwrap();
        open.push(events);
    }
    until("all questions", || state.working() == MANY + FIRST).await;
    let each = (resident_kib() - before) / MANY as u64;
    assert!(each < KIB_FOR_EACH, "{each} KiB for each blocked call");
    for n in 0..open.len() {
        state.answer(&format!("k{n}"), json!({"behavior": "deny", "message": "no"}));
    }
    for (n, events) in open.into_iter().enumerate() {
        assert_eq!(events.answer().await["id"], n);
    }
}

fn ask(n: usize) -> Value {
    let params = json!({"name": "test_ask", "arguments": {"key": format!("k{n}")}, "_meta": {"progressToken": n}});
    json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params})
}

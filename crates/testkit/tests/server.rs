//! Tests the helper that starts servers. The server here is a script that announces itself, with
//! answers of our own.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a failed test is allowed to stop loudly")]

use std::path::Path;

use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use testkit::server::{RpcError, ServerOptions, TestServer};

async fn answers() -> String {
    let router = Router::new().route(
        "/rpc",
        post(async |headers: HeaderMap, Json(call): Json<Value>| {
            let operator = headers
                .get("authorization")
                .is_some_and(|token| token == "Bearer token-of-the-operator");
            Json(if operator {
                json!({"jsonrpc": "2.0", "id": call["id"], "result": {"echo": call["params"]}})
            } else {
                let error =
                    json!({"code": -32000, "message": "no", "data": {"kind": "unauthorized"}});
                json!({"jsonrpc": "2.0", "id": call["id"], "error": error})
            })
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Starts one of the scripts in `tests/children` as the server.
async fn start(script: &str) -> anyhow::Result<TestServer> {
    let options = ServerOptions {
        plexus_bin: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/children").join(script)),
        claude_bin: Some("/bin/true".into()),
        arguments: vec!["--extra".into()],
        env: vec![("FAKE_URL".to_owned(), answers().await)],
        ..ServerOptions::default()
    };
    TestServer::with(options).await
}

#[tokio::test]
async fn calls_carry_the_token_and_refusals_keep_their_kind() {
    let server = start("announces").await.unwrap();
    assert_eq!(server.call("a.b", json!({"x": 1})).await.unwrap(), json!({"echo": {"x": 1}}));
    let refused = server.call_as("somebody-else", "a.b", json!({})).await.unwrap().unwrap_err();
    assert_eq!((refused.code, refused.kind()), (-32000, "unauthorized"));
    assert!(
        server.log().contains("--listen 127.0.0.1:0 --claude-bin /bin/true --extra"),
        "{}",
        server.log()
    );
}

#[tokio::test]
async fn a_killed_server_comes_back_as_another_process_on_the_same_data() {
    let mut server = start("announces").await.unwrap();
    let (first, data) = (server.pid().unwrap(), server.data_dir());
    server.crash_and_restart().await.unwrap();
    assert_ne!(server.pid().unwrap(), first);
    assert_eq!(server.data_dir(), data);
    assert_eq!(server.log().matches("started with").count(), 2);
    server.stop().await.unwrap();
    let silent = server.call("a.b", json!({})).await.unwrap_err();
    assert!(silent.downcast_ref::<RpcError>().is_none(), "a stopped server gives no answer at all");
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_an_error_with_its_log() {
    let error = start("ends").await.unwrap_err();
    assert!(error.to_string().contains("the port is taken"), "{error:#}");
}

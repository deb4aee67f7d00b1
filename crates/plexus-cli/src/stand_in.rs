//! A stand-in for the server, which answers each method as a unit test says.

use axum::routing::post;
use axum::{Json, Router};
use plexus_client::Client;
use plexus_client::wire::{CallError, SecretToken};
use serde_json::{Value, json};

/// Starts a server that answers a method and its parameters with `answer`, and returns its client.
pub(super) async fn answering<F>(answer: F) -> Client
where
    F: Fn(&str, &Value) -> Result<Value, CallError> + Clone + Send + Sync + 'static,
{
    let respond = async move |Json(call): Json<Value>| {
        let answer = answer(call["method"].as_str().unwrap_or_default(), &call["params"]);
        Json(match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": 1, "result": result}),
            Err(error) => {
                let error = json!({"code": -32000, "message": error.message, "data": error});
                json!({"jsonrpc": "2.0", "id": 1, "error": error})
            }
        })
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/rpc", post(respond));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Client::connect(url, SecretToken::new("t"))
}

//! A minimal MCP server over streamable HTTP with one tool: the permission prompt of the real CLI.
//!
//! It offers `loopback_permit` and answers each call as the test decides, with one text block of
//! bare JSON, which is the only form that every version of the CLI accepts. It is written by hand
//! because a test double should show the wire format.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The name of the server in the CLI's configuration.
const SERVER: &str = "plexus";
/// The name of its tool.
const TOOL: &str = "loopback_permit";

/// One call of the permission tool.
#[derive(Debug, Clone, PartialEq)]
pub struct PermitCall {
    /// The tool that the child wants to use.
    pub tool_name: String,
    /// Its input.
    pub input: Value,
    /// The tool use in the conversation.
    pub tool_use_id: String,
    /// The arguments as received.
    pub arguments: Value,
}

/// The answer of the tool.
#[derive(Debug, Clone, PartialEq)]
pub enum PermitAnswer {
    /// Runs the tool with this input.
    Allow(Value),
    /// Refuses; the model reads the message.
    Deny(String),
    /// Answers with this text unchanged, right or wrong.
    Text(String),
    /// Never answers: the child waits.
    Never,
}

type Decide =
    dyn Fn(PermitCall) -> Pin<Box<dyn Future<Output = PermitAnswer> + Send>> + Send + Sync;

/// A running permission server; dropping it closes its port.
#[derive(Debug)]
pub struct PermitServer {
    address: SocketAddr,
    shared: Arc<Inner>,
    task: JoinHandle<()>,
}

struct Inner {
    calls: Mutex<Vec<PermitCall>>,
    decide: Box<Decide>,
}

impl PermitServer {
    /// Starts a server that answers as `decide` says.
    pub async fn start<F>(decide: impl Fn(PermitCall) -> F + Send + Sync + 'static) -> Result<Self>
    where
        F: Future<Output = PermitAnswer> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("could not listen for the permit server")?;
        let address = listener.local_addr()?;
        let listener = listener.tap_io(|stream| {
            // It fails only when the socket is already closed.
            let _gone = stream.set_nodelay(true);
        });
        let shared = Arc::new(Inner {
            calls: Mutex::default(),
            decide: Box::new(move |call| Box::pin(decide(call))),
        });
        // The router answers GET with 405, which the CLI takes as "no stream from the server".
        let router = Router::new().route("/mcp", post(message)).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            // axum retries accept errors, so this ends only with the task.
            let _never = axum::serve(listener, router).await;
        });
        Ok(Self { address, shared, task })
    }

    /// Returns the content of the file for `--mcp-config`.
    #[must_use]
    pub fn mcp_config(&self) -> Value {
        json!({"mcpServers": {SERVER: {"type": "http", "url": format!("http://{}/mcp", self.address)}}})
    }

    /// Returns the value for `--permission-prompt-tool`.
    #[must_use]
    pub fn tool_name(&self) -> String {
        format!("mcp__{SERVER}__{TOOL}")
    }

    /// Returns every call so far.
    #[must_use]
    pub fn calls(&self) -> Vec<PermitCall> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for PermitServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("calls", &self.calls).finish_non_exhaustive()
    }
}

async fn message(State(shared): State<Arc<Inner>>, body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(id) = message.get("id").cloned() else {
        return StatusCode::ACCEPTED.into_response();
    };
    let params = &message["params"];
    let outcome = match message["method"].as_str().unwrap_or_default() {
        "initialize" => Ok(json!({
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": SERVER, "version": "0"},
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": [{
            "name": TOOL, "description": "Asks whether a tool may be used.",
            "inputSchema": {"type": "object", "properties": {
                "tool_name": {"type": "string"}, "input": {"type": "object"}, "tool_use_id": {"type": "string"},
            }},
        }]})),
        "tools/call" if params["name"] == TOOL => Ok(call(&shared, &params["arguments"]).await),
        other => Err(json!({"code": -32601, "message": format!("no method {other}")})),
    };
    Json(match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    })
    .into_response()
}

async fn call(shared: &Inner, arguments: &Value) -> Value {
    let text = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
    let call = PermitCall {
        tool_name: text("tool_name"),
        input: arguments["input"].clone(),
        tool_use_id: text("tool_use_id"),
        arguments: arguments.clone(),
    };
    shared.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
    let text = match (shared.decide)(call).await {
        PermitAnswer::Allow(input) => {
            json!({"behavior": "allow", "updatedInput": input}).to_string()
        }
        PermitAnswer::Deny(message) => json!({"behavior": "deny", "message": message}).to_string(),
        PermitAnswer::Text(text) => text,
        PermitAnswer::Never => std::future::pending().await,
    };
    json!({"content": [{"type": "text", "text": text}]})
}

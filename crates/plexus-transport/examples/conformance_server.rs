//! A server for the official MCP conformance suite: our doors, with the tools and resources that
//! the suite expects by name.
//!
//! `scripts/mcp-conformance.sh` starts it. The suite sends no token, so this server adds one to
//! every request: it is for tests only. It listens on a loopback port that the system chooses, and
//! prints it.
#![expect(clippy::print_stdout, reason = "the script reads the address from here")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn};
use plexus_core::method::stream_reply;
use plexus_core::{
    Activation, ActivationInfo, Authenticator, Call, CallError, Caller, Door, Hub, MethodTable,
    ResourceForm, SecretToken,
};
use plexus_transport::{AllowedHosts, Doors, Limits, router, serve};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Longer than the interval between two progress notifications.
const STEP: Duration = Duration::from_millis(600);

struct Suite;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Template {
    id: String,
}

#[derive(Deserialize, JsonSchema)]
struct Person {
    #[serde(rename = "name")]
    _name: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Said {
    text: String,
}

fn said(text: impl Into<String>) -> Result<Said, CallError> {
    Ok(Said { text: text.into() })
}

#[async_trait]
impl Activation for Suite {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "test",
            version: (1, 0, 0),
            description: "what the conformance suite calls",
        }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        MethodTable::new("test")
            .unary(
                "simple_text",
                "Says one thing.",
                |_| {},
                |_call, _params: Nothing| async { said("This is a simple text response for \
                    testing.") },
            )
            .unary(
                "error_handling",
                "Fails.",
                |_| {},
                |_call, _params: Nothing| async {
                    Err::<Said, _>(CallError::unavailable(
                        "do it: this tool intentionally returns an error for testing",
                    ))
                },
            )
            .unary(
                "tool_with_progress",
                "Takes a while.",
                |method| method.hints.waits = true,
                |call: Call, _params: Nothing| async move {
                    for step in ["0 of 100", "50 of 100", "100 of 100"] {
                        call.progress.report(step);
                        tokio::time::sleep(STEP).await;
                    }
                    said("done")
                },
            )
            .unary(
                "reconnection",
                "Takes a while.",
                |method| method.hints.waits = true,
                |_call, _params: Nothing| async {
                    tokio::time::sleep(STEP).await;
                    said("done")
                },
            )
            .unary(
                "static_text",
                "A fixed text.",
                |method| method.resource = Some(ResourceForm { uri: "test://static-text", changes: "never_changes" }),
                |_call, _params: Nothing| async { said("This is the content of the static text \
                    resource.") },
            )
            .unary(
                "watched",
                "A text to listen to.",
                |method| {
                    method.resource = Some(ResourceForm { uri: "test://watched-resource", changes: "never_changes" })
                },
                |_call, _params: Nothing| async { said("watched") },
            )
            .unary(
                "template",
                "A text with a number in it.",
                |method| {
                    method.door = Door::Internal;
                    method.resource = Some(ResourceForm { uri: "test://template/{id}/data", changes: "never_changes" });
                },
                |_call, template: Template| async move { said(format!("Data for ID: {}", template.id)) },
            )
            .streaming::<Nothing, Said, _, _>(
                "never_changes",
                "Says nothing.",
                |method| method.door = Door::Internal,
                |_call, _params| async { Ok(stream_reply(futures::stream::pending())) },
            )
    }
}

struct Schemas;

#[async_trait]
impl Activation for Schemas {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "json",
            version: (1, 0, 0),
            description: "a tool with a schema of its own",
        }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let adjust = |method: &mut plexus_core::MethodDescriptor| {
            method.params = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
                "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
                "additionalProperties": false,
            });
        };
        MethodTable::new("json").unary(
            "schema_2020_12_tool",
            "Has a schema.",
            adjust,
            |_call, _params: Person| async { said("ok") },
        )
    }
}

struct Anybody;

#[async_trait]
impl Authenticator for Anybody {
    async fn authenticate(&self, _token: &SecretToken) -> Result<Caller, CallError> {
        Ok(Caller::Operator)
    }
}

async fn add_token(mut request: Request, next: Next) -> axum::response::Response {
    request
        .headers_mut()
        .insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer plx_conformance"));
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hub = Hub::new(ActivationInfo {
        namespace: "plexus",
        version: (0, 1, 0),
        description: "a hub for the suite",
    });
    hub.register(Arc::new(Suite))?;
    hub.register(Arc::new(Schemas))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let doors =
        Doors::new(hub, Arc::new(Anybody), AllowedHosts::loopback(port, []), Limits::default());
    println!("http://127.0.0.1:{port}/mcp");
    serve(
        listener,
        router(doors.clone()).layer(from_fn(add_token)),
        &doors,
        CancellationToken::new(),
    )
    .await;
    Ok(())
}

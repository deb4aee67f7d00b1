//! One caller at one door, with its own connection.

use anyhow::{Context as _, bail, ensure};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::hub::{Server, TOKEN};

/// Where a call comes in.
#[derive(Clone, Copy)]
pub(crate) enum Door {
    Bare,
    Rpc,
    Socket,
    Mcp,
}

/// The method that is called.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    Trivial,
    Poll,
}

impl Door {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Bare => "bare axum",
            Self::Rpc => "POST /rpc",
            Self::Socket => "WebSocket /rpc",
            Self::Mcp => "MCP /mcp",
        }
    }
}

impl Method {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Trivial => "a trivial method",
            Self::Poll => "a page of 100 events, as poll answers",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Trivial => "echo",
            Self::Poll => "poll",
        }
    }

    fn params(self) -> Value {
        match self {
            Self::Trivial => json!({"text": "hello"}),
            Self::Poll => json!({}),
        }
    }
}

/// A connected caller with its request prepared.
pub(crate) enum Client {
    Http { http: reqwest::Client, request: Box<reqwest::Request> },
    Socket { socket: Box<WebSocketStream<MaybeTlsStream<TcpStream>>>, message: Message },
}

impl Client {
    pub(crate) async fn new(server: &Server, door: Door, method: Method) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": format!("bench.{}", method.name()), "params": method.params()});
        let request = match door {
            Door::Bare => http
                .post(format!("http://{}/{}", server.bare, method.name()))
                .json(&method.params()),
            Door::Rpc => {
                http.post(format!("http://{}/rpc", server.doors)).bearer_auth(TOKEN).json(&call)
            }
            Door::Mcp => {
                let session = begin(&http, server).await?;
                let call = json!({"name": format!("bench_{}", method.name()), "arguments": method.params()});
                mcp(&http, server, "tools/call", &call).header("mcp-session-id", session)
            }
            Door::Socket => {
                let mut request = format!("ws://{}/rpc", server.doors).into_client_request()?;
                request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse()?);
                let (socket, _) = tokio_tungstenite::connect_async(request).await?;
                return Ok(Self::Socket {
                    socket: Box::new(socket),
                    message: Message::text(call.to_string()),
                });
            }
        };
        Ok(Self::Http { request: Box::new(request.build()?), http })
    }

    /// Makes the call and reads its whole answer.
    pub(crate) async fn call(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Http { http, request } => {
                let request = request.try_clone().context("a body that can be sent again")?;
                let response = http.execute(request).await?;
                ensure!(response.status().is_success(), "HTTP {}", response.status());
                ensure!(!response.bytes().await?.is_empty(), "an empty answer");
            }
            Self::Socket { socket, message } => {
                socket.send(message.clone()).await?;
                loop {
                    match socket.next().await.context("the socket ended")?? {
                        Message::Text(_) => break,
                        Message::Ping(_) | Message::Pong(_) => {}
                        other => bail!("an odd message: {other}"),
                    }
                }
            }
        }
        Ok(())
    }
}

fn mcp(
    http: &reqwest::Client,
    server: &Server,
    method: &str,
    params: &Value,
) -> reqwest::RequestBuilder {
    http.post(format!("http://{}/mcp", server.doors))
        .bearer_auth(TOKEN)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
}

async fn begin(http: &reqwest::Client, server: &Server) -> anyhow::Result<String> {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}});
    let response = mcp(http, server, "initialize", &params).send().await?;
    let session =
        response.headers().get("mcp-session-id").context("no MCP session")?.to_str()?.to_owned();
    response.bytes().await?;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let told = mcp(http, server, "", &Value::Null)
        .header("mcp-session-id", &session)
        .json(&initialized)
        .send()
        .await?;
    ensure!(told.status().is_success(), "HTTP {}", told.status());
    Ok(session)
}

//! One caller at one door, with its own connection.

use anyhow::{Context as _, Result, bail, ensure};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Where a call comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::measures) enum Way {
    /// The bare handler.
    Bare,
    /// `POST /rpc`.
    Post,
    /// `/rpc` as a WebSocket.
    Socket,
    /// `/mcp`, in a session.
    Mcp,
}

impl Way {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Bare => "a bare handler",
            Self::Post => "POST /rpc",
            Self::Socket => "a WebSocket",
            Self::Mcp => "MCP",
        }
    }
}

/// Answers shorter than this are checked; a page of events is not, so that the callers do not
/// measure themselves.
const LOOK_INTO_BYTES: usize = 4_096;

/// A connected caller.
pub(in crate::measures) enum Caller {
    /// Over HTTP, with its MCP session if it has one.
    Http { http: reqwest::Client, way: Way, url: String, token: String, session: Option<String> },
    /// Over a WebSocket.
    Socket(Box<WebSocketStream<MaybeTlsStream<TcpStream>>>),
}

impl Caller {
    pub(in crate::measures) async fn connect(way: Way, address: &str, token: &str) -> Result<Self> {
        let path = match way {
            Way::Bare => "",
            Way::Post => "/rpc",
            Way::Mcp => "/mcp",
            Way::Socket => {
                let mut request = format!("ws://{address}/rpc").into_client_request()?;
                request.headers_mut().insert("authorization", format!("Bearer {token}").parse()?);
                let (socket, _) = tokio_tungstenite::connect_async(request).await?;
                return Ok(Self::Socket(Box::new(socket)));
            }
        };
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        let (url, token) = (format!("http://{address}{path}"), token.to_owned());
        let mut caller = Self::Http { http, way, url, token, session: None };
        if way == Way::Mcp {
            caller.begin().await?;
        }
        Ok(caller)
    }

    /// Makes the call and returns its whole answer.
    pub(super) async fn call(&mut self, method: &str, params: &Value) -> Result<String> {
        let answer = match self {
            Self::Http { way: Way::Mcp, .. } => {
                let params = json!({"name": method.replacen('.', "_", 1), "arguments": params});
                self.post(
                    &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}),
                    "",
                )
                .await?
                .0
            }
            Self::Http { way: Way::Bare, .. } => self.post(params, &format!("/{method}")).await?.0,
            Self::Http { .. } => {
                self.post(
                    &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
                    "",
                )
                .await?
                .0
            }
            Self::Socket(socket) => {
                let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                socket.send(Message::text(call.to_string())).await?;
                loop {
                    match socket.next().await.context("the socket ended")?? {
                        Message::Text(answer) => break answer.as_str().to_owned(),
                        Message::Ping(_) | Message::Pong(_) => {}
                        other => bail!("an odd message: {other}"),
                    }
                }
            }
        };
        let failed = answer.contains("\"error\":{") || answer.contains("\"isError\":true");
        ensure!(answer.len() > LOOK_INTO_BYTES || !failed, "{method} was answered {answer}");
        Ok(answer)
    }

    /// Lists the tools that an MCP client sees. `query` is the query of the URL.
    pub(in crate::measures) async fn tools(&self, query: &str) -> Result<Vec<Value>> {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let (answer, _) = self.post(&list, query).await?;
        let answer = answer.lines().rev().find_map(|line| {
            let line = line.strip_prefix("data:").unwrap_or(line);
            serde_json::from_str::<Value>(line.trim()).ok()
        });
        let tools = answer.as_ref().and_then(|answer| answer["result"]["tools"].as_array());
        Ok(tools.context("no list of tools")?.clone())
    }

    /// Starts an MCP session.
    async fn begin(&mut self) -> Result<()> {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}});
        let (_, begun) = self
            .post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}), "")
            .await?;
        if let Self::Http { session, .. } = self {
            *session = Some(begun.context("no MCP session")?);
        }
        self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), "").await?;
        Ok(())
    }

    /// Sends a body, and returns the answer and the MCP session that it names.
    async fn post(&self, body: &Value, path: &str) -> Result<(String, Option<String>)> {
        let Self::Http { http, url, token, session, .. } = self else {
            bail!("a socket does not post")
        };
        let mut request = http
            .post(format!("{url}{path}"))
            .bearer_auth(token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25")
            .json(body);
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let response = request.send().await?;
        ensure!(response.status().is_success(), "HTTP {}", response.status());
        let begun = response
            .headers()
            .get("mcp-session-id")
            .and_then(|id| id.to_str().ok())
            .map(str::to_owned);
        Ok((response.text().await?, begun))
    }
}

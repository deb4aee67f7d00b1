//! The floods: each opens a given number of one resource, once, and holds what the server granted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::Site;
use crate::server::{PATIENCE, Server};

/// Concurrent attempts to connect; more connections than this are held.
const ABREAST: usize = 64;

/// Calls on one socket of the flood of waits: the limit of one socket.
const WAITS_PER_SOCKET: usize = 256;

/// Bytes that prove that a large event of a stream is arriving: more than all small ones together.
const SEEN_BYTES: usize = 8 * 1024;

/// The resource that is flooded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// WebSockets of one parent.
    Sockets,
    /// Half-sent sign-ins, which need no token.
    SignIns,
    /// Streams of large events that nobody reads.
    Unread,
    /// MCP sessions of one parent.
    McpSessions,
    /// Long calls of one parent; every commit wakes all of them.
    Waits,
}

impl Kind {
    pub(super) fn title(self, count: usize) -> String {
        match self {
            Self::Sockets => format!("one parent opens {count} WebSockets"),
            Self::SignIns => format!("somebody without a token half-sends {count} sign-ins"),
            Self::Unread => format!("one parent opens {count} streams and reads none"),
            Self::McpSessions => format!("one parent begins {count} MCP sessions"),
            Self::Waits => format!("one parent has {count} waits"),
        }
    }
}

/// A flood under way. It holds what the server granted until it is stopped.
pub(super) struct Flood {
    tasks: JoinSet<()>,
    admitted: Arc<AtomicUsize>,
}

impl Flood {
    /// Starts a flood of `count` and returns when the server has admitted or refused all of it, so
    /// that the next measurement shows the cost of holding the flood.
    pub(super) async fn start(
        kind: Kind,
        server: &Server,
        site: &Site,
        count: usize,
    ) -> Result<Self> {
        let flooder = Flooder {
            address: server.address()?,
            token: site.parent.clone(),
            session: site.session.clone(),
            client: reqwest::Client::builder().no_proxy().build()?,
            admitted: Arc::default(),
            tried: Arc::default(),
        };
        let mut tasks = JoinSet::new();
        let per_try = match kind {
            Kind::Waits => WAITS_PER_SOCKET,
            Kind::Sockets | Kind::SignIns | Kind::Unread | Kind::McpSessions => 1,
        };
        let tries = count.div_ceil(per_try);
        let admitted = Arc::clone(&flooder.admitted);
        let tried = Arc::clone(&flooder.tried);
        for begun in 0..tries {
            let flooder = flooder.clone();
            let each = per_try.min(count - begun * per_try);
            tasks.spawn(async move {
                // The outcome of one attempt does not matter: only the server is measured.
                let _refused = flooder.one(kind, each).await;
            });
            wait_until(&tried, (begun + 1).saturating_sub(ABREAST)).await?;
        }
        wait_until(&tried, tries).await?;
        Ok(Self { tasks, admitted })
    }

    /// Ends the flood, and returns how many of its attempts were granted.
    #[expect(clippy::cast_precision_loss, reason = "a count of connections")]
    pub(super) async fn stop(mut self) -> f64 {
        self.tasks.shutdown().await;
        self.admitted.load(Ordering::SeqCst) as f64
    }
}

async fn wait_until(tried: &AtomicUsize, wanted: usize) -> Result<()> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while tried.load(Ordering::SeqCst) < wanted {
        if tokio::time::Instant::now() > deadline {
            bail!("the flood did not come further than {}", tried.load(Ordering::SeqCst));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

#[derive(Clone)]
struct Flooder {
    address: String,
    token: String,
    session: String,
    /// Shared by all attempts: building a client takes longer than a request.
    client: reqwest::Client,
    admitted: Arc<AtomicUsize>,
    tried: Arc<AtomicUsize>,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

impl Flooder {
    async fn one(&self, kind: Kind, each: usize) -> Result<()> {
        // The attempt counts however it ends, so that the flood goes on.
        let tried = Tried(&self.tried);
        match kind {
            Kind::Sockets => {
                let mut socket = self.socket().await?;
                self.given(1, tried);
                while socket.next().await.is_some_and(|message| message.is_ok()) {}
            }
            Kind::SignIns => {
                let mut stream = TcpStream::connect(&self.address).await?;
                let head = "POST /auth/exchange HTTP/1.1\r\ncontent-length: 4000\r\nhost: ";
                stream.write_all(format!("{head}{}\r\n\r\n{{", self.address).as_bytes()).await?;
                self.given(1, tried);
                stream.read_to_end(&mut Vec::new()).await?;
            }
            Kind::Unread => {
                let mut socket = self.socket().await?;
                socket
                    .send(self.call(1, "claudecode.follow", &json!({"session_id": self.session})))
                    .await?;
                let begun = begins(&socket).await?;
                self.given(usize::from(begun), tried);
                std::future::pending::<()>().await;
            }
            Kind::McpSessions => {
                let response = self.initialize().await?;
                let given = usize::from(response.status().is_success());
                self.given(given, tried);
            }
            Kind::Waits => {
                let mut socket = self.socket().await?;
                let wait = json!({"after": i64::MAX, "wait_ms": 60_000});
                for id in 0..each {
                    socket.send(self.call(id, "claudecode.wait", &wait)).await?;
                }
                self.given(each, tried);
                // Each answered call is made again, so that the number of waiting calls stays the
                // same.
                while let Some(Ok(message)) = socket.next().await {
                    if let Message::Text(text) = message {
                        let answer: Value = serde_json::from_str(&text)?;
                        if answer["error"].is_object() {
                            self.admitted.fetch_sub(1, Ordering::SeqCst);
                            continue;
                        }
                        let id = usize::try_from(answer["id"].as_u64().unwrap_or_default())?;
                        socket.send(self.call(id, "claudecode.wait", &wait)).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn given(&self, count: usize, tried: Tried<'_>) {
        self.admitted.fetch_add(count, Ordering::SeqCst);
        drop(tried);
    }

    async fn socket(&self) -> Result<Socket> {
        let mut request = format!("ws://{}/rpc", self.address).into_client_request()?;
        request.headers_mut().insert("authorization", format!("Bearer {}", self.token).parse()?);
        Ok(tokio_tungstenite::connect_async(request).await?.0)
    }

    fn call(&self, id: usize, method: &str, params: &Value) -> Message {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Message::text(call.to_string())
    }

    async fn initialize(&self) -> Result<reqwest::Response> {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "flood", "version": "0"}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let request = self
            .client
            .post(format!("http://{}/mcp", self.address))
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .json(&body);
        Ok(request.send().await?)
    }
}

/// Waits until a large event of a stream, or its refusal, begins to arrive. The bytes are peeked at
/// and stay unread. Returns `false` for a refusal.
async fn begins(socket: &Socket) -> Result<bool> {
    let MaybeTlsStream::Plain(stream) = socket.get_ref() else { bail!("a socket with TLS") };
    let mut seen = vec![0; SEEN_BYTES];
    loop {
        let count = stream.peek(&mut seen).await?;
        if count == SEEN_BYTES {
            return Ok(true);
        }
        if count == 0 || String::from_utf8_lossy(&seen[..count]).contains(r#""error""#) {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Counts one attempt when it is dropped.
struct Tried<'a>(&'a AtomicUsize);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

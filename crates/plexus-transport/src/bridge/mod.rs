//! MCP over stdio for a parent that starts its MCP server as a program: a bridge from stdin and
//! stdout to a running server's `/mcp`.
//!
//! A restart of the server is invisible to the parent. The bridge starts a new session by itself,
//! resumes calls whose stream was lost, and retries idempotent calls. For the rest it answers that
//! the server was lost while the call was under way. In reading order:
//! - [`sse`]: reads an event stream.
//! - [`link`]: the session with the server, re-established whenever it is lost.
//! - [`request`]: one request of the parent, from its line to its answer.

mod link;
mod request;
mod sse;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use plexus_core::SecretToken;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::codec::{FramedRead, LinesCodec};

use self::link::Link;
use crate::mcp::Message;

/// The longest line accepted from the parent: the largest body of a request.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Concurrent requests. A parent with more has to wait for one of them.
const MAX_OPEN: usize = 256;

/// Lines waiting for the parent to read them.
const OUTPUT_QUEUE: usize = 64;

/// How long requests under way may still take after the parent has closed its side.
const GRACE: Duration = Duration::from_secs(2);

/// Why a bridge ended.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The parent's side broke.
    #[error("read what the parent sends")]
    Input(#[source] std::io::Error),
    /// The HTTP client could not be built.
    #[error("make an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// The server's address, without `/mcp`. It is looked up before every request: a restarted server
/// may listen elsewhere.
pub struct Whereabouts {
    find: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// The last known address, used while the current one is unknown: the server may come back
    /// there.
    last: Mutex<String>,
}

impl Whereabouts {
    /// Describes a server that is at `url` now. `find` returns its address later, or `None` while
    /// it is unknown.
    pub fn new(
        url: impl Into<String>,
        find: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { find: Box::new(find), last: Mutex::new(url.into()) }
    }

    /// Describes a server that is always at `url`.
    pub fn fixed(url: impl Into<String>) -> Self {
        Self::new(url, || None)
    }

    fn now(&self) -> String {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(url) = (self.find)() {
            *last = url;
        }
        last.clone()
    }
}

/// How much detail the list of tools has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ToolList {
    /// Only what a model needs, in few bytes.
    #[default]
    Short,
    /// Everything that can be called.
    Full,
}

/// Serves MCP on this process's stdin and stdout through a running server, until stdin ends.
///
/// # Errors
/// When stdin breaks. While the server cannot be reached, the bridge waits for it.
pub async fn bridge_stdio(
    server: Whereabouts,
    token: SecretToken,
    tools: ToolList,
) -> Result<(), BridgeError> {
    bridge(server, token, tools, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves MCP on any pair of byte streams, as [`bridge_stdio`] does.
///
/// # Errors
/// As [`bridge_stdio`].
pub async fn bridge(
    server: Whereabouts,
    token: SecretToken,
    tools: ToolList,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Result<(), BridgeError> {
    let (out, queue) = mpsc::channel(OUTPUT_QUEUE);
    let link = Arc::new(Link::new(server, token, tools, out.clone()).map_err(BridgeError::Client)?);
    let writer = tokio::spawn(write_lines(output, queue));
    let listener = tokio::spawn(Arc::clone(&link).listen());
    let mut bridge =
        Bridge { link: Arc::clone(&link), out, tasks: JoinSet::new(), by_id: HashMap::new() };
    let mut lines = FramedRead::new(input, LinesCodec::new_with_max_length(MAX_LINE_BYTES));
    let ended = loop {
        match lines.next().await {
            Some(Ok(line)) => bridge.take(line).await,
            Some(Err(tokio_util::codec::LinesCodecError::MaxLineLengthExceeded)) => {
                bridge
                    .say(request::failure(None, -32600, "the line is longer than a request may be"))
                    .await;
            }
            Some(Err(tokio_util::codec::LinesCodecError::Io(error))) => {
                break Err(BridgeError::Input(error));
            }
            None => break Ok(()),
        }
    };
    bridge.finish().await;
    listener.abort();
    link.end().await;
    drop(link);
    // The writer ends by itself once all senders are gone; a parent that does not read is not
    // waited for.
    if tokio::time::timeout(GRACE, writer).await.is_err() {
        tracing::debug!("the parent did not read its last answers");
    }
    ended
}

async fn write_lines(mut output: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<String>) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if output.write_all(line.as_bytes()).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

struct Bridge {
    link: Arc<Link>,
    out: mpsc::Sender<String>,
    tasks: JoinSet<()>,
    by_id: HashMap<String, AbortHandle>,
}

impl Bridge {
    async fn take(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        let message = match Message::read(line.as_bytes()) {
            Ok(message) => message,
            Err(error) => {
                return self.say(request::failure(None, error.rpc_code(), &error.message)).await;
            }
        };
        let id = message.id().map(ToOwned::to_owned);
        if let Some(cancelled) = message.cancelled_request()
            && let Some(task) = self.by_id.remove(cancelled.get())
        {
            task.abort();
        }
        if message.is_discovery() {
            // The newest protocol has no sessions that the bridge could keep for the parent, and it
            // uses HTTP headers, which a line cannot carry.
            return self
                .say(request::failure(
                    id.as_deref(),
                    -32601,
                    "server/discover is not served over stdio",
                ))
                .await;
        }
        while self.tasks.len() >= MAX_OPEN {
            self.tasks.join_next().await;
        }
        let task = self.tasks.spawn(request::run(Arc::clone(&self.link), self.out.clone(), line));
        self.by_id.retain(|_, task| !task.is_finished());
        while self.tasks.try_join_next().is_some() {}
        self.by_id.extend(id.map(|id: Box<RawValue>| (id.get().to_owned(), task)));
    }

    async fn say(&self, line: String) {
        // A parent that is gone also closes its own side; the loop notices that next.
        let _gone = self.out.send(line).await;
    }

    /// Gives requests under way a short time to finish.
    async fn finish(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            tracing::debug!("the parent left while its requests were under way");
        }
    }
}

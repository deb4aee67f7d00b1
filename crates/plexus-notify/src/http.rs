//! One request to a receiver. Everything about it is bounded: the time to connect, the time in all,
//! and what is read of the answer. It goes to the configured address and to no other: redirects are
//! not followed, proxies of the environment not used. Each request opens a new connection: the
//! receiver may have closed a kept one, and messages are too rare to reuse it.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::request::Builder;
use axum::http::{Request, StatusCode};
use futures::StreamExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use plexus_tls::connect;
use rustls::ClientConfig;
use url::{Position, Url};

/// How long a connection may take to be made, with its TLS.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Where a receiver is reached, and how.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) url: Url,
    /// The TLS configuration; `None` for `http://…`.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl fmt::Debug for Address {
    /// Leaves the path out: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", &self.url[..Position::BeforePath])
    }
}

impl Address {
    /// Checks the address of a receiver and reads whom to trust for it.
    pub(crate) fn new(url: &str, ca_file: Option<&Path>) -> Result<Self, String> {
        let url: Url = url.parse().map_err(|error| format!("its url is not valid: {error}"))?;
        let tls = match (url.scheme(), ca_file) {
            ("https", ca_file) => {
                let trusted =
                    plexus_tls::trust(ca_file, "ca_file").map_err(|error| error.to_string())?;
                Some(Arc::new(trusted))
            }
            ("http", None) => None,
            ("http", Some(_)) => return Err("its ca_file works only with https://".into()),
            _ => return Err("its url must begin with https:// or http://".into()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("its url must not hold a name or password".into());
        }
        Ok(Self { url, tls })
    }

    /// The same server, at this path below the configured one.
    pub(crate) fn at(&self, path: &str) -> Self {
        let mut url = self.url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        Self { url, tls: self.tls.clone() }
    }

    /// Begins a POST to it, with the headers that every request has.
    pub(crate) fn post(&self) -> Builder {
        let url = &self.url;
        Request::post(&url[Position::BeforePath..Position::AfterQuery])
            .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
            .header(USER_AGENT, concat!("plexus/", env!("CARGO_PKG_VERSION")))
    }

    /// Begins a POST of a JSON object to it.
    pub(crate) fn post_json(&self) -> Builder {
        self.post().header(CONTENT_TYPE, "application/json")
    }
}

/// What a receiver answered.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    /// The beginning of the body, as much as was asked for.
    pub(crate) body: Vec<u8>,
}

/// Why there was no answer. Without the URL, which may hold a secret path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("no connection in time")]
    Slow,
    #[error("no answer came in time")]
    Late,
    #[error("no connection: {}", chain(.0))]
    Connection(#[from] io::Error),
    #[error("no answer: {}", chain(.0))]
    Http(#[from] hyper::Error),
}

/// Sends a request and returns the status of its answer with at most `body_bytes` of its body.
/// Everything else that the receiver has to say is dropped unread, with the connection.
pub(crate) async fn exchange(
    to: &Address,
    request: Request<Body>,
    within: Duration,
    body_bytes: usize,
) -> Result<Answered, NoAnswer> {
    tokio::time::timeout(within, unbounded(to, request, body_bytes))
        .await
        .map_err(|_| NoAnswer::Late)?
}

async fn unbounded(
    to: &Address,
    request: Request<Body>,
    body_bytes: usize,
) -> Result<Answered, NoAnswer> {
    let connection = tokio::time::timeout(CONNECT_WITHIN, connect(&to.url, to.tls.as_ref()))
        .await
        .map_err(|_| NoAnswer::Slow)??;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
    let asking = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let mut body = Vec::new();
        if body_bytes > 0 {
            let mut rest = Body::new(answer.into_body()).into_data_stream();
            // A body that breaks off is judged by the part that arrived.
            while let Some(Ok(bytes)) = rest.next().await {
                let room = body_bytes.saturating_sub(body.len());
                body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if body.len() >= body_bytes {
                    break;
                }
            }
        }
        Ok(Answered { status, body })
    };
    let (mut connection, mut asking) = (pin!(connection), pin!(asking));
    tokio::select! {
        answered = &mut asking => answered,
        // The answer may have arrived before the connection ended; otherwise it reports the end.
        _ended = &mut connection => asking.await,
    }
}

/// An error and all that it came from.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

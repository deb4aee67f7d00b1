//! One attempt to send a message. Everything about it is bounded: the time to connect, the time in
//! all, and what is read of the answer, which is its status and nothing else. It goes to the
//! configured address and to no other: redirects are not followed, proxies of the environment not
//! used. Each attempt opens a new connection: the receiver may have closed a kept one, and messages
//! are too rare to reuse it.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{Request, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use plexus_store::{OutboxEntry, UnixMillis};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Position, Url};

use super::receiver::Receiver;
use super::sign;

/// How long a connection may take to be made, with its TLS.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// What became of an attempt.
pub(super) enum Attempt {
    /// The receiver has it.
    Delivered,
    /// The receiver answered something else than 2xx.
    Refused(String),
    /// There was no answer in time.
    Unreachable(String),
}

/// Sends a message to its receiver.
pub(super) async fn post(receiver: &Receiver, entry: &OutboxEntry, letter: String) -> Attempt {
    let Some(signature) = sign::signature(&receiver.secret, UnixMillis::now().as_secs(), &letter)
    else {
        return Attempt::Refused("it could not be signed".into());
    };
    let url = &receiver.url;
    let request = Request::post(&url[Position::BeforePath..Position::AfterQuery])
        .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("plexus/", env!("CARGO_PKG_VERSION")))
        .header("plexus-webhook-id", entry.id.to_string())
        .header("plexus-webhook-event", entry.kind.as_str())
        .header(sign::HEADER, signature)
        .body(Body::from(letter));
    let request = match request {
        Ok(request) => request,
        Err(error) => return Attempt::Refused(format!("it could not be written: {error}")),
    };
    match tokio::time::timeout(receiver.timeout, answer(receiver, request)).await {
        Ok(Ok(status)) if status.is_success() => Attempt::Delivered,
        Ok(Ok(status)) => Attempt::Refused(format!("it answered {status}")),
        Ok(Err(error)) => Attempt::Unreachable(error.to_string()),
        Err(_) => Attempt::Unreachable("no answer in time".into()),
    }
}

/// Why there was no answer. Without the URL, which may hold a secret path.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("no connection in time")]
    Slow,
    #[error("no connection: {}", chain(.0))]
    Connection(#[from] io::Error),
    #[error("no answer: {}", chain(.0))]
    Http(#[from] hyper::Error),
}

/// Sends the request and returns the status of its answer. Everything else that the receiver has to
/// say is dropped unread, with the connection.
async fn answer(receiver: &Receiver, request: Request<Body>) -> Result<StatusCode, NoAnswer> {
    let connection =
        tokio::time::timeout(CONNECT_WITHIN, connect(&receiver.url, receiver.tls.as_ref()))
            .await
            .map_err(|_| NoAnswer::Slow)??;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
    let (mut connection, mut answer) = (pin!(connection), pin!(sender.send_request(request)));
    let answer = tokio::select! {
        answer = &mut answer => answer,
        // The answer may have arrived before the connection ended; otherwise it reports the end.
        _ended = &mut connection => answer.await,
    };
    Ok(answer?.status())
}

/// A connection of either kind.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Connects to the host of a URL, over TLS where a configuration for it is given.
pub(crate) async fn connect(
    url: &Url,
    tls: Option<&Arc<ClientConfig>>,
) -> io::Result<Box<dyn Connection>> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "its url has no host");
    let host = url.host().ok_or_else(none)?;
    let port = url.port_or_known_default().ok_or_else(none)?;
    let (stream, name) = match host {
        Host::Domain(name) => {
            let known = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
            (TcpStream::connect((name, port)).await?, known)
        }
        Host::Ipv4(ip) => (TcpStream::connect((ip, port)).await?, ServerName::IpAddress(ip.into())),
        Host::Ipv6(ip) => (TcpStream::connect((ip, port)).await?, ServerName::IpAddress(ip.into())),
    };
    stream.set_nodelay(true)?;
    Ok(match tls {
        Some(tls) => Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?),
        None => Box::new(stream),
    })
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

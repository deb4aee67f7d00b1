//! The HTTP proxy: `CONNECT host:port` and requests in absolute form.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use hyper::header::{TE, TRAILER, UPGRADE};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::connection::Connection;
use super::dial::dial;
use super::gate::{Decision, Gate};
use super::hosts::normal;
use super::upstream::UpstreamProxy;

pub(crate) type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// What a connection turns into after it was answered.
pub(crate) type Tunnel = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The gate, as one connection comes to it.
#[derive(Clone, Copy)]
pub(crate) struct Passage<'a> {
    pub(crate) gate: &'a Arc<Gate>,
    pub(crate) from: Connection,
}

impl Passage<'_> {
    async fn pass(self, host: &str, port: u16) -> Decision {
        self.gate.pass(host, port, self.from).await
    }
}

/// Serves one request of the program. For a tunnel (`CONNECT`), the connection to the host is sent
/// to `tunnels`, and the task of the program's connection passes the bytes.
pub(crate) async fn serve(
    gate: Passage<'_>,
    tunnels: mpsc::Sender<Tunnel>,
    upstream: Option<&UpstreamProxy>,
    request: Request<Incoming>,
) -> Answer {
    if request.method() == Method::CONNECT {
        tunnel(gate, tunnels, upstream, request).await
    } else {
        forward(gate, upstream, request).await
    }
}

async fn tunnel(
    gate: Passage<'_>,
    tunnels: mpsc::Sender<Tunnel>,
    upstream: Option<&UpstreamProxy>,
    request: Request<Incoming>,
) -> Answer {
    let target = request.uri().authority().and_then(|at| Some((normal(at.host()), at.port_u16()?)));
    let Some((host, port)) = target else {
        return say(StatusCode::BAD_REQUEST, "CONNECT takes host:port");
    };
    if let Decision::Deny(why) = gate.pass(&host, port).await {
        return refuse(&host, port, &why);
    }
    let mut upstream = match dial(&host, port, upstream).await {
        Ok(stream) => stream,
        Err(why) => return say(StatusCode::BAD_GATEWAY, &why),
    };
    let tunnel: Tunnel = Box::pin(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            let mut inside = TokioIo::new(upgraded);
            // How a tunnel ends is known to both of its ends, and nobody else asks.
            let _ended = tokio::io::copy_bidirectional(&mut inside, &mut upstream).await;
        }
    });
    if tunnels.try_send(tunnel).is_err() {
        return say(StatusCode::BAD_REQUEST, "a connection becomes one tunnel");
    }
    Response::new(Empty::new().map_err(|never| match never {}).boxed())
}

async fn forward(
    gate: Passage<'_>,
    upstream: Option<&UpstreamProxy>,
    request: Request<Incoming>,
) -> Answer {
    let uri = request.uri();
    let host = uri.host().filter(|_| uri.scheme_str() == Some("http")).map(normal);
    let Some(host) = host else {
        return say(StatusCode::BAD_REQUEST, "this is a proxy: send CONNECT, or http:// in full");
    };
    let port = uri.port_u16().unwrap_or(80);
    if let Decision::Deny(why) = gate.pass(&host, port).await {
        return refuse(&host, port, &why);
    }
    let stream = match dial(&host, port, upstream).await {
        Ok(stream) => stream,
        Err(why) => return say(StatusCode::BAD_GATEWAY, &why),
    };
    // Virtual hosts choose by this header: it must be the host that was decided about.
    let authority = uri.authority().map(|at| at.as_str().to_owned()).unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default().to_owned();
    pass_on(stream, request, &authority).await
}

/// Sends a request on and streams the answer back as it comes.
pub(crate) async fn pass_on<S>(stream: S, mut request: Request<Incoming>, host: &str) -> Answer
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let (Ok(path), Ok(host)) = (path.parse::<Uri>(), HeaderValue::from_str(host)) else {
        return say(StatusCode::BAD_REQUEST, "the address of the request cannot be passed on");
    };
    *request.uri_mut() = path;
    let headers = request.headers_mut();
    // Hop-by-hop headers concern one connection, so they are not passed on.
    for name in [CONNECTION, PROXY_AUTHORIZATION, TE, TRAILER, UPGRADE] {
        headers.remove(name);
    }
    for name in ["proxy-connection", "keep-alive"] {
        headers.remove(HeaderName::from_static(name));
    }
    headers.insert(HOST, host);
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = match connected {
        Ok(both) => both,
        Err(error) => return say(StatusCode::BAD_GATEWAY, &error.to_string()),
    };
    tokio::spawn(connection);
    match sender.send_request(request).await {
        Ok(answer) => answer.map(BodyExt::boxed),
        Err(error) => say(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

fn refuse(host: &str, port: u16, why: &str) -> Answer {
    let words = format!(
        "{host}:{port} is not allowed for this program: {why}. Do not try other ways; say what \
         it is needed for"
    );
    say(StatusCode::FORBIDDEN, &words)
}

/// An answer of our own, marked as one.
pub(crate) fn say(status: StatusCode, words: &str) -> Answer {
    let text = Bytes::from(format!("plexus: {words}\n"));
    let mut answer = Response::new(Full::new(text).map_err(|never| match never {}).boxed());
    *answer.status_mut() = status;
    let kind = if status == StatusCode::FORBIDDEN { "denied" } else { "failed" };
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-plexus-egress", HeaderValue::from_static(kind));
    answer
}

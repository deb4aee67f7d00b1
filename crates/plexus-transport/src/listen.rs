//! The listeners: plain or TLS, connections bounded, slow clients timed out, TCP_NODELAY on, and a
//! graceful shutdown.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connections::Connection;
use crate::doors::Doors;
use crate::limits::{CONNECTION_BUFFER, SEND_BUFFER};
use crate::wire::Wire;
use crate::{identity, leftover};

/// How long to wait when the system refuses another connection (no descriptors left), instead of
/// spinning.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// A bound socket, and how its connections speak.
pub struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// A listener whose connections are encrypted.
    pub fn tls(socket: TcpListener, config: Arc<ServerConfig>) -> Self {
        Self { socket, tls: Some(TlsAcceptor::from(config)) }
    }
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Self { socket, tls: None }
    }
}

/// Serves `router`, which holds `doors`, on `listener` until `shutdown`, then ends the streams and
/// gives open calls a short time to finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    doors: &Doors,
    shutdown: CancellationToken,
) {
    serve_all(vec![listener.into()], router, doors, shutdown).await;
}

/// Serves the same doors on several listeners, which share all bounds.
pub async fn serve_all(
    listeners: Vec<Listener>,
    router: Router,
    doors: &Doors,
    shutdown: CancellationToken,
) {
    // These layers wrap every route, including pages and unknown paths: each may answer without
    // reading the body, and none may serve another host or site.
    let router = router
        .layer(axum::middleware::from_fn_with_state(doors.clone(), identity::require_our_host))
        .layer(axum::middleware::from_fn(leftover::close_behind));
    let tracker = TaskTracker::new();
    let accepting = listeners
        .into_iter()
        .map(|listener| accept(listener, router.clone(), doors, &tracker, shutdown.clone()));
    futures::future::join_all(accepting).await;
    doors.closing.cancel();
    tracker.close();
    if tokio::time::timeout(doors.limits.drain, tracker.wait()).await.is_err() {
        tracing::debug!("some connections were still open when the server stopped");
    }
}

/// Takes connections of one listener until `shutdown`.
async fn accept(
    Listener { socket, tls }: Listener,
    router: Router,
    doors: &Doors,
    tracker: &TaskTracker,
    shutdown: CancellationToken,
) {
    let limits = &doors.limits;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(CONNECTION_BUFFER);
    loop {
        let stream = tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_REST).await;
                    continue;
                }
            },
            () = shutdown.cancelled() => break,
        };
        // Without it every small answer waits 40 ms for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        if let Err(error) = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER) {
            tracing::debug!(%error, "could not bound the send buffer");
        }
        let connection = doors.connections.begin();
        // If all places are taken, this connection has just evicted another, whose place becomes
        // free in a moment.
        let place = tokio::select! {
            place = Arc::clone(&doors.connections.places).acquire_owned() => place,
            () = shutdown.cancelled() => break,
        };
        let Ok(place) = place else { break };
        let wire = Wire::new(stream, Arc::clone(&connection), place, limits.stall_timeout);
        let known = Arc::clone(&connection);
        let service =
            tower::util::MapRequest::new(router.clone(), move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(Arc::clone(&known));
                request.map(Body::new)
            });
        let service = TowerToHyperService::new(service);
        let (builder, shutdown, drain) = (builder.clone(), shutdown.clone(), limits.drain);
        match &tls {
            None => {
                let http = builder.serve_connection(TokioIo::new(wire), service).with_upgrades();
                tracker.spawn(until_over(http, connection, shutdown, drain));
            }
            Some(tls) => {
                let (opening, patience) = (tls.accept(wire), limits.header_timeout);
                tracker.spawn(async move {
                    // The handshake shows no token either, so a newer connection may evict it.
                    let opened = tokio::select! {
                        opened = tokio::time::timeout(patience, opening) => opened,
                        () = connection.pushed_out.cancelled() => return,
                        () = shutdown.cancelled() => return,
                    };
                    let stream = match opened {
                        Ok(Ok(stream)) => TokioIo::new(stream),
                        Ok(Err(error)) => {
                            tracing::debug!(%error, "a client did not agree on TLS");
                            return;
                        }
                        Err(_) => {
                            tracing::debug!("a client took too long to agree on TLS");
                            return;
                        }
                    };
                    let http = builder.serve_connection(stream, service).with_upgrades();
                    until_over(http, connection, shutdown, drain).await;
                });
            }
        }
    }
}

/// Serves the requests of one connection until it ends, makes room for a newer one, or the server
/// stops.
async fn until_over<I, S>(
    http: http1::UpgradeableConnection<I, S>,
    connection: Arc<Connection>,
    shutdown: CancellationToken,
    drain: Duration,
) where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut http = std::pin::pin!(http);
    let ended = tokio::select! {
        ended = &mut http => ended,
        () = connection.pushed_out.cancelled() => {
            tracing::debug!("a connection that showed no token made room for a newer one");
            return;
        }
        () = shutdown.cancelled() => {
            http.as_mut().graceful_shutdown();
            match tokio::time::timeout(drain, http).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

//! The listener: connections bounded, slow clients timed out, TCP_NODELAY on, and a graceful
//! shutdown.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::doors::Doors;
use crate::limits::{CONNECTION_BUFFER, SEND_BUFFER};
use crate::wire::Wire;
use crate::{identity, leftover};

/// How long open connections may take to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// How long to wait when the system refuses another connection (no descriptors left), instead of
/// spinning.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Serves `router`, which holds `doors`, on `listener` until `shutdown`, then ends the streams and
/// gives open calls a short time to finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    doors: &Doors,
    shutdown: CancellationToken,
) {
    let limits = &doors.limits;
    // These layers wrap every route, including pages and unknown paths: each may answer without
    // reading the body, and none may serve another host or site.
    let router = router
        .layer(axum::middleware::from_fn_with_state(doors.clone(), identity::require_our_host))
        .layer(axum::middleware::from_fn(leftover::close_behind));
    let tracker = TaskTracker::new();
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(CONNECTION_BUFFER);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
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
        let http = builder.serve_connection(TokioIo::new(wire), service).with_upgrades();
        let shutdown = shutdown.clone();
        tracker.spawn(async move {
            let mut http = std::pin::pin!(http);
            let ended = tokio::select! {
                ended = &mut http => ended,
                () = connection.pushed_out.cancelled() => {
                    tracing::debug!("a connection that showed no token made room for a newer one");
                    return;
                }
                () = shutdown.cancelled() => {
                    http.as_mut().graceful_shutdown();
                    match tokio::time::timeout(DRAIN, http).await {
                        Ok(ended) => ended,
                        Err(_) => return,
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    doors.closing.cancel();
    tracker.close();
    if tokio::time::timeout(DRAIN, tracker.wait()).await.is_err() {
        tracing::debug!("some connections were still open when the server stopped");
    }
}

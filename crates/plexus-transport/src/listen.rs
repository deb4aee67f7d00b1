//! The listener: connections bounded, slow clients timed out, TCP_NODELAY on, and a polite end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::doors::Doors;
use crate::leftover;
use crate::stats::Counters;

/// How long open connections may take to finish what they do when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// How long to rest when the system refuses another connection (no descriptors left), instead of spinning.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Serves `router`, which holds `doors`, on `listener` until `shutdown`, then ends the streams and lets open calls finish for a short while.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    doors: &Doors,
    shutdown: CancellationToken,
) {
    let limits = &doors.limits;
    // Around everything, pages and unknown addresses too: each of them may answer without having read the body.
    let router = router.layer(axum::middleware::from_fn(leftover::close_behind));
    let places = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
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
        // Without it every small answer waits 40 ms for the other side's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            connections.spawn(turn_away(stream));
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let shutdown = shutdown.clone();
        let open = Open::new(&doors.counters);
        connections.spawn(async move {
            let _held = (place, open);
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = shutdown.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    match tokio::time::timeout(DRAIN, connection).await {
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
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::debug!("some connections were still open when the server stopped");
    }
}

/// One open connection, counted for as long as it lives, however its task ends.
struct Open(Arc<Counters>);

impl Open {
    fn new(counters: &Arc<Counters>) -> Self {
        counters.connection_opened();
        Self(Arc::clone(counters))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
}

/// Answers one connection too many without reading anything from it.
async fn turn_away(mut stream: TcpStream) {
    const BUSY: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let answered = tokio::time::timeout(Duration::from_secs(1), stream.write_all(BUSY)).await;
    if !matches!(answered, Ok(Ok(()))) {
        tracing::debug!("a connection over the limit went away unanswered");
    }
}

//! Handles a request's body that is still unread when its answer is ready: the answer announces
//! that the connection closes, and arrives before it does.
//!
//! A refusal (no token, another host, too large) is sent before the body is read. The rest of that
//! body occupies the place of the next request, so the connection cannot be reused. Without the
//! announcement, a client would send its next call into a connection that is being closed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt;
use http_body::{Frame, SizeHint};
use tokio::sync::oneshot;

/// How long the rest of a body is read and discarded. If a server answers and closes at once, the
/// client's kernel discards the answer together with the data it has not sent yet.
const LINGER: Duration = Duration::from_secs(5);

/// Adds `connection: close` to the answer when the body was not read to its end.
pub(crate) async fn close_behind(request: Request, next: Next) -> Response {
    let (back, mut left) = oneshot::channel();
    let request = request.map(|body| Body::new(Lent { body: Some(body), back: Some(back) }));
    let mut response = next.run(request).await;
    if let Ok(rest) = left.try_recv() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        tokio::spawn(throw_away(rest));
    }
    response
}

async fn throw_away(rest: Body) {
    let mut rest = rest.into_data_stream();
    let read = async { while let Some(Ok(_)) = rest.next().await {} };
    if tokio::time::timeout(LINGER, read).await.is_err() {
        tracing::debug!("a body that nobody wanted did not end; its connection is closed");
    }
}

/// A body that is handed back when it is dropped before its end.
struct Lent {
    /// `None` once it has ended.
    body: Option<Body>,
    back: Option<oneshot::Sender<Body>>,
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take(), self.back.take())
            && !http_body::Body::is_end_stream(&body)
        {
            // The receiver is gone when the whole request was dropped.
            let _gone = back.send(body);
        }
    }
}

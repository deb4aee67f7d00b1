//! Reads a request's body, bounded in bytes and in time, for every door that accepts one.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::StreamExt;
use http_body::{Frame, SizeHint};
use plexus_core::{CallError, Caller};

use crate::doors::Doors;
use crate::identity::refuse;
use crate::limits::{CONNECTION_BUFFER, Limits, TOKENLESS_BODY_TIMEOUT};
use crate::shares::Taken;

/// A body, whose bytes count as held by its caller until this is dropped.
pub(crate) struct Read {
    pub(crate) bytes: Bytes,
    pub(crate) held: Taken,
}

/// Reads the whole body of a request of `caller`.
///
/// # Errors
/// The response to send: 413 for a body over the limit, 408 for one that times out, 400 for one
/// that breaks off, 503 for one that exceeds what the caller may hold.
pub(crate) async fn read(doors: &Doors, caller: Caller, body: Body) -> Result<Read, Response> {
    let Limits { body_bytes, body_timeout, .. } = *doors.limits;
    let mut held = doors.bytes.charge(caller, 0);
    let bytes = read_up_to(body_bytes, body_timeout, body, |more| held.grow(more)).await?;
    Ok(Read { bytes, held })
}

/// Reads the small body of a client that showed no token: at most `max_bytes`, with a short
/// timeout.
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_small(
    limits: &Limits,
    max_bytes: usize,
    body: Body,
) -> Result<Bytes, Response> {
    let timeout = limits.body_timeout.min(TOKENLESS_BODY_TIMEOUT);
    read_up_to(limits.body_bytes.min(max_bytes), timeout, body, |_| Ok(())).await
}

async fn read_up_to(
    max_bytes: usize,
    timeout: Duration,
    body: Body,
    mut hold: impl FnMut(usize) -> Result<(), CallError>,
) -> Result<Bytes, Response> {
    let declared = declared_len(&body);
    let mut chunks = body.into_data_stream();
    if declared.is_some_and(|bytes| bytes > max_bytes as u64) {
        return Err(too_large(max_bytes));
    }
    let deadline = tokio::time::Instant::now() + timeout;
    let mut whole = Vec::new();
    loop {
        let chunk = match tokio::time::timeout_at(deadline, chunks.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(None) => return Ok(Bytes::from(whole)),
            Ok(Some(Err(_))) => {
                return Err(refuse(
                    StatusCode::BAD_REQUEST,
                    &CallError::invalid("read the body: it broke off"),
                ));
            }
            Err(_) => {
                let error = CallError::expired(format_args!(
                    "read the body: it did not come within {} s",
                    timeout.as_secs()
                ));
                return Err(refuse(StatusCode::REQUEST_TIMEOUT, &error));
            }
        };
        if chunk.len() > max_bytes - whole.len() {
            return Err(too_large(max_bytes));
        }
        hold(chunk.len()).map_err(|error| refuse(StatusCode::SERVICE_UNAVAILABLE, &error))?;
        whole.extend_from_slice(&chunk);
    }
}

/// Makes the body of an answer that keeps `held` until nearly all of it is written: the server
/// polls for the next piece only when it has room for it.
pub(crate) fn held_until_sent<T: Send + Unpin + 'static>(bytes: Bytes, held: T) -> Body {
    Body::new(Pieces { rest: bytes, _held: held })
}

struct Pieces<T> {
    rest: Bytes,
    _held: T,
}

impl<T: Unpin> http_body::Body for Pieces<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let count = self.rest.len().min(CONNECTION_BUFFER);
        let piece = (count > 0).then(|| Ok(Frame::data(self.rest.split_to(count))));
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

fn declared_len(body: &Body) -> Option<u64> {
    http_body::Body::size_hint(body).exact()
}

fn too_large(max_bytes: usize) -> Response {
    let error =
        CallError::invalid(format_args!("read the body: at most {max_bytes} bytes are taken"));
    refuse(StatusCode::PAYLOAD_TOO_LARGE, &error)
}

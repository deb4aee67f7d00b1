//! Reads a request's body: bounded in bytes and in time, for every door that takes one.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::StreamExt;
use plexus_core::CallError;

use crate::identity::refuse;
use crate::limits::Limits;

/// Reads a whole body.
///
/// # Errors
/// The answer to give: 413 for a body over the limit, 408 for one that does not come, 400 for one that broke off.
pub(crate) async fn read(limits: &Limits, body: Body) -> Result<Bytes, Response> {
    let declared = declared_len(&body);
    let mut chunks = body.into_data_stream();
    if declared.is_some_and(|bytes| bytes > limits.body_bytes as u64) {
        return Err(too_large(limits));
    }
    let deadline = tokio::time::Instant::now() + limits.body_timeout;
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
                    limits.body_timeout.as_secs()
                ));
                return Err(refuse(StatusCode::REQUEST_TIMEOUT, &error));
            }
        };
        if chunk.len() > limits.body_bytes - whole.len() {
            return Err(too_large(limits));
        }
        whole.extend_from_slice(&chunk);
    }
}

fn declared_len(body: &Body) -> Option<u64> {
    http_body::Body::size_hint(body).exact()
}

fn too_large(limits: &Limits) -> Response {
    let error = CallError::invalid(format_args!(
        "read the body: at most {} bytes are taken",
        limits.body_bytes
    ));
    refuse(StatusCode::PAYLOAD_TOO_LARGE, &error)
}

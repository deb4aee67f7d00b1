//! `POST /hooks/respond`: an answer to a webhook. It needs no caller's token: its body has the
//! one-time token that the webhook contained.

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plexus_core::{CallError, ErrorKind};

use crate::body;
use crate::doors::Doors;
use crate::identity::refuse;
use crate::limits::{MAX_HOOK_ANSWER_BYTES, MAX_HOOK_ANSWERS, RETRY_AFTER_MS};

pub(crate) async fn handle(State(doors): State<Doors>, body: Body) -> Response {
    let Some(answers) = &doors.answers else {
        let error =
            CallError::not_found("take an answer: this server has no receivers that may answer");
        return refuse(StatusCode::NOT_FOUND, &error);
    };
    let body = match body::read_small(&doors.limits, MAX_HOOK_ANSWER_BYTES, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    // The permit is taken after the body is read, so that a slow sender blocks nobody else.
    let Ok(_place) = doors.hook_answers.try_acquire() else {
        let error = CallError::busy(
            format_args!("take another answer: {MAX_HOOK_ANSWERS} are under way"),
            RETRY_AFTER_MS,
        );
        return refuse(StatusCode::SERVICE_UNAVAILABLE, &error);
    };
    match answers.answer(&body).await {
        Ok(done) => (
            [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")],
            done.to_string(),
        )
            .into_response(),
        Err(error) => refuse(status_of(error.kind()), &error),
    }
}

/// Returns the HTTP status of an error: the client may be a small script that checks only the
/// status.
fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorKind::Forbidden => StatusCode::FORBIDDEN,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Expired => StatusCode::GONE,
        ErrorKind::Busy | ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

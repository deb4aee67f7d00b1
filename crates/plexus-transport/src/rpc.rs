//! `POST /rpc`: one call, or a batch whose calls run one after another and are answered together.

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plexus_core::{Call, CallError, Caller, Reply, Shape};
use serde_json::value::RawValue;

use crate::body::{self, Read, held_until_sent};
use crate::doors::{Doors, may_be_asked_again};
use crate::envelope::{self, Incoming, Refused, Request};
use crate::identity::{Presented, refuse};
use crate::limits::{MAX_BATCH, MAX_BATCH_ANSWER_BYTES, RETRY_AFTER_MS};
use crate::shares::Taken;

pub(crate) async fn handle(
    State(doors): State<Doors>,
    Extension(presented): Extension<Presented>,
    body: Body,
) -> Response {
    let caller = presented.caller();
    // The call is admitted before its body is read, so that a caller over its share makes us hold
    // no body.
    let place = match doors.admit(caller) {
        Ok(place) => place,
        Err(error) => return refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
    };
    let Read { bytes, held } = match body::read(&doors, caller, body).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    let answered = match envelope::read(&bytes, MAX_BATCH) {
        Err(error) => Some(Answered::failed(&doors, caller, None, &error)),
        Ok(Incoming::One(call)) => run(&doors, &presented, call).await,
        Ok(Incoming::Batch(calls)) => run_batch(&doors, &presented, calls).await,
    };
    drop((bytes, held));
    // A body made of notifications only has no answer.
    let Some(Answered { text, held }) = answered else {
        return StatusCode::NO_CONTENT.into_response();
    };
    let body = held_until_sent(Bytes::from(text), (place, held));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// An answer, counted as held by its caller until it is written.
struct Answered {
    text: String,
    held: Vec<Taken>,
}

impl Answered {
    /// A failure may repeat much of its request, so it counts too.
    fn failed(doors: &Doors, caller: Caller, id: Option<&RawValue>, error: &CallError) -> Self {
        let text = envelope::failure(id, error);
        let held = vec![doors.bytes.charge(caller, text.len())];
        Self { text, held }
    }
}

/// Runs the calls of a batch one after another. When their answers exceed a page of events, the
/// remaining calls are refused.
async fn run_batch(
    doors: &Doors,
    presented: &Presented,
    calls: Vec<Result<Request, Refused>>,
) -> Option<Answered> {
    let mut all = Answered { text: String::new(), held: Vec::new() };
    for call in calls {
        let call = call.and_then(|call| {
            if all.text.len() < MAX_BATCH_ANSWER_BYTES || call.id.is_none() {
                return Ok(call);
            }
            let error = CallError::busy(
                format_args!(
                    "answer more of this batch: its answers have {MAX_BATCH_ANSWER_BYTES} bytes"
                ),
                RETRY_AFTER_MS,
            );
            Err(Refused { id: call.id, error: error.with_hint("send the rest in another batch") })
        });
        if let Some(answered) = run(doors, presented, call).await {
            all.text.push(if all.text.is_empty() { '[' } else { ',' });
            all.text.push_str(&answered.text);
            all.held.extend(answered.held);
        }
    }
    (!all.text.is_empty()).then(|| Answered { text: all.text + "]", held: all.held })
}

async fn run(
    doors: &Doors,
    presented: &Presented,
    call: Result<Request, Refused>,
) -> Option<Answered> {
    let caller = presented.caller();
    match call {
        Err(Refused { id, error }) => Some(Answered::failed(doors, caller, id.as_deref(), &error)),
        Ok(Request { id, method, params }) => {
            let result = call_unary(doors, presented, &method, params).await;
            let id = id?;
            Some(match result {
                Ok((result, held)) => {
                    Answered { text: envelope::success(Some(&id), &result), held: vec![held] }
                }
                Err(error) => Answered::failed(doors, caller, Some(&id), &error),
            })
        }
    }
}

async fn call_unary(
    doors: &Doors,
    presented: &Presented,
    method: &str,
    params: Option<Box<RawValue>>,
) -> Result<(Box<RawValue>, Taken), CallError> {
    let caller = presented.caller();
    let descriptor = doors.hub.descriptor(&caller, method);
    if descriptor.as_ref().is_some_and(|descriptor| descriptor.shape == Shape::Streaming) {
        return Err(CallError::invalid(format_args!("call {method}: it answers with a stream"))
            .with_hint("call it over the WebSocket at /rpc"));
    }
    let waiting = doors.admit_wait(caller, descriptor.as_deref())?;
    // `unavailable` says that nothing was changed. A call that may have changed something, such as
    // a chat, or that asks for a decision is not answered so.
    let only_waits = descriptor
        .as_deref()
        .is_some_and(|method| may_be_asked_again(method) && method.resume.is_none());
    let answering = doors.call(Call::plain(caller), method, params);
    let reply = match waiting {
        None => answering.await?,
        // A long poll ends with its token; a call that changes something is always answered.
        Some(_waiting) => tokio::select! {
            reply = answering => reply?,
            () = presented.revoked(doors) => {
                return Err(CallError::unauthorized(format_args!(
                    "wait for {method} any longer: the token was revoked"
                )));
            }
            () = doors.closing.cancelled(), if only_waits => {
                return Err(stops(method));
            }
        },
    };
    match reply {
        Reply::Value(answer) => doors.give(caller, descriptor.as_deref(), answer).await,
        Reply::Stream(_) => {
            Err(CallError::internal(format_args!("call {method}: it answered with a stream")))
        }
    }
}

/// Tells a caller that waits that the server stops.
fn stops(method: &str) -> CallError {
    let mut error =
        CallError::unavailable(format_args!("wait for {method} any longer: the server stops"));
    error.retry_after_ms = Some(RETRY_AFTER_MS);
    error.with_hint("ask again when the server is back")
}

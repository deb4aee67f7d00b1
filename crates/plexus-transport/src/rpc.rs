//! `POST /rpc`: one call, or a batch whose calls run one after the other and are answered together.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plexus_core::{Call, CallError, Caller, Progress, Reply, Shape};
use serde_json::value::RawValue;

use crate::body;
use crate::doors::Doors;
use crate::envelope::{self, Incoming, Refused, Request};
use crate::identity::refuse;
use crate::limits::MAX_BATCH;

pub(crate) async fn handle(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Response {
    let body = match body::read(&doors.limits, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let _place = match doors.admit(caller) {
        Ok(place) => place,
        Err(error) => return refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
    };
    match envelope::read(&body, MAX_BATCH) {
        Err(error) => answer(Some(envelope::failure(None, &error))),
        Ok(Incoming::One(call)) => answer(run(&doors, caller, call).await),
        Ok(Incoming::Batch(calls)) => {
            let mut answers = Vec::with_capacity(calls.len());
            for call in calls {
                answers.extend(run(&doors, caller, call).await);
            }
            answer((!answers.is_empty()).then(|| format!("[{}]", answers.join(","))))
        }
    }
}

/// A body made of notifications only has no answer.
fn answer(body: Option<String>) -> Response {
    match body {
        Some(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn run(doors: &Doors, caller: Caller, call: Result<Request, Refused>) -> Option<String> {
    match call {
        Err(Refused { id, error }) => Some(envelope::failure(id.as_deref(), &error)),
        Ok(Request { id, method, params }) => {
            let result = call_unary(doors, caller, &method, params).await;
            let id = id?;
            Some(match result {
                Ok(result) => envelope::success(Some(&id), &result),
                Err(error) => envelope::failure(Some(&id), &error),
            })
        }
    }
}

async fn call_unary(
    doors: &Doors,
    caller: Caller,
    method: &str,
    params: Option<Box<RawValue>>,
) -> Result<Box<RawValue>, CallError> {
    let descriptor = doors.hub.descriptor(&caller, method);
    if descriptor.as_ref().is_some_and(|descriptor| descriptor.shape == Shape::Streaming) {
        return Err(CallError::invalid(format_args!("call {method}: it answers with a stream"))
            .with_hint("call it over the WebSocket at /rpc"));
    }
    let _waiting = doors.admit_wait(descriptor.as_deref())?;
    let call = Call { caller, progress: Progress::default(), can_stream: false };
    match doors.call(call, method, params).await? {
        Reply::Value(value) => Ok(value),
        Reply::Stream(_) => {
            Err(CallError::internal(format_args!("call {method}: it answered with a stream")))
        }
    }
}

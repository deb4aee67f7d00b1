//! The HTTP side of the stand-in: records a request, chooses the answer, and sends it in the form
//! that was asked for.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State as Shared;
use axum::http::{HeaderName, Request, Response, StatusCode, header};
use axum::serve::ListenerExt as _;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::State;
use super::gemini;
use super::request::Recorded;
use super::script::{Failure, Step};
use super::sse::{Answer, Event};

/// The largest request body: a prompt of 10 MiB, escaped, and the history around it fit.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Serves until the task is aborted.
pub(super) async fn serve(listener: TcpListener, state: Arc<State>) {
    let listener = listener.tap_io(|stream| {
        // Without this each small event waits 40 ms for its acknowledgement. A socket that is gone
        // already needs no option.
        let _gone = stream.set_nodelay(true);
    });
    let router = Router::new().fallback(answer).with_state(state);
    // Accept errors are retried inside, so this ends only with the task.
    let _never = axum::serve(listener, router).await;
}

async fn answer(Shared(state): Shared<Arc<State>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return failure(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let text =
        |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let recorded = Recorded {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), text(value)))
            .collect(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    if let Some(translated) = gemini::as_messages(&recorded) {
        state.record(translated.clone());
        return gemini::answer(&state.choose(&translated), &translated);
    }
    state.record(recorded.clone());
    match recorded.path.as_str() {
        "/v1/messages" => messages(state.choose(&recorded), &recorded).await,
        "/v1/messages/count_tokens" => json_response(StatusCode::OK, &json!({"input_tokens": 100})),
        _ => json_response(StatusCode::OK, &json!({})),
    }
}

async fn messages(step: Step, request: &Recorded) -> Response<Body> {
    if let Some(delay) = step.delay_ms {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    if let Some(Failure::Status(status)) = step.fail {
        return failure(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    }
    let answer = Answer::new(&step, request.model());
    if request.body["stream"] == true {
        response(StatusCode::OK, "text/event-stream", Body::from_stream(play(&step, &answer)))
    } else {
        json_response(StatusCode::OK, &answer.whole())
    }
}

/// Returns the bytes of the stream, with its pauses and its failure.
fn play(step: &Step, answer: &Answer) -> impl Stream<Item = io::Result<Bytes>> + use<> {
    let content = answer.content_events(step.chunk);
    let (events, ending) = match step.fail {
        None | Some(Failure::Status(_)) => {
            (content.into_iter().chain(answer.closing_events()).collect(), Ending::Proper)
        }
        Some(Failure::Cut) => {
            // Somewhere in the middle, but never before the first delta: that is where a cut hurts.
            let half = (content.len() / 2).max(3).min(content.len());
            (content.into_iter().take(half).collect(), Ending::Torn)
        }
        Some(Failure::Overloaded) => {
            let error = ("error", error_object(StatusCode::from_u16(529).unwrap_or_default()));
            (content.into_iter().chain([error]).collect::<Vec<_>>(), Ending::Proper)
        }
        Some(Failure::Hang) => (content, Ending::Open),
    };
    let pause = step.pause_ms.map(Duration::from_millis);
    let spoken = stream::iter(events).then(move |event| async move {
        if let (Some(pause), "content_block_delta") = (pause, event.0) {
            tokio::time::sleep(pause).await;
        }
        Ok(encode(&event))
    });
    spoken.chain(ending.stream())
}

/// What comes after the last event.
pub(crate) enum Ending {
    /// The body ends as it should.
    Proper,
    /// The connection breaks.
    Torn,
    /// Nothing, and the connection stays.
    Open,
}

impl Ending {
    pub(crate) fn stream(self) -> stream::BoxStream<'static, io::Result<Bytes>> {
        match self {
            Self::Proper => stream::empty().boxed(),
            Self::Torn => stream::iter([Err(io::Error::other("the script cuts here"))]).boxed(),
            Self::Open => stream::pending().boxed(),
        }
    }
}

pub(crate) fn encode((name, data): &Event) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

fn failure(status: StatusCode) -> Response<Body> {
    json_response(status, &error_object(status))
}

/// Returns the API's own form of an error.
fn error_object(status: StatusCode) -> Value {
    let kind = match status.as_u16() {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": format!("the script says {}", status.as_u16())}})
}

pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    response(status, "application/json", Body::from(body.to_string()))
}

pub(crate) fn response(
    status: StatusCode,
    content_type: &'static str,
    body: Body,
) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    headers.insert(
        HeaderName::from_static("request-id"),
        header::HeaderValue::from_static("req_standin"),
    );
    response
}

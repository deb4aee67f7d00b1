//! The HTTP side of the stand-in: it keeps a request, chooses the answer, and streams it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::script::{Failure, Found};
use super::{State, answer};
use crate::messages_api::serve::{Ending, encode, json_response, response};

/// The largest request body: enough for a long prompt, escaped, with its history.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Serves until the task is aborted.
pub(super) async fn serve(listener: TcpListener, state: Arc<State>) {
    let listener = listener.tap_io(|stream| {
        // Without this each small event waits 40 ms for its acknowledgement. It fails only when the
        // socket is already closed.
        let _gone = stream.set_nodelay(true);
    });
    let router = Router::new()
        .route("/v1/responses", post(responses))
        .route("/v1/models", get(models))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(state);
    // axum retries accept errors, so this ends only with the task.
    let _never = axum::serve(listener, router).await;
}

async fn models() -> Response<Body> {
    json_response(StatusCode::OK, &json!({"object": "list", "data": [], "models": []}))
}

async fn responses(Shared(state): Shared<Arc<State>>, body: Bytes) -> Response<Body> {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let found = state.choose(&body);
    if let Some(Failure::Status(status, kind)) = &found.step.fail {
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let message = format!("the script says {}", status.as_u16());
        let error = json!({"error": {"type": kind, "code": kind, "message": message}});
        return json_response(status, &error);
    }
    response(StatusCode::OK, "text/event-stream", Body::from_stream(play(&found, &body)))
}

/// Returns the bytes of the stream, with its pauses and its failure.
fn play(found: &Found, body: &Value) -> impl Stream<Item = io::Result<Bytes>> + use<> {
    let (content, closing) = answer::events(found, body);
    let (events, ending): (Vec<_>, _) = match &found.step.fail {
        None | Some(Failure::Status(..)) => {
            (content.into_iter().chain(closing).collect(), Ending::Proper)
        }
        Some(Failure::Cut) => {
            // The cut is in the middle, but never before the first delta: that is where it hurts.
            let half = (content.len() / 2).max(3).min(content.len());
            (content.into_iter().take(half).collect(), Ending::Torn)
        }
        Some(Failure::Hang) => (content, Ending::Open),
    };
    let pause = found.step.pause_ms.map(Duration::from_millis);
    let spoken = stream::iter(events).then(move |event| async move {
        if let (Some(pause), "response.output_text.delta") = (pause, event.0) {
            tokio::time::sleep(pause).await;
        }
        Ok(encode(&event))
    });
    spoken.chain(ending.stream())
}

//! `/events`: the stream of events as SSE, of one session or of all. `Last-Event-ID` is the cursor.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use plexus_core::{
    Call, CallError, Caller, Door, ErrorKind, MethodDescriptor, Reply, ReplyStream, StreamItem,
};
use serde::Deserialize;

use crate::doors::Doors;
use crate::identity::{Presented, refuse};
use crate::limits::HEARTBEAT;
use crate::shares::{Shares, Taken};

/// How long a client should wait before it reconnects.
const RETRY: &str = "retry: 1000\n\n";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    session_id: Option<String>,
    /// For clients that cannot set a header; `Last-Event-ID` wins.
    cursor: Option<String>,
    /// Whether live pieces of text are included; they have no id.
    deltas: Option<bool>,
}

pub(crate) async fn handle(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Extension(presented): Extension<Presented>,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Response {
    match open(&doors, caller, presented, &headers, query).await {
        Ok(body) => {
            let headers =
                [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
            (headers, body).into_response()
        }
        Err(error) => refuse(status_of(error.kind()), &error),
    }
}

async fn open(
    doors: &Doors,
    caller: Caller,
    presented: Presented,
    headers: &HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Body, CallError> {
    let Query(query) = query.map_err(|_| {
        CallError::invalid("read the query")
            .with_hint("/events takes session_id, cursor and deltas")
    })?;
    let method = source(doors, &caller)
        .ok_or_else(|| CallError::forbidden("read events: it is not for you"))?;
    let places = (doors.admit(caller)?, doors.admit_stream(caller)?);
    let cursor = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok())
        .map(str::to_owned)
        .or(query.cursor);
    let mut params = serde_json::Map::new();
    params.extend(query.session_id.map(|id| ("session_id".to_owned(), id.into())));
    params.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor.into())));
    params.extend(query.deltas.map(|deltas| ("deltas".to_owned(), deltas.into())));
    let params = serde_json::value::to_raw_value(&params)
        .map_err(|_| CallError::invalid("read the query"))?;
    let call = Call { can_stream: true, ..Call::plain(caller) };
    match doors.call(call, &method.full_name(), Some(params)).await? {
        Reply::Stream(stream) => Ok(Body::from_stream(
            frames(stream, Arc::clone(&doors.bytes), caller, places)
                .take_until(Box::pin(presented.over(doors.clone()))),
        )),
        Reply::Value(_) => Err(CallError::internal("read events: they did not come as a stream")),
    }
}

/// Finds the method that provides the events of this door.
fn source(doors: &Doors, caller: &Caller) -> Option<Arc<MethodDescriptor>> {
    doors.hub.methods_for(caller).into_iter().find(|method| method.door == Door::Events)
}

/// Writes items as SSE frames, and a comment after a silence. `places` are held as long as the
/// stream lives. A frame counts as held by `caller` until the next one is polled, which happens
/// only when there is room to write it.
fn frames<P: Send + 'static>(
    stream: ReplyStream,
    bytes: Arc<Shares>,
    caller: Caller,
    places: P,
) -> impl futures::Stream<Item = Result<Bytes, Infallible>> + Send {
    let start = futures::stream::once(async { Ok(Bytes::from_static(RETRY.as_bytes())) });
    let rest = futures::stream::unfold(
        (stream, bytes, places, None::<Taken>, false),
        move |(mut stream, bytes, places, before, ended)| async move {
            drop(before);
            if ended {
                return None;
            }
            let (frame, held, ended) = match tokio::time::timeout(HEARTBEAT, stream.next()).await {
                Err(_) => (Bytes::from_static(b":\n\n"), None, false),
                Ok(None) => return None,
                Ok(Some(Ok(item))) => match bytes.take(caller, item.body.get().len()) {
                    Ok(held) => (frame(&item), Some(held), false),
                    Err(error) => (last_frame(&error), None, true),
                },
                Ok(Some(Err(error))) => (last_frame(&error), None, true),
            };
            Some((Ok(frame), (stream, bytes, places, held, ended)))
        },
    );
    start.chain(rest)
}

fn last_frame(error: &CallError) -> Bytes {
    Bytes::from(format!("event: error\ndata: {}\n\n", as_json(error)))
}

/// Writes one item as a frame. The body is compact JSON, so it is one line by construction.
fn frame(item: &StreamItem) -> Bytes {
    let body = item.body.get();
    let mut frame = String::with_capacity(body.len() + 64);
    if let Some(cursor) = &item.cursor {
        frame.push_str("id: ");
        frame.push_str(cursor);
        frame.push('\n');
    }
    frame.push_str("data: ");
    frame.push_str(body);
    frame.push_str("\n\n");
    Bytes::from(frame)
}

fn as_json(error: &CallError) -> String {
    serde_json::to_string(error).unwrap_or_else(|_| r#"{"kind":"internal"}"#.to_owned())
}

fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid | ErrorKind::Expired => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Forbidden => StatusCode::FORBIDDEN,
        ErrorKind::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorKind::Busy | ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

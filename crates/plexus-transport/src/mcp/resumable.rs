//! Blocked calls that survive a lost connection and a restart of the server.
//!
//! The stream opens at once and begins with an event id and a retry interval; heartbeats follow.
//! When the connection is lost, the client comes back with the id, to this process or to a new one
//! that never knew its session. The method that the descriptor names then joins the work that is
//! still open. rmcp keeps streams in memory, so these calls do not pass through it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use plexus_core::{Call, CallError, Caller, MethodDescriptor, Resume};
use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::event_id::EventId;
use super::message::ToolCall;
use super::open_calls::{CallKey, OnCancel, OpenCall};
use super::tools;
use crate::doors::Doors;
use crate::identity::refuse;
use crate::limits::{PROGRESS_EVERY, RESUME_RETRY};

/// Starts a call of a resumable method and answers with its stream.
pub(super) fn start(
    doors: &Doors,
    caller: Caller,
    session: Option<&str>,
    method: &Arc<MethodDescriptor>,
    request: Option<&RawValue>,
    call: ToolCall<'_>,
) -> Response {
    let (Some(resume), Some(request)) = (method.resume, request) else {
        return refuse(StatusCode::BAD_REQUEST, &super::message::unreadable("a call needs an id"));
    };
    let id = EventId {
        request: request.to_owned(),
        method: method.full_name(),
        // The method itself refuses parameters without a readable key; such a call cannot be
        // resumed.
        key: key_of(resume, call.arguments).unwrap_or_default(),
        progress: call.progress_token().map(ToOwned::to_owned),
        resumed: 0,
    };
    let params = call.arguments.map(ToOwned::to_owned);
    let work = {
        let (doors, name) = (doors.clone(), method.full_name());
        let method = Arc::clone(method);
        async move {
            // The request already has its place among the calls, and its response holds it.
            let _place = doors.admit_stream(caller)?;
            let call = Call::plain(caller);
            let reply = doors.call(call, &name, params).await?;
            tools::answer(&method, reply)?.give().await
        }
    };
    open(doors, caller, session, method, resume, id, Box::pin(work))
}

/// Resumes a call that another stream started, perhaps in another process, and answers with a
/// stream that continues it.
pub(super) fn rejoin(
    doors: &Doors,
    caller: Caller,
    session: Option<&str>,
    last_event: &str,
) -> Response {
    let Some(id) = EventId::read(last_event) else {
        return refuse(StatusCode::BAD_REQUEST, &CallError::invalid("read Last-Event-ID"));
    };
    let method = doors.hub.descriptor(&caller, &id.method);
    let Some((method, resume)) =
        method.and_then(|method| Some((Arc::clone(&method), method.resume?)))
    else {
        return refuse(
            StatusCode::NOT_FOUND,
            &CallError::not_found("find the stream of this Last-Event-ID"),
        );
    };
    let work = {
        let (doors, name) = (doors.clone(), format!("{}.{}", method.namespace, resume.rejoin));
        let params = one_param(resume.key, &id.key);
        let method = Arc::clone(&method);
        async move {
            let _places = (doors.admit(caller)?, doors.admit_stream(caller)?);
            let call = Call::plain(caller);
            let reply = doors.hub.call_internal(call, &name, params?).await;
            tools::answer(&method, doors.counters.count(reply)?)?.give().await
        }
    };
    open(doors, caller, session, &method, resume, id.next(), Box::pin(work))
}

/// Ends a call that its client cancelled, and the work of the call. Returns `false` when no such
/// call waits here.
pub(super) async fn cancel(
    doors: &Doors,
    caller: Caller,
    session: Option<&str>,
    request: &RawValue,
) -> bool {
    let Some(on_cancel) = doors.mcp.calls.cancel(&CallKey::new(caller, session, request)) else {
        return false;
    };
    if let Some(OnCancel { method, key, value }) = on_cancel {
        let ended = match one_param(key, &value) {
            Ok(params) => {
                doors.hub.call_internal(Call::plain(caller), &method, params).await.map(|_| ())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(%method, %error, "a cancelled call could not be ended");
        }
    }
    true
}

fn key_of(resume: Resume, arguments: Option<&RawValue>) -> Option<String> {
    let arguments: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(arguments?.get()).ok()?;
    arguments.get(resume.key)?.as_str().map(str::to_owned)
}

fn one_param(key: &str, value: &str) -> Result<Box<RawValue>, CallError> {
    plexus_core::method::raw(&serde_json::Map::from_iter([(key.to_owned(), value.into())]))
}

type Work = BoxFuture<'static, Result<Box<RawValue>, CallError>>;

fn open(
    doors: &Doors,
    caller: Caller,
    session: Option<&str>,
    method: &Arc<MethodDescriptor>,
    resume: Resume,
    id: EventId,
    work: Work,
) -> Response {
    let on_cancel = method.on_cancel.map(|name| OnCancel {
        method: format!("{}.{name}", method.namespace),
        key: resume.key,
        value: id.key.clone(),
    });
    let open = doors.mcp.calls.open(CallKey::new(caller, session, &id.request), on_cancel);
    let mut ticks = interval_at(Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waiting = Waiting {
        id,
        method: Arc::clone(method),
        work,
        open,
        closing: doors.closing.clone(),
        ticks,
        told: 0,
        stage: Stage::First,
    };
    let frames = futures::stream::unfold(waiting, |mut waiting| async move {
        let frame = waiting.next_frame().await?;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), waiting))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (X_ACCEL_BUFFERING, "no"),
    ];
    let mut response = (headers, Body::from_stream(frames)).into_response();
    // The body ends with its connection and is not chunked: when this process is killed, the client
    // sees a stream that ended, and reconnects. A body cut between two chunks is an error, and
    // Claude Code counts those: three streams cut at once end its whole connection and every call
    // in it.
    *response.version_mut() = Version::HTTP_10;
    response
}

/// Asks proxies not to buffer the stream.
const X_ACCEL_BUFFERING: header::HeaderName = header::HeaderName::from_static("x-accel-buffering");

/// A stream that waits for its answer. Dropping it stops only the waiting, not the work.
struct Waiting {
    id: EventId,
    method: Arc<MethodDescriptor>,
    work: Work,
    open: OpenCall,
    /// Cancelled when the server stops: the stream ends, and its client resumes it later.
    closing: CancellationToken,
    ticks: Interval,
    told: u32,
    stage: Stage,
}

enum Stage {
    First,
    /// The first frame was passed to the writer.
    Opened,
    Waiting,
    Answered,
}

impl Waiting {
    async fn next_frame(&mut self) -> Option<String> {
        match self.stage {
            Stage::First => {
                self.stage = Stage::Opened;
                Some(self.first_frame())
            }
            Stage::Opened => {
                // The HTTP server writes when this stream has to wait, so yielding sends the id
                // before the work begins. If the server is then killed during the work, its client
                // has an id to resume with.
                tokio::task::yield_now().await;
                self.stage = Stage::Waiting;
                self.wait().await
            }
            Stage::Waiting => self.wait().await,
            Stage::Answered => {
                plexus_fault::point!("permit.write.after");
                None
            }
        }
    }

    async fn wait(&mut self) -> Option<String> {
        tokio::select! {
            // Cancellation is checked first: when a call's work ends, that may look like a failure,
            // but a cancelled call has no answer.
            biased;
            () = self.open.ended() => None,
            outcome = &mut self.work => {
                self.stage = Stage::Answered;
                self.open.answered();
                plexus_fault::point!("permit.write.before");
                Some(self.answer(outcome))
            }
            () = self.closing.cancelled() => None,
            _ = self.ticks.tick() => Some(self.still_waiting()),
        }
    }

    /// Returns the frame with the event id and the retry interval. Without an id, a client that
    /// loses the connection would wait for nothing.
    fn first_frame(&self) -> String {
        let id = if self.id.key.is_empty() { None } else { self.id.write() };
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        format!("{id}retry: {}\ndata:\n\n", RESUME_RETRY.as_millis())
    }

    fn still_waiting(&mut self) -> String {
        #[derive(Serialize)]
        struct Notification<'a> {
            jsonrpc: &'static str,
            method: &'static str,
            params: Params<'a>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            progress_token: &'a RawValue,
            progress: u32,
        }
        let Some(progress_token) = self.id.progress.as_deref() else { return ":\n\n".to_owned() };
        self.told += 1;
        // Progress must increase, also across the streams of one call.
        let progress = self.id.resumed.saturating_mul(100_000).saturating_add(self.told);
        let params = Params { progress_token, progress };
        frame(&Notification { jsonrpc: "2.0", method: "notifications/progress", params })
    }

    fn answer(&self, outcome: Result<Box<RawValue>, CallError>) -> String {
        #[derive(Serialize)]
        struct Answer<'a> {
            jsonrpc: &'static str,
            id: &'a RawValue,
            result: CallToolResult,
        }
        let mut result = tools::result(&self.method, outcome);
        // Only the newest protocol has this field, and that protocol cannot resume calls.
        result.result_type = None;
        frame(&Answer { jsonrpc: "2.0", id: &self.id.request, result })
    }
}

/// Writes a message as one SSE event. Compact JSON is one line by construction.
fn frame(message: &impl Serialize) -> String {
    #[expect(clippy::expect_used, reason = "these structs have string keys and hold JSON already")]
    let json = serde_json::to_string(message).expect("a message is always JSON");
    format!("event: message\ndata: {json}\n\n")
}

//! The parts that the doors are built from, and the router that holds them all.

use std::sync::Arc;

use axum::Router;
use axum::routing::{any, get, post};
use plexus_core::{
    Answer, Answers, Authenticator, Call, CallError, Caller, Hub, MethodDescriptor, Reply,
};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::connections::Connections;
use crate::identity::AllowedHosts;
use crate::limits::{Limits, MAX_EXCHANGES, MAX_HOOK_ANSWERS, SMALL_ANSWER_BYTES};
use crate::mcp::McpState;
use crate::shares::{Bound, Shares, Taken};
use crate::stats::{Counters, Stats};
use crate::{events, hooks, identity, mcp, rpc, sign_in};

/// The state that every door needs. Cheap to clone.
#[derive(Clone)]
pub struct Doors {
    pub(crate) hub: Arc<Hub>,
    pub(crate) auth: Arc<dyn Authenticator>,
    pub(crate) hosts: Arc<AllowedHosts>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) connections: Arc<Connections>,
    calls: Arc<Shares>,
    streams: Arc<Shares>,
    /// Bytes held in memory for callers.
    pub(crate) bytes: Arc<Shares>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) mcp: Arc<McpState>,
    /// Cancelled when the server stops: endless streams end then, and their readers come back with
    /// a cursor.
    pub(crate) closing: CancellationToken,
    /// The description of the whole server that an MCP client gets before it calls anything.
    pub(crate) instructions: Option<Arc<str>>,
    /// Handles the answers to webhooks, if this server sends any.
    pub(crate) answers: Option<Arc<dyn Answers>>,
    /// Limits concurrent webhook answers.
    pub(crate) hook_answers: Arc<Semaphore>,
    /// Limits concurrent sign-ins of dashboards.
    pub(crate) exchanges: Arc<Semaphore>,
}

impl Doors {
    /// Builds the doors of `hub`.
    pub fn new(
        hub: Arc<Hub>,
        auth: Arc<dyn Authenticator>,
        hosts: AllowedHosts,
        limits: Limits,
    ) -> Self {
        let mcp = Arc::new(McpState::new(&limits, Arc::clone(&auth)));
        Self {
            hub,
            auth,
            hosts: Arc::new(hosts),
            connections: Connections::new(&limits),
            calls: Shares::new(CALLS, limits.calls, limits.calls_per_caller),
            streams: Shares::new(STREAMS, limits.streams, limits.streams_per_caller),
            bytes: Shares::new(BYTES, limits.held_bytes, limits.held_bytes_per_caller),
            counters: Arc::default(),
            mcp,
            closing: CancellationToken::new(),
            instructions: None,
            answers: None,
            hook_answers: Arc::new(Semaphore::new(MAX_HOOK_ANSWERS)),
            exchanges: Arc::new(Semaphore::new(MAX_EXCHANGES)),
            limits: Arc::new(limits),
        }
    }

    /// Adds the description of the whole server for MCP clients: how its methods work together, in
    /// a few lines.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Opens the door for answers to webhooks.
    #[must_use]
    pub fn with_answers(mut self, answers: Arc<dyn Answers>) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Calls the hub for one of the doors, and counts the call.
    pub(crate) async fn call(
        &self,
        call: Call,
        name: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Reply, CallError> {
        // The name comes from outside, so the log names only methods of ours.
        let method = self.hub.descriptor(&call.caller, name).map(|method| method.full_name());
        let span = tracing::info_span!(
            "call",
            method = method.as_deref().unwrap_or("unknown"),
            caller = call.caller.kind(),
            error = tracing::field::Empty
        );
        let outcome = self.hub.call(call, name, params).instrument(span.clone()).await;
        if let Err(error) = &outcome {
            span.record("error", tracing::field::display(&error.kind));
        }
        self.counters.count(outcome)
    }

    /// Takes a place among the calls under way, for as long as the returned value lives.
    pub(crate) fn admit(&self, caller: Caller) -> Result<Taken, CallError> {
        self.calls.take(caller, 1)
    }

    /// Takes a place among the open streams.
    pub(crate) fn admit_stream(&self, caller: Caller) -> Result<Taken, CallError> {
        self.streams.take(caller, 1)
    }

    /// Takes a place among the open streams for a method that may wait for long; other methods need
    /// none.
    pub(crate) fn admit_wait(
        &self,
        caller: Caller,
        descriptor: Option<&MethodDescriptor>,
    ) -> Result<Option<Taken>, CallError> {
        descriptor
            .filter(|descriptor| descriptor.hints.waits)
            .map(|_| self.admit_stream(caller))
            .transpose()
    }

    /// Reserves room for an answer and returns it. The answer counts as held until the second value
    /// is dropped, which happens once the answer is written.
    ///
    /// # Errors
    /// `busy` when the answer is large, its method has changed nothing yet, and its caller has used
    /// up its share. A change that is made only when the answer is given is then not made. A call
    /// that has already changed something is always answered.
    pub(crate) async fn give(
        &self,
        caller: Caller,
        descriptor: Option<&MethodDescriptor>,
        answer: Answer,
    ) -> Result<(Box<RawValue>, Taken), CallError> {
        let bytes = answer.bytes();
        let may_be_asked_again = descriptor.is_some_and(may_be_asked_again);
        let held = if bytes > SMALL_ANSWER_BYTES && may_be_asked_again {
            self.bytes.take(caller, bytes)?
        } else {
            self.bytes.charge(caller, bytes)
        };
        Ok((answer.give().await?, held))
    }

    /// Reads the counters of the doors, for the metrics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.read(Stats {
            open_connections: self.connections.open(),
            open_streams: self.streams.in_use(),
            held_bytes: self.bytes.in_use(),
            mcp_sessions: self.mcp.sessions.len(),
            panics_total: self.hub.panic_count(),
            ..Stats::default()
        })
    }
}

/// Says whether a method has changed nothing before its answer is given.
pub(crate) fn may_be_asked_again(method: &MethodDescriptor) -> bool {
    method.hints.read_only || method.changes_when_given
}

const CALLS: Bound = Bound {
    action: "start another call",
    total: "limits.calls",
    per_caller: "limits.calls_per_caller",
};

const STREAMS: Bound = Bound {
    action: "open another stream or long call",
    total: "limits.streams",
    per_caller: "limits.streams_per_caller",
};

const BYTES: Bound = Bound {
    action: "hold more bytes in memory",
    total: "limits.held_bytes",
    per_caller: "limits.held_bytes_per_caller",
};

/// Returns the router of all doors. The caller adds the routes that are open to everybody
/// (`/healthz`, the dashboard's files) and passes it to [`serve`](crate::serve), which checks
/// `Host` and `Origin` of every request.
pub fn router(doors: Doors) -> Router {
    Router::new()
        .route("/rpc", post(rpc::handle).get(crate::socket::handle))
        .route("/events", get(events::handle))
        .route("/mcp", any(mcp::handle))
        .layer(axum::middleware::from_fn_with_state(doors.clone(), identity::require_token))
        .route("/auth/exchange", post(sign_in::handle))
        .route("/hooks/respond", post(hooks::handle))
        .with_state(doors)
}

//! What the doors are built from, and the router that holds them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::routing::{any, get, post};
use plexus_core::{Answers, Authenticator, Call, CallError, Caller, Hub, MethodDescriptor, Reply};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::identity::AllowedHosts;
use crate::limits::{Limits, MAX_HOOK_ANSWERS, RETRY_AFTER_MS};
use crate::mcp::McpState;
use crate::stats::{Counters, Stats};
use crate::{events, hooks, identity, mcp, rpc, sign_in};

/// What every door needs. Cheap to clone.
#[derive(Clone)]
pub struct Doors {
    pub(crate) hub: Arc<Hub>,
    pub(crate) auth: Arc<dyn Authenticator>,
    pub(crate) hosts: Arc<AllowedHosts>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) mcp: Arc<McpState>,
    /// Cancelled when the server stops: streams that would go on for ever end then, and their readers come back with a cursor.
    pub(crate) closing: CancellationToken,
    /// What an MCP client is told about the whole server before it calls anything.
    pub(crate) instructions: Option<Arc<str>>,
    /// Takes the answers of webhooks, if this server sends any.
    pub(crate) answers: Option<Arc<dyn Answers>>,
    /// Places for those under way.
    pub(crate) hook_answers: Arc<Semaphore>,
    callers: Arc<Mutex<HashMap<Caller, Arc<Semaphore>>>>,
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
            streams: Arc::new(Semaphore::new(limits.streams)),
            counters: Arc::default(),
            mcp,
            closing: CancellationToken::new(),
            instructions: None,
            answers: None,
            hook_answers: Arc::new(Semaphore::new(MAX_HOOK_ANSWERS)),
            limits: Arc::new(limits),
            callers: Arc::default(),
        }
    }

    /// Adds what an MCP client is told about the whole server: how its methods work together, in a few lines.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Opens the door for answers of webhooks.
    #[must_use]
    pub fn with_answers(mut self, answers: Arc<dyn Answers>) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Calls the hub for one of the doors, and counts it.
    pub(crate) async fn call(
        &self,
        call: Call,
        name: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Reply, CallError> {
        // The name comes from outside: what is no method of ours is not repeated.
        let method = self.hub.descriptor(&call.caller, name).map(|method| method.full_name());
        let span = tracing::info_span!(
            "call",
            method = method.as_deref().unwrap_or("unknown"),
            caller = call.caller.kind(),
            error = tracing::field::Empty
        );
        let outcome = self.hub.call(call, name, params).instrument(span.clone()).await;
        if let Err(error) = &outcome {
            span.record("error", tracing::field::debug(error.kind));
        }
        self.counters.count(outcome)
    }

    /// Takes a place among the caller's calls under way, for as long as the returned value lives.
    pub(crate) fn admit(&self, caller: Caller) -> Result<OwnedSemaphorePermit, CallError> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() > MAX_IDLE_CALLERS {
            let all = self.limits.calls_per_caller;
            callers.retain(|_, places| places.available_permits() < all);
        }
        let places = callers
            .entry(caller)
            .or_insert_with(|| Arc::new(Semaphore::new(self.limits.calls_per_caller)));
        Arc::clone(places).try_acquire_owned().map_err(|_| {
            CallError::busy("start another call: too many of yours are under way", RETRY_AFTER_MS)
        })
    }

    /// Takes a place among the open streams.
    pub(crate) fn admit_stream(&self) -> Result<OwnedSemaphorePermit, CallError> {
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| CallError::busy("open another stream: too many are open", RETRY_AFTER_MS))
    }

    /// Takes a place among the open streams for a method that may wait for long; others need none.
    pub(crate) fn admit_wait(
        &self,
        descriptor: Option<&MethodDescriptor>,
    ) -> Result<Option<OwnedSemaphorePermit>, CallError> {
        descriptor
            .filter(|descriptor| descriptor.hints.waits)
            .map(|_| self.admit_stream())
            .transpose()
    }

    /// Says how many streams are open, for the metrics.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.limits.streams.saturating_sub(self.streams.available_permits())
    }

    /// Reads what the doors count, for the metrics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.read(self.open_streams(), self.mcp.sessions.len())
    }
}

/// Callers remembered before those with nothing under way are forgotten.
const MAX_IDLE_CALLERS: usize = 4_096;

/// Returns the router of all doors that need a token. The caller adds what is open to everybody (`/healthz`, the dashboard's files).
pub fn router(doors: Doors) -> Router {
    Router::new()
        .route("/rpc", post(rpc::handle).get(crate::socket::handle))
        .route("/events", get(events::handle))
        .route("/mcp", any(mcp::handle))
        .layer(axum::middleware::from_fn_with_state(doors.clone(), identity::require_token))
        .route("/auth/exchange", post(sign_in::handle))
        .route("/hooks/respond", post(hooks::handle))
        .layer(axum::middleware::from_fn_with_state(doors.clone(), identity::require_our_host))
        .with_state(doors)
}

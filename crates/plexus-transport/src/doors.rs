//! What the doors are built from, and the router that holds them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use plexus_core::{Authenticator, CallError, Caller, Hub};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::identity::AllowedHosts;
use crate::limits::{Limits, RETRY_AFTER_MS};
use crate::{events, identity, rpc, sign_in};

/// What every door needs. Cheap to clone.
#[derive(Clone)]
pub struct Doors {
    pub(crate) hub: Arc<Hub>,
    pub(crate) auth: Arc<dyn Authenticator>,
    pub(crate) hosts: Arc<AllowedHosts>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) streams: Arc<Semaphore>,
    callers: Arc<Mutex<HashMap<Caller, Arc<Semaphore>>>>,
}

impl Doors {
    /// Builds the doors of `hub`.
    pub fn new(hub: Arc<Hub>, auth: Arc<dyn Authenticator>, hosts: AllowedHosts, limits: Limits) -> Self {
        Self {
            hub,
            auth,
            hosts: Arc::new(hosts),
            streams: Arc::new(Semaphore::new(limits.streams)),
            limits: Arc::new(limits),
            callers: Arc::default(),
        }
    }

    /// Takes a place among the caller's calls under way, for as long as the returned value lives.
    pub(crate) fn admit(&self, caller: Caller) -> Result<OwnedSemaphorePermit, CallError> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() > MAX_IDLE_CALLERS {
            let all = self.limits.calls_per_caller;
            callers.retain(|_, places| places.available_permits() < all);
        }
        let places = callers.entry(caller).or_insert_with(|| Arc::new(Semaphore::new(self.limits.calls_per_caller)));
        Arc::clone(places)
            .try_acquire_owned()
            .map_err(|_| CallError::busy("start another call: too many of yours are under way", RETRY_AFTER_MS))
    }

    /// Takes a place among the open streams.
    pub(crate) fn admit_stream(&self) -> Result<OwnedSemaphorePermit, CallError> {
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| CallError::busy("open another stream: too many are open", RETRY_AFTER_MS))
    }

    /// Says how many streams are open, for the metrics.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.limits.streams.saturating_sub(self.streams.available_permits())
    }
}

/// Callers remembered before those with nothing under way are forgotten.
const MAX_IDLE_CALLERS: usize = 4_096;

/// Returns the router of all doors that need a token. The caller adds what is open to everybody (`/healthz`, the dashboard's files).
pub fn router(doors: Doors) -> Router {
    let body_bytes = doors.limits.body_bytes;
    Router::new()
        .route("/rpc", post(rpc::handle).get(crate::socket::handle))
        .route("/events", get(events::handle))
        .layer(axum::middleware::from_fn_with_state(doors.clone(), identity::require_token))
        .route("/auth/exchange", post(sign_in::handle))
        .layer(DefaultBodyLimit::max(body_bytes))
        .layer(axum::middleware::from_fn_with_state(doors.clone(), identity::require_our_host))
        .with_state(doors)
}

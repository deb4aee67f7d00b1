//! The shares that one request of a caller holds until its answer is written and its work is over:
//! a place, its body, and its answer.
//!
//! rmcp runs a call in a task of the session and writes its answer from another, so neither the
//! response nor the call lives as long as both. Each has a clone of this: the response in its body,
//! the call in the extensions of its request.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::request::Parts;
use rmcp::model::Extensions;

use crate::shares::Taken;

/// The shares of a request. Dropping the last clone releases them.
#[derive(Clone)]
pub(super) struct Holds(Arc<Mutex<Vec<Taken>>>);

impl Holds {
    /// Starts with the place of the request, and its body.
    pub(super) fn new(place: Taken, body: Taken) -> Self {
        Self(Arc::new(Mutex::new(vec![place, body])))
    }

    /// Finds the shares of the request whose call is running.
    pub(super) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get::<Parts>()?.extensions.get::<Self>().cloned()
    }

    /// Adds the answer.
    pub(super) fn add(&self, answer: Taken) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    }
}

//! What one request of a caller holds until its answer is written and its work is over: a place,
//! its body, and its answer.
//!
//! rmcp runs a call in a task of the session and writes its answer from another, so neither the
//! response nor the call lives as long as both. Each has a clone of this: the response in its body,
//! the call in the extensions of its request.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::request::Parts;
use rmcp::model::Extensions;

use crate::shares::Taken;

/// What a request holds. The last clone gives it back.
#[derive(Clone)]
pub(super) struct Holds(Arc<Mutex<Vec<Taken>>>);

impl Holds {
    /// Begins with the place of the request, and its body.
    pub(super) fn new(place: Taken, body: Taken) -> Self {
        Self(Arc::new(Mutex::new(vec![place, body])))
    }

    /// Finds what the request holds whose call is running.
    pub(super) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get::<Parts>()?.extensions.get::<Self>().cloned()
    }

    /// Holds the answer too.
    pub(super) fn add(&self, answer: Taken) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    }
}

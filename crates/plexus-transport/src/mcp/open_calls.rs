//! The resumable calls that wait in this process. A cancellation finds its call here, and a client
//! that reconnects has one stream, not two.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use plexus_core::Caller;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::limits::{MAX_LOST_CALLS, RESUME_GRACE};

/// Identifies one call: JSON-RPC ids are unique within an MCP session, and a session belongs to one
/// caller.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct CallKey {
    caller: Caller,
    session: Option<String>,
    request: String,
}

impl CallKey {
    pub(super) fn new(caller: Caller, session: Option<&str>, request: &RawValue) -> Self {
        Self { caller, session: session.map(str::to_owned), request: request.get().to_owned() }
    }
}

/// The method call that ends the work of a cancelled call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OnCancel {
    /// The full name of an internal method.
    pub(super) method: String,
    /// Its only parameter.
    pub(super) key: &'static str,
    /// The parameter's value.
    pub(super) value: String,
}

/// The calls by key.
#[derive(Default)]
pub(crate) struct OpenCalls {
    by_key: Mutex<HashMap<CallKey, Entry>>,
}

struct Entry {
    /// Ends the stream that waits for the answer.
    stream: CancellationToken,
    on_cancel: Option<OnCancel>,
    /// When the last stream was lost, if none waits; the client may still reconnect, or cancel.
    lost: Option<Instant>,
}

impl OpenCalls {
    /// Records that a stream waits for the answer of `key`. An older stream of the same call has
    /// lost its client and ends.
    pub(super) fn open(self: &Arc<Self>, key: CallKey, on_cancel: Option<OnCancel>) -> OpenCall {
        let stream = CancellationToken::new();
        let mut calls = self.lock();
        calls.retain(|_, entry| entry.lost.is_none_or(|since| since.elapsed() < RESUME_GRACE));
        let entry = Entry { stream: stream.clone(), on_cancel, lost: None };
        if let Some(older) = calls.insert(key.clone(), entry) {
            older.stream.cancel();
        }
        drop(calls);
        OpenCall { calls: Arc::clone(self), key, stream, answered: false }
    }

    /// Ends a call that its client no longer wants. Returns what ends its work, or `None` when
    /// there is no such call here.
    pub(super) fn cancel(&self, key: &CallKey) -> Option<Option<OnCancel>> {
        let entry = self.lock().remove(key)?;
        entry.stream.cancel();
        Some(entry.on_cancel)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallKey, Entry>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One stream that waits for an answer.
pub(super) struct OpenCall {
    calls: Arc<OpenCalls>,
    key: CallKey,
    stream: CancellationToken,
    answered: bool,
}

impl OpenCall {
    /// Resolves when the stream should end without an answer: the call was cancelled, or its client
    /// waits on another stream.
    pub(super) async fn ended(&self) {
        self.stream.cancelled().await;
    }

    /// Records that the answer was written.
    pub(super) fn answered(&mut self) {
        self.answered = true;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        // The table no longer holds a stream that was replaced or cancelled.
        if self.stream.is_cancelled() {
            return;
        }
        let mut calls = self.calls.lock();
        let of_caller = calls.iter().filter(|(key, _)| key.caller == self.key.caller);
        let lost = of_caller.filter(|(_, entry)| entry.lost.is_some()).count();
        if self.answered || lost >= MAX_LOST_CALLS {
            calls.remove(&self.key);
        } else if let Some(entry) = calls.get_mut(&self.key) {
            entry.lost = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(request: &str) -> CallKey {
        CallKey::new(
            Caller::Operator,
            Some("s"),
            &RawValue::from_string(request.into()).expect("JSON"),
        )
    }

    #[test]
    fn a_client_that_came_back_has_one_stream() {
        let calls = Arc::new(OpenCalls::default());
        let first = calls.open(key("1"), None);
        let second = calls.open(key("1"), None);
        assert!(first.stream.is_cancelled() && !second.stream.is_cancelled());
        drop(first);
        assert!(
            calls.cancel(&key("1")).is_some(),
            "the end of the older stream does not forget the newer one"
        );
        assert!(second.stream.is_cancelled());
    }

    #[test]
    fn lost_calls_of_one_caller_are_bounded() {
        let calls = Arc::new(OpenCalls::default());
        for n in 0..2 * MAX_LOST_CALLS {
            drop(calls.open(key(&n.to_string()), None));
        }
        assert_eq!(calls.lock().len(), MAX_LOST_CALLS);
    }

    #[test]
    fn a_lost_call_can_still_be_cancelled_and_an_answered_one_cannot() {
        let calls = Arc::new(OpenCalls::default());
        let end = OnCancel { method: "a.end".into(), key: "k", value: "v".into() };
        drop(calls.open(key("1"), Some(end.clone())));
        assert_eq!(calls.cancel(&key("1")), Some(Some(end)));
        let mut answered = calls.open(key("2"), None);
        answered.answered();
        drop(answered);
        assert_eq!(calls.cancel(&key("2")), None);
    }
}

//! The event id with which a client resumes a blocked call, even at a new process of the server.
//!
//! The id is self-contained and the server does not store it. It holds the JSON-RPC id to answer,
//! the method, the key of its work, and the progress token. It grants nothing: the client still
//! needs a token, and the method that joins the work is called as that caller.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::message::is_id;

/// The prefix of our ids. Those of rmcp begin with a digit.
const PREFIX: &str = "plx1.";

/// The longest key and JSON-RPC id in an event id, because the id comes back in a header. A call
/// with longer ones cannot be resumed.
const MAX_PART_BYTES: usize = 512;

/// A blocked call, as its event id describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventId {
    /// The JSON-RPC id that the answer carries.
    #[serde(rename = "i")]
    pub(super) request: Box<RawValue>,
    /// The full name of the method that was called.
    #[serde(rename = "m")]
    pub(super) method: String,
    /// The key of its work.
    #[serde(rename = "k")]
    pub(super) key: String,
    /// The progress token, if the client gave one.
    #[serde(rename = "p", skip_serializing_if = "Option::is_none", default)]
    pub(super) progress: Option<Box<RawValue>>,
    /// How often the call was resumed: each stream begins with its own id.
    #[serde(rename = "n")]
    pub(super) resumed: u32,
}

impl EventId {
    /// Says whether a `Last-Event-ID` is one of ours.
    pub(super) fn is_ours(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Writes the id, or returns `None` when it would be too long for a header.
    pub(super) fn write(&self) -> Option<String> {
        let parts = [
            self.key.len(),
            self.request.get().len(),
            self.progress.as_ref().map_or(0, |token| token.get().len()),
        ];
        if parts.into_iter().any(|bytes| bytes > MAX_PART_BYTES) {
            return None;
        }
        let json = serde_json::to_vec(self).ok()?;
        Some(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(json)))
    }

    /// Reads an id that a client sends back. The hub must check everything in it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let json = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        let id: Self = serde_json::from_slice(&json).ok()?;
        let sound = is_id(&id.request) && id.progress.as_ref().is_none_or(|token| is_id(token));
        sound.then_some(id)
    }

    /// Returns the id of the next stream of the same call.
    pub(super) fn next(mut self) -> Self {
        self.resumed = self.resumed.saturating_add(1);
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(request: &str, key: &str) -> EventId {
        EventId {
            request: RawValue::from_string(request.into()).expect("JSON"),
            method: "a.b".into(),
            key: key.into(),
            progress: None,
            resumed: 0,
        }
    }

    #[test]
    fn an_id_round_trips_and_each_stream_has_its_own() {
        let first = id("\"r\\u00e9\"", "toolu_1").write().expect("an id");
        assert!(EventId::is_ours(&first) && first.is_ascii());
        let read = EventId::read(&first).expect("readable");
        assert_eq!((read.request.get(), read.key.as_str()), ("\"r\\u00e9\"", "toolu_1"));
        assert_ne!(read.next().write(), Some(first));
    }

    #[test]
    fn a_malformed_event_id_is_refused() {
        assert_eq!(id("1", &"k".repeat(MAX_PART_BYTES + 1)).write(), None);
        for request in ["{}", "null", "true", "[1]"] {
            let text = id(request, "k").write().expect("an id");
            assert!(EventId::read(&text).is_none(), "{request}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(plx1\\.)?[ -~]{0,200}") {
            let _ = EventId::read(&text);
        }
    }
}

//! The limits of an event, and the one place that enforces them.
//!
//! The [`gate`](crate::gate) passes every event through [`bounded`] on its way to the reader, so no
//! backend can forget it. All sizes are bytes of UTF-8; JSON is counted as `serde_json` writes it.

use std::io;

use serde_json::{Value, json};

use crate::{AgentWrapperEvent, AgentWrapperEventKind};

/// The longest name of a channel. A channel is a word to group by; a longer one is left out.
pub const MAX_CHANNEL_BYTES: usize = 128;
/// The longest text of one event. A longer text becomes several events, so that a reader's buffers
/// stay small.
pub const MAX_TEXT_BYTES: usize = 65_536;
/// The longest message. It is a line for a person; a longer one is cut.
pub const MAX_MESSAGE_BYTES: usize = 4_096;
/// The largest facet. It is metadata; a larger one is replaced by a note.
pub const MAX_DATA_BYTES: usize = 65_536;
/// The longest session id. Only a complete id is useful, so a longer one is not reported at all.
pub const MAX_SESSION_ID_BYTES: usize = 1_024;
/// The longest name of a model.
pub const MAX_MODEL_ID_BYTES: usize = 128;
/// The most additional directories of a request.
pub const MAX_ADD_DIRS: usize = 16;
/// The longest path of an additional directory.
pub const MAX_ADD_DIR_BYTES: usize = 1_024;
/// How many events may wait for the reader. A full channel makes the agent wait (back-pressure);
/// with the limits above it holds a few MiB at most.
pub const EVENT_CHANNEL_CAPACITY: usize = 32;

/// The mark at the end of a message that was cut.
const CUT_MARK: &str = "…(truncated)";

/// Yields `event` within its limits: unchanged, cut, or, for a long text, in several pieces in
/// order.
///
/// Fields that do not belong to a kind are removed: a text event keeps no message, an error and a
/// status no text. A text event without text yields nothing. The facet of a text that was split
/// stays with its first piece.
pub fn bounded(mut event: AgentWrapperEvent) -> Pieces {
    event.channel.take_if(|channel| channel.len() > MAX_CHANNEL_BYTES);
    if let Some(message) = &mut event.message {
        cut_message(message);
    }
    event.data = event.data.map(bounded_data);
    match event.kind {
        AgentWrapperEventKind::TextOutput => {
            event.message = None;
            match event.text.take() {
                Some(text) if !text.is_empty() => Pieces { text, at: 0, event: Some(event) },
                _ => Pieces { text: String::new(), at: 0, event: None },
            }
        }
        AgentWrapperEventKind::Status | AgentWrapperEventKind::Error => {
            event.text = None;
            Pieces { text: String::new(), at: 0, event: Some(event) }
        }
        AgentWrapperEventKind::ToolCall
        | AgentWrapperEventKind::ToolResult
        | AgentWrapperEventKind::Unknown => {
            // Only a text event may become several events, so here a long text is cut.
            if let Some(text) = &mut event.text {
                text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            }
            Pieces { text: String::new(), at: 0, event: Some(event) }
        }
    }
}

/// The pieces of one event, produced one at a time: a text of many MiB is never held twice.
#[derive(Debug)]
pub struct Pieces {
    text: String,
    at: usize,
    /// The event without its text; `None` after the last piece.
    event: Option<AgentWrapperEvent>,
}

impl Iterator for Pieces {
    type Item = AgentWrapperEvent;

    fn next(&mut self) -> Option<Self::Item> {
        let whole = self.event.as_mut()?;
        let rest = self.text.len() - self.at;
        if rest <= MAX_TEXT_BYTES {
            let mut last = self.event.take()?;
            if rest > 0 {
                let mut text = std::mem::take(&mut self.text);
                text.drain(..self.at);
                last.text = Some(text);
            }
            return Some(last);
        }
        let end = self.text.floor_char_boundary(self.at + MAX_TEXT_BYTES);
        let piece =
            AgentWrapperEvent { text: Some(self.text[self.at..end].to_owned()), ..whole.clone() };
        whole.data = None;
        self.at = end;
        Some(piece)
    }
}

/// Replaces a facet that is too large by a note that says so.
pub fn bounded_data(data: Value) -> Value {
    if json_bytes(&data) <= MAX_DATA_BYTES {
        data
    } else {
        json!({"dropped": {"reason": "oversize"}})
    }
}

/// Cuts a message to its limit, including the mark of the cut.
pub fn cut_message(message: &mut String) {
    cut(message, MAX_MESSAGE_BYTES);
}

/// Cuts `text` to `limit` bytes, at a character boundary, with a mark at its end.
pub(crate) fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(CUT_MARK.len())));
        text.push_str(CUT_MARK);
    }
}

/// Counts the bytes of `value` as JSON without writing them anywhere.
fn json_bytes(value: &Value) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // A value that cannot be written counts as too large.
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgentWrapperKind;
    use proptest::prelude::*;

    fn kind() -> AgentWrapperKind {
        AgentWrapperKind::new("test").unwrap()
    }

    fn one(event: AgentWrapperEvent) -> AgentWrapperEvent {
        let mut pieces = bounded(event);
        let only = pieces.next().unwrap();
        assert!(pieces.next().is_none(), "the event came in more than one piece");
        only
    }

    #[test]
    fn an_event_within_its_limits_is_left_as_it_is() {
        let status = AgentWrapperEvent::status(&kind(), "x".repeat(MAX_MESSAGE_BYTES))
            .with_data(json!({"a": 1}));
        assert_eq!(one(status.clone()), status);
        let text =
            AgentWrapperEvent::text(&kind(), "x".repeat(MAX_TEXT_BYTES)).with_data(json!({"a": 1}));
        assert_eq!(one(text.clone()), text);
    }

    #[test]
    fn a_channel_that_is_too_long_is_left_out() {
        let at = |bytes| {
            let mut event = AgentWrapperEvent::status(&kind(), "m");
            event.channel = Some("c".repeat(bytes));
            one(event).channel.map(|channel| channel.len())
        };
        assert_eq!(at(MAX_CHANNEL_BYTES), Some(MAX_CHANNEL_BYTES));
        assert_eq!(at(MAX_CHANNEL_BYTES + 1), None);
    }

    #[test]
    fn a_long_message_is_cut_inside_its_limit_and_on_a_character() {
        for filler in ["x", "é", "語", "🦀"] {
            let message =
                one(AgentWrapperEvent::status(&kind(), filler.repeat(2 * MAX_MESSAGE_BYTES)))
                    .message
                    .unwrap();
            assert!(message.len() <= MAX_MESSAGE_BYTES);
            assert!(message.len() > MAX_MESSAGE_BYTES - 4, "cut more than a character too much");
            assert!(message.strip_suffix(CUT_MARK).unwrap().replace(filler, "").is_empty());
        }
    }

    #[test]
    fn oversize_data_is_replaced_and_not_cut() {
        // A JSON string has two quotes.
        let just_fits = json!("x".repeat(MAX_DATA_BYTES - 2));
        assert_eq!(bounded_data(just_fits.clone()), just_fits);
        assert_eq!(
            bounded_data(json!("x".repeat(MAX_DATA_BYTES - 1))),
            json!({"dropped": {"reason": "oversize"}})
        );
        // The size of the JSON counts: a control character has six bytes there.
        assert_eq!(
            bounded_data(json!("\u{1}".repeat(MAX_DATA_BYTES / 4))),
            json!({"dropped": {"reason": "oversize"}})
        );
    }

    #[test]
    fn the_facet_of_a_split_text_comes_once() {
        let event = AgentWrapperEvent::text(&kind(), "x".repeat(3 * MAX_TEXT_BYTES))
            .with_data(json!({"a": 1}));
        let facets: Vec<_> = bounded(event).map(|piece| piece.data).collect();
        assert_eq!(facets, [Some(json!({"a": 1})), None, None]);
    }

    #[test]
    fn each_kind_keeps_only_what_belongs_to_it() {
        let full = |kind_of_event| AgentWrapperEvent {
            text: Some("text".to_owned()),
            message: Some("message".to_owned()),
            ..AgentWrapperEvent::bare(&kind(), kind_of_event)
        };
        assert_eq!(one(full(AgentWrapperEventKind::TextOutput)).message, None);
        assert_eq!(one(full(AgentWrapperEventKind::Error)).text, None);
        assert_eq!(one(full(AgentWrapperEventKind::Status)).text, None);
        let empty = AgentWrapperEvent::text(&kind(), "");
        assert_eq!(bounded(empty).count(), 0);
    }

    proptest! {
        #[test]
        fn a_split_text_is_the_same_text(unit in "\\PC{1,7}", times in 1_usize..40_000) {
            let text = unit.repeat(times);
            let pieces: Vec<_> = bounded(AgentWrapperEvent::text(&kind(), text.clone())).filter_map(|piece| piece.text).collect();
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= MAX_TEXT_BYTES));
            prop_assert_eq!(pieces.concat(), text);
        }
    }
}

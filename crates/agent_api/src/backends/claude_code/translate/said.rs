//! Text, once: what was forwarded as deltas is not forwarded again when it comes whole.
//!
//! With partial messages on, the CLI writes the deltas of a text and then the whole text, in a line of its own, under the same
//! message id. Blocks come whole in the order in which they were streamed, so a queue of their lengths is all there is to
//! remember. Where the CLI streams nothing, or stops half way, the whole line brings what is missing.

use std::collections::VecDeque;

use crate::bounds;

/// Messages whose whole lines may still come. One is enough for what was seen; a few cost nothing.
const MESSAGES_REMEMBERED: usize = 8;

/// The longest text of a last message that is kept: what the longest readable line could hold.
const MAX_FINAL_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// What the model has said on its main thread.
#[derive(Debug, Default)]
pub(super) struct Said {
    streamed: VecDeque<StreamedMessage>,
    last: LastMessage,
}

/// How much of a message has been forwarded as deltas.
#[derive(Debug)]
struct StreamedMessage {
    id: Option<String>,
    /// Text blocks whose whole line has not come yet, oldest first.
    open: VecDeque<StreamedBlock>,
}

#[derive(Debug)]
struct StreamedBlock {
    index: u64,
    bytes: usize,
}

#[derive(Debug, Default)]
struct LastMessage {
    id: Option<String>,
    text: Option<String>,
}

impl Said {
    /// A message begins to be streamed.
    pub(super) fn message_starts(&mut self, id: Option<&str>) {
        if self.streamed.len() == MESSAGES_REMEMBERED {
            self.streamed.pop_front();
        }
        self.streamed.push_back(StreamedMessage { id: id.map(str::to_owned), open: VecDeque::new() });
    }

    /// A text block of the current message begins to be streamed.
    pub(super) fn block_starts(&mut self, index: u64) {
        if let Some(message) = self.streamed.back_mut() {
            message.open.push_back(StreamedBlock { index, bytes: 0 });
        }
    }

    /// A piece of the current message's text is forwarded.
    pub(super) fn delta(&mut self, index: u64, text: &str) {
        let Some(message) = self.streamed.back_mut() else { return };
        match message.open.iter_mut().find(|block| block.index == index) {
            Some(block) => block.bytes += text.len(),
            None => message.open.push_back(StreamedBlock { index, bytes: text.len() }),
        }
        let id = message.id.clone();
        self.last.add(id.as_deref(), text);
    }

    /// A text comes whole: returns the part of it that no delta has brought.
    pub(super) fn whole<'a>(&mut self, id: Option<&str>, text: &'a str) -> &'a str {
        let message = self.streamed.iter_mut().find(|message| id.is_some() && message.id.as_deref() == id);
        let forwarded = message.and_then(|message| message.open.pop_front()).map_or(0, |block| block.bytes);
        // A whole text shorter than its deltas, or other than they were, cannot be made good: what was said stays said.
        let rest = text.get(forwarded..).unwrap_or_default();
        self.last.add(id, rest);
        rest
    }

    /// Whether this message comes as deltas too.
    pub(super) fn is_streamed(&self, id: Option<&str>) -> bool {
        self.streamed.iter().any(|message| id.is_some() && message.id.as_deref() == id)
    }

    /// The text of the last message that had any.
    pub(super) fn last_message(self) -> Option<String> {
        let mut text = self.last.text?;
        bounds::cut(&mut text, MAX_FINAL_TEXT_BYTES);
        Some(text)
    }
}

impl LastMessage {
    fn add(&mut self, id: Option<&str>, text: &str) {
        if text.is_empty() {
            return;
        }
        // Lines without an id cannot be told to belong together.
        if id.is_none() || self.id.as_deref() != id {
            self.id = id.map(str::to_owned);
            self.text = None;
        }
        let kept = self.text.get_or_insert_default();
        // One piece over the limit is kept, so that the cut at the end can be seen.
        if kept.len() <= MAX_FINAL_TEXT_BYTES {
            kept.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streamed_text_is_not_said_again() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.block_starts(0);
        said.delta(0, "héllo ");
        said.delta(0, "there");
        assert_eq!(said.whole(Some("m"), "héllo there"), "");
        assert_eq!(said.last_message().as_deref(), Some("héllo there"));
    }

    #[test]
    fn a_text_that_was_not_streamed_is_said_whole() {
        let mut said = Said::default();
        assert_eq!(said.whole(Some("m"), "hello"), "hello");
        said.message_starts(Some("n"));
        assert_eq!(said.whole(Some("n"), "there"), "there");
        assert_eq!(said.whole(None, "again"), "again");
    }

    #[test]
    fn the_whole_line_brings_what_the_deltas_did_not() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.delta(0, "half of ");
        assert_eq!(said.whole(Some("m"), "half of this"), "this");
        assert_eq!(said.last_message().as_deref(), Some("half of this"));
    }

    #[test]
    fn blocks_of_one_message_are_matched_in_their_order() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.block_starts(0);
        said.delta(0, "one");
        said.block_starts(2);
        said.delta(2, "two!");
        assert_eq!(said.whole(Some("m"), "one"), "");
        assert_eq!(said.whole(Some("m"), "two!"), "");
        assert_eq!(said.whole(Some("m"), "three"), "three");
        assert_eq!(said.last_message().as_deref(), Some("onetwo!three"));
    }

    #[test]
    fn a_late_whole_line_of_an_earlier_message_is_known() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.delta(0, "one");
        said.message_starts(Some("n"));
        assert_eq!(said.whole(Some("m"), "one"), "");
    }

    #[test]
    fn the_last_message_is_the_last_that_had_text() {
        let mut said = Said::default();
        said.whole(Some("m"), "first");
        said.whole(Some("n"), "second");
        said.message_starts(Some("o"));
        assert_eq!(said.last_message().as_deref(), Some("second"));
        assert_eq!(Said::default().last_message(), None);
    }

    #[test]
    fn a_text_that_contradicts_its_deltas_does_not_panic() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.delta(0, "abc");
        // Three bytes are in the middle of the second character.
        assert_eq!(said.whole(Some("m"), "éé"), "");
    }
}

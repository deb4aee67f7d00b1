//! Forwards each text once: text that was forwarded as deltas is not forwarded again when it comes
//! whole, nor when a broken answer is repeated.
//!
//! An agent writes the deltas of a text and then the whole text, in a line of its own, with the
//! same message id and before the end of the message. Whole blocks come in the order in which they
//! were streamed, so a queue of the open blocks is enough. If the agent streams nothing, or stops
//! half way, the whole line supplies the rest.
//!
//! A message that ends while one of its texts is still open was abandoned: the connection broke,
//! and the agent asks the model again, with a new id. Text that the reader has seen cannot be taken
//! back, so the new answer is held back as long as it repeats the old one. If it differs, it is
//! forwarded from its beginning, marked as beginning again.

use std::{borrow::Cow, collections::VecDeque};

use crate::bounds;

/// How many messages are remembered because their whole lines may still come. One is enough for all
/// agents that we have seen; a few cost nothing.
const MESSAGES_REMEMBERED: usize = 8;

/// The longest text of a message that is kept, about twice what a model can write into one. An
/// endless run must not fill the memory of its reader.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

/// The text of the model on its main thread.
#[derive(Debug, Default)]
pub(crate) struct Said {
    streamed: VecDeque<StreamedMessage>,
    abandoned: Option<Abandoned>,
    last: LastMessage,
}

/// The part of a text that the reader has not seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unseen<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Whether this replaces text that the reader has seen.
    pub(crate) begins_again: bool,
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
    /// Its text, unless it exceeds [`MAX_KEPT_BYTES`].
    text: String,
}

/// A text that the reader has seen and the agent has abandoned.
#[derive(Debug)]
struct Abandoned {
    id: Option<String>,
    text: String,
    /// How much of it a later answer has repeated.
    repeated: usize,
}

#[derive(Debug, Default)]
struct LastMessage {
    id: Option<String>,
    text: Option<String>,
}

impl Said {
    /// Records that a message begins to be streamed.
    pub(crate) fn message_starts(&mut self, id: Option<&str>) {
        if self.streamed.len() == MESSAGES_REMEMBERED {
            self.streamed.pop_front();
        }
        self.streamed
            .push_back(StreamedMessage { id: id.map(str::to_owned), open: VecDeque::new() });
        if let Some(abandoned) = &mut self.abandoned {
            abandoned.repeated = 0;
        }
    }

    /// Records that a text block of the current message begins to be streamed.
    pub(crate) fn block_starts(&mut self, index: u64) {
        if let Some(message) = self.streamed.back_mut() {
            message.open.push_back(StreamedBlock { index, bytes: 0, text: String::new() });
        }
    }

    /// Records a delta of the current message's text, and returns the part of it to forward.
    pub(crate) fn delta<'a>(&mut self, index: u64, text: &'a str) -> Unseen<'a> {
        let Some(message) = self.streamed.back_mut() else { return self.unseen(text) };
        if !message.open.iter().any(|block| block.index == index) {
            message.open.push_back(StreamedBlock { index, bytes: 0, text: String::new() });
        }
        if let Some(block) = message.open.iter_mut().find(|block| block.index == index) {
            block.bytes += text.len();
            if block.bytes <= MAX_KEPT_BYTES {
                block.text.push_str(text);
            }
        }
        let id = message.id.clone();
        self.last.add(id.as_deref(), text);
        self.unseen(text)
    }

    /// Records the end of a message. If it has an open text it was abandoned; otherwise the message
    /// abandoned before it is forgotten.
    pub(crate) fn message_stops(&mut self) {
        let Some(message) = self.streamed.back() else { return };
        if message.open.is_empty() {
            self.abandoned = None;
            return;
        }
        let text: String = message.open.iter().map(|block| block.text.as_str()).collect();
        // An answer that broke off earlier than the one before it has shown nothing new.
        if self.abandoned.as_ref().is_none_or(|before| !before.text.starts_with(&text)) {
            self.abandoned = Some(Abandoned { id: message.id.clone(), text, repeated: 0 });
        }
    }

    /// Records that the turn continues with something other than an answer, so no answer will be
    /// repeated.
    pub(crate) fn goes_on(&mut self) {
        self.abandoned = None;
    }

    /// Records a whole text, and returns the part of it to forward.
    pub(crate) fn whole<'a>(&mut self, id: Option<&str>, text: &'a str) -> Unseen<'a> {
        let message =
            self.streamed.iter_mut().find(|message| id.is_some() && message.id.as_deref() == id);
        let Some(block) = message.and_then(|message| message.open.pop_front()) else {
            self.last.add(id, text);
            return self.unseen(text);
        };
        if self.abandoned.as_ref().is_some_and(|abandoned| abandoned.id.as_deref() == id) {
            // The message was not abandoned; its whole line only came late.
            self.abandoned = None;
        }
        // If the whole text is shorter than its deltas or differs from them, nothing can be
        // corrected: the reader has seen the deltas.
        let rest = text.get(block.bytes..).unwrap_or_default();
        self.last.add(id, rest);
        self.unseen(rest)
    }

    /// Returns whether this message also comes as deltas.
    pub(crate) fn is_streamed(&self, id: Option<&str>) -> bool {
        self.streamed.iter().any(|message| id.is_some() && message.id.as_deref() == id)
    }

    /// Returns the text of the last message that had any.
    pub(crate) fn last_message(self) -> Option<String> {
        let mut text = self.last.text?;
        bounds::cut(&mut text, MAX_KEPT_BYTES);
        Some(text)
    }

    /// Removes the part that the reader has already seen of an abandoned answer.
    fn unseen<'a>(&mut self, text: &'a str) -> Unseen<'a> {
        let all = Unseen { text: Cow::Borrowed(text), begins_again: false };
        let Some(abandoned) = &mut self.abandoned else { return all };
        if text.is_empty() {
            return all;
        }
        let (repeated, rest) = abandoned.text.split_at(abandoned.repeated);
        if rest.starts_with(text) {
            abandoned.repeated += text.len();
            return Unseen::default();
        }
        let unseen = match text.strip_prefix(rest) {
            Some(new) => Unseen { text: Cow::Borrowed(new), begins_again: false },
            None => Unseen { text: Cow::Owned(format!("{repeated}{text}")), begins_again: true },
        };
        self.abandoned = None;
        unseen
    }
}

impl LastMessage {
    fn add(&mut self, id: Option<&str>, text: &str) {
        if text.is_empty() {
            return;
        }
        // Nothing shows whether lines without an id belong together.
        if id.is_none() || self.id.as_deref() != id {
            self.id = id.map(str::to_owned);
            self.text = None;
        }
        let kept = self.text.get_or_insert_default();
        // One piece beyond the limit is kept, so that the cut at the end is marked.
        if kept.len() <= MAX_KEPT_BYTES {
            kept.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a text of which nothing was seen.
    fn new(text: &str) -> Unseen<'_> {
        Unseen { text: Cow::Borrowed(text), begins_again: false }
    }

    /// Streams a message that is abandoned after these pieces; returns the forwarded text.
    fn abandon(said: &mut Said, id: &str, pieces: &[&str]) -> String {
        said.message_starts(Some(id));
        let seen = pieces.iter().map(|piece| said.delta(0, piece).text.into_owned()).collect();
        said.message_stops();
        seen
    }

    #[test]
    fn a_streamed_text_is_not_said_again() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.block_starts(0);
        said.delta(0, "héllo ");
        said.delta(0, "there");
        assert_eq!(said.whole(Some("m"), "héllo there"), new(""));
        assert_eq!(said.last_message().as_deref(), Some("héllo there"));
    }

    #[test]
    fn a_text_that_was_not_streamed_is_said_whole() {
        let mut said = Said::default();
        assert_eq!(said.whole(Some("m"), "hello"), new("hello"));
        said.message_starts(Some("n"));
        assert_eq!(said.whole(Some("n"), "there"), new("there"));
        assert_eq!(said.whole(None, "again"), new("again"));
    }

    #[test]
    fn the_whole_line_brings_what_the_deltas_did_not() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.delta(0, "half of ");
        assert_eq!(said.whole(Some("m"), "half of this"), new("this"));
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
        assert_eq!(said.whole(Some("m"), "one"), new(""));
        assert_eq!(said.whole(Some("m"), "two!"), new(""));
        assert_eq!(said.whole(Some("m"), "three"), new("three"));
        assert_eq!(said.last_message().as_deref(), Some("onetwo!three"));
    }

    #[test]
    fn a_late_whole_line_of_an_earlier_message_is_known() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.delta(0, "one");
        said.message_starts(Some("n"));
        assert_eq!(said.whole(Some("m"), "one"), new(""));
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
    fn an_endless_message_is_kept_up_to_a_limit() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        for _ in 0..3 {
            said.delta(0, &"é".repeat(MAX_KEPT_BYTES / 3));
        }
        let kept = said.last_message().unwrap();
        assert!(
            kept.len() <= MAX_KEPT_BYTES && kept.ends_with("…(truncated)"),
            "{} bytes",
            kept.len()
        );
    }

    #[test]
    fn a_text_that_contradicts_its_deltas_does_not_panic() {
        let mut said = Said::default();
        said.message_starts(Some("m"));
        said.delta(0, "abc");
        // Three bytes are in the middle of the second character.
        assert_eq!(said.whole(Some("m"), "éé"), new(""));
    }

    #[test]
    fn a_broken_answer_that_is_repeated_is_said_once() {
        let mut said = Said::default();
        assert_eq!(abandon(&mut said, "m", &["half", " of"]), "half of");
        said.message_starts(Some("n"));
        let pieces =
            ["ha", "lf of", " this", " text"].map(|piece| said.delta(0, piece).text.into_owned());
        assert_eq!(pieces, ["", "", " this", " text"]);
        assert_eq!(said.whole(Some("n"), "half of this text"), new(""));
        assert_eq!(said.last_message().as_deref(), Some("half of this text"));
    }

    #[test]
    fn a_broken_answer_that_is_repeated_whole_is_said_once() {
        let mut said = Said::default();
        abandon(&mut said, "m", &["half", " of"]);
        assert_eq!(said.whole(Some("n"), "half of this"), new(" this"));
        assert_eq!(said.last_message().as_deref(), Some("half of this"));
    }

    #[test]
    fn an_answer_that_breaks_twice_is_said_once() {
        let mut said = Said::default();
        let mut seen = abandon(&mut said, "m", &["half", " of"]);
        seen += &abandon(&mut said, "n", &["half"]);
        seen += &abandon(&mut said, "o", &["half of", " this"]);
        said.message_starts(Some("p"));
        seen += &said.delta(0, "half of this text").text;
        assert_eq!(seen, "half of this text");
    }

    #[test]
    fn another_answer_than_the_broken_one_begins_again() {
        let mut said = Said::default();
        abandon(&mut said, "m", &["half", " of"]);
        said.message_starts(Some("n"));
        assert_eq!(said.delta(0, "ha"), new(""));
        let again = said.delta(0, "t off");
        assert_eq!(again, Unseen { text: Cow::Borrowed("hat off"), begins_again: true });
        assert_eq!(said.delta(0, "!"), new("!"));
        assert_eq!(said.last_message().as_deref(), Some("hat off!"));
    }

    #[test]
    fn a_broken_answer_is_forgotten_when_the_turn_goes_on() {
        let mut said = Said::default();
        abandon(&mut said, "m", &["yes"]);
        // The new answer has no text at all, only a tool.
        said.message_starts(Some("n"));
        said.message_stops();
        assert_eq!(said.whole(Some("o"), "yes"), new("yes"));
        abandon(&mut said, "p", &["yes"]);
        said.goes_on();
        assert_eq!(said.whole(Some("q"), "yes"), new("yes"));
    }

    #[test]
    fn a_whole_line_after_the_end_of_its_message_is_no_repetition() {
        let mut said = Said::default();
        abandon(&mut said, "m", &["yes"]);
        assert_eq!(said.whole(Some("m"), "yes"), new(""));
        assert_eq!(said.whole(Some("n"), "yes"), new("yes"));
    }
}

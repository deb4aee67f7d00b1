//! What the model says and thinks. It comes in small pieces, which are shown live; the event is
//! written when the text ends, or when it has become long.

use acp_lines::event::content::Chunk;
use plexus_engine::driver::Step;
use plexus_wire::ChatEvent;

use super::Reading;
use crate::acp::memory::{Speech, Voice};

/// How long a text may become before it is written as an event. The memory holds all of it and is
/// stored again with each batch of lines, so it must stay bounded.
const MAX_TEXT_BYTES: usize = 16 * 1024;

impl Reading<'_> {
    pub(super) fn said(&mut self, chunk: &Chunk) {
        let Some(text) = &chunk.content.text else { return };
        let told_mode =
            self.profile.mode_text.as_deref().and_then(|begin| text.strip_prefix(begin));
        match told_mode {
            Some(mode) => self.mode_told(mode.trim()),
            None => self.piece(Voice::Said, chunk, text.as_str()),
        }
    }

    pub(super) fn thought(&mut self, chunk: &Chunk) {
        if let Some(text) = &chunk.content.text {
            self.piece(Voice::Thought, chunk, text.as_str());
        }
    }

    fn piece(&mut self, voice: Voice, chunk: &Chunk, text: &str) {
        let message = chunk.message_id.as_ref().map(|id| id.as_str().to_owned());
        let goes_on = |speech: &Speech| {
            speech.voice == voice
                && speech.message == message
                && speech.text.len() + text.len() <= MAX_TEXT_BYTES
        };
        if !self.memory.speech.as_ref().is_some_and(goes_on) {
            self.flush();
            if voice == Voice::Said {
                self.steps.push(Step::DeltaStart);
            }
        }
        let new = || Speech { voice, message: message.clone(), text: String::new() };
        self.memory.speech.get_or_insert_with(new).text.push_str(text);
        if voice == Voice::Said {
            self.steps.push(Step::Delta(text.to_owned()));
        }
    }

    /// Writes the finished text as an event.
    pub(super) fn flush(&mut self) {
        let Some(Speech { voice, text, .. }) = self.memory.speech.take() else { return };
        match voice {
            Voice::Said => {
                self.steps.push(Step::Event(ChatEvent::Content { text }));
                self.steps.push(Step::DeltaEnd);
            }
            Voice::Thought => {
                self.steps.push(Step::Event(ChatEvent::Thinking { thinking: text }));
            }
        }
    }
}

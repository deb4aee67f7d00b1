//! Lines that could not be read: each is one error event in its place.

use crate::{AgentWrapperEvent, AgentWrapperKind};

/// Whether the line before could not be read. It is told when another line follows: the last line
/// of an agent that was ended in the middle of a word is no news beside the end itself.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(bool);

impl Unreadable {
    /// Notes a line that could not be read; returns the error of the one before it.
    pub(crate) fn note(&mut self, kind: &AgentWrapperKind) -> Option<AgentWrapperEvent> {
        let earlier = self.earlier(kind);
        self.0 = true;
        earlier
    }

    /// Returns the error of a line before this one that could not be read, once.
    pub(crate) fn earlier(&mut self, kind: &AgentWrapperKind) -> Option<AgentWrapperEvent> {
        std::mem::take(&mut self.0).then(|| {
            AgentWrapperEvent::error(kind, "a line of the agent's output could not be read")
        })
    }
}

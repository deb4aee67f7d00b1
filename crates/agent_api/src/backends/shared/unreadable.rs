//! Lines that could not be read: each becomes one error event.

use crate::{AgentWrapperEvent, AgentWrapperKind};

/// Whether the line before could not be read. Its error is reported only when another line follows,
/// because an agent that is ended may stop in the middle of its last line.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(bool);

impl Unreadable {
    /// Records a line that could not be read; returns the error for the line before it, if that
    /// could not be read either.
    pub(crate) fn note(&mut self, kind: &AgentWrapperKind) -> Option<AgentWrapperEvent> {
        let earlier = self.earlier(kind);
        self.0 = true;
        earlier
    }

    /// Returns the error for the line before this one, if that could not be read, only once.
    pub(crate) fn earlier(&mut self, kind: &AgentWrapperKind) -> Option<AgentWrapperEvent> {
        std::mem::take(&mut self.0).then(|| {
            AgentWrapperEvent::error(kind, "a line of the agent's output could not be read")
        })
    }
}

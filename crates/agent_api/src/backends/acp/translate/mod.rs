//! Turns the lines of one run into events, and remembers what the end of the run needs.
//!
//! Pure: no clock, no process. Events contain the text of the model, names and ids of tools, the
//! session's id, and otherwise our own words: no other output of the agent is in any event. An
//! update of an unknown kind is an [`Unknown`](AgentWrapperEventKind::Unknown) event, and a line
//! that cannot be read is an error event; the run continues.

mod tool;

use acp_lines::{
    SessionUpdate,
    event::{content::Chunk, tool::ToolCall},
};

use self::tool::Tools;
use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind,
    backends::shared::{
        outcome::Told, said::Said, session::Session, unreadable::Unreadable, verdict::TurnVerdict,
    },
};

/// The state of the translation of one run.
#[derive(Debug)]
pub(super) struct Translator {
    kind: AgentWrapperKind,
    said: Said,
    /// The message that is being written, by the agent's id if it has one.
    message: Option<Option<String>>,
    /// Counts messages, because few agents give them ids.
    messages: u64,
    /// Whether the model is thinking, which is reported once and not word by word.
    is_thinking: bool,
    session: Session,
    tools: Tools,
    pub(super) verdict: TurnVerdict,
    unreadable: Unreadable,
}

impl Translator {
    pub(super) fn new(kind: AgentWrapperKind) -> Self {
        Self {
            kind,
            said: Said::default(),
            message: None,
            messages: 0,
            is_thinking: false,
            session: Session::default(),
            tools: Tools::default(),
            verdict: TurnVerdict::default(),
            unreadable: Unreadable::default(),
        }
    }

    /// Records the session's id; returns the event that announces it, only once.
    pub(super) fn session(&mut self, id: &str) -> Option<AgentWrapperEvent> {
        self.tools.session(id);
        self.session.note(id, &self.kind)
    }

    /// Records a line that could not be read; returns the error for the line before it, if that
    /// could not be read either.
    pub(super) fn unreadable(&mut self) -> Option<AgentWrapperEvent> {
        self.unreadable.note(&self.kind)
    }

    /// Returns the error for the line before this one, if that could not be read.
    pub(super) fn earlier_unreadable(&mut self) -> Option<AgentWrapperEvent> {
        self.unreadable.earlier(&self.kind)
    }

    /// Translates a question about a call, because some agents report a call in no other way.
    pub(super) fn asked(&mut self, call: &ToolCall) -> Vec<AgentWrapperEvent> {
        self.goes_on();
        self.tools.updated(&self.kind, call)
    }

    /// Records that a question was answered with no.
    pub(super) fn declined(&mut self) -> AgentWrapperEvent {
        self.verdict.note_declined();
        self.status("a tool was refused")
    }

    /// Translates an update of the run's own session into events, often none.
    pub(super) fn update(&mut self, update: &SessionUpdate) -> Vec<AgentWrapperEvent> {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                self.is_thinking = false;
                self.say(chunk)
            }
            SessionUpdate::AgentThoughtChunk(_) if !self.is_thinking => {
                self.is_thinking = true;
                vec![self.status("thinking")]
            }
            SessionUpdate::ToolCall(call) => {
                self.goes_on();
                self.tools.began(&self.kind, call)
            }
            SessionUpdate::ToolCallUpdate(call) => {
                self.goes_on();
                self.tools.updated(&self.kind, call)
            }
            SessionUpdate::Plan(_) => vec![self.status("a plan was made")],
            SessionUpdate::Compaction(_) => vec![self.status("summarising the conversation")],
            SessionUpdate::Unknown { .. } => vec![self.unknown()],
            // The other updates are not forwarded.
            SessionUpdate::AgentThoughtChunk(_)
            | SessionUpdate::UserMessageChunk(_)
            | SessionUpdate::AvailableCommands(_)
            | SessionUpdate::CurrentMode(_)
            | SessionUpdate::ConfigOptions(_)
            | SessionUpdate::SessionInfo(_)
            | SessionUpdate::Usage(_)
            | SessionUpdate::Notice(_) => Vec::new(),
        }
    }

    /// Returns the event for an unknown line.
    pub(super) fn unknown(&self) -> AgentWrapperEvent {
        AgentWrapperEvent::bare(&self.kind, AgentWrapperEventKind::Unknown)
    }

    /// Returns the final verdict and the data for the completion.
    pub(super) fn told(mut self) -> (TurnVerdict, Told) {
        let told = Told {
            final_text: self.said.last_message(),
            session: self.session.facet(),
            unreadable: self.unreadable.earlier(&self.kind),
        };
        (self.verdict, told)
    }

    fn say(&mut self, chunk: &Chunk) -> Vec<AgentWrapperEvent> {
        let Some(text) = chunk.content.text.as_deref().filter(|text| !text.is_empty()) else {
            return Vec::new();
        };
        let id = chunk.message_id.as_deref();
        if self.message.as_ref().is_none_or(|open| open.as_deref() != id) {
            self.messages += 1;
            self.message = Some(id.map(str::to_owned));
        }
        // A part comes once and is never repeated whole, so it is stored as a part of its message.
        let unseen = self.said.whole(Some(&self.messages.to_string()), text);
        vec![AgentWrapperEvent::text(&self.kind, unseen.text)]
    }

    /// Records that the turn continues with something other than text, so the next text is another
    /// message.
    fn goes_on(&mut self) {
        self.message = None;
        self.is_thinking = false;
    }

    fn status(&self, message: &str) -> AgentWrapperEvent {
        AgentWrapperEvent::status(&self.kind, message)
    }
}

#[cfg(test)]
mod tests;

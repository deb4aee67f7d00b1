//! Turns the lines of one run into events, and remembers what the end of the run needs.
//!
//! Pure: no clock, no process. Events contain the text of the model, names and ids of tools, the
//! session's id, and otherwise our own words: no other output of the server is in any event. A line
//! of an unknown kind is an [`Unknown`](AgentWrapperEventKind::Unknown) event, and a line that
//! cannot be read is an error event; the run continues.

mod tool;

use codex_app::{
    Notification, ServerLine,
    event::{Item, ItemBody},
};

use self::tool::Tools;
use super::verdict::of_turn;
use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind,
    backends::shared::{
        outcome::Told,
        said::{Said, Unseen},
        session::Session,
        unreadable::Unreadable,
        verdict::TurnVerdict,
    },
};

/// The index of the only block of a message's text.
const BLOCK: u64 = 0;

/// The state of the translation of one run.
#[derive(Debug)]
pub(super) struct Translator {
    kind: AgentWrapperKind,
    said: Said,
    /// The message that is being written.
    message: Option<OpenMessage>,
    /// Counts messages, because after a broken answer two may have the same id.
    messages: u64,
    session: Session,
    tools: Tools,
    pub(super) verdict: TurnVerdict,
    unreadable: Unreadable,
}

#[derive(Debug)]
struct OpenMessage {
    item_id: String,
    /// Its number, as an id that no other message has.
    id: String,
}

impl Translator {
    pub(super) fn new(kind: AgentWrapperKind) -> Self {
        Self {
            kind,
            said: Said::default(),
            message: None,
            messages: 0,
            session: Session::default(),
            tools: Tools::default(),
            verdict: TurnVerdict::default(),
            unreadable: Unreadable::default(),
        }
    }

    /// Records the session's id; returns the event that announces it, only once.
    pub(super) fn session(&mut self, id: &str) -> Option<AgentWrapperEvent> {
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

    /// Records that a question was answered with no.
    pub(super) fn declined(&mut self) -> AgentWrapperEvent {
        self.verdict.note_declined();
        self.status("a tool was refused")
    }

    /// Translates a notification of the run's own thread into events, often none.
    pub(super) fn notification(
        &mut self,
        told: &Notification,
        line: &ServerLine,
    ) -> Vec<AgentWrapperEvent> {
        let mut events = Vec::new();
        match told {
            Notification::TurnStarted(_) => events.push(self.status("a turn begins")),
            Notification::TurnCompleted(note) => self.verdict.note_turn(of_turn(&note.turn)),
            Notification::ItemStarted(note) => self.item_started(&note.item, line, &mut events),
            Notification::ItemCompleted(note) => self.item_completed(&note.item, line, &mut events),
            Notification::AgentMessageDelta(delta) => {
                self.open_message(&delta.item_id);
                let unseen = self.said.delta(BLOCK, &delta.delta);
                say(&self.kind, unseen, &mut events);
            }
            // A failure that is not retried comes with the end of the turn.
            Notification::Error(note) if note.will_retry => {
                events.push(self.status("a request failed and is tried again"));
            }
            Notification::Unknown { .. } => events.push(self.unknown()),
            // The rest comes whole later, or is not needed by a reader.
            Notification::Error(_)
            | Notification::ThreadStarted(_)
            | Notification::ThreadStatusChanged(_)
            | Notification::ThreadSettingsUpdated(_)
            | Notification::TokenUsageUpdated(_)
            | Notification::ReasoningDelta(_)
            | Notification::PlanDelta(_)
            | Notification::OutputDelta(_)
            | Notification::TerminalInteraction(_)
            | Notification::RequestResolved(_)
            | Notification::Notice(_)
            | Notification::McpServerStatus(_)
            | Notification::Hook { .. }
            | Notification::ApprovalReview { .. }
            | Notification::Untyped { .. } => {}
        }
        events
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

    fn item_started(
        &mut self,
        item: &Item,
        line: &ServerLine,
        events: &mut Vec<AgentWrapperEvent>,
    ) {
        if let Some(call) = self.tools.started(&self.kind, item, line) {
            self.goes_on();
            events.push(call);
            return;
        }
        match &item.body {
            ItemBody::AgentMessage(_) => {
                // An earlier message of the same id that was never completed has broken off.
                self.close_message();
                self.open_message(&item.id);
            }
            ItemBody::Reasoning(_) => events.push(self.status("thinking")),
            ItemBody::ContextCompaction => {
                events.push(self.status("summarising the conversation"));
            }
            ItemBody::Unknown { .. } => events.push(self.unknown()),
            // Calls were handled above; a reader does not need the rest.
            _ => {}
        }
    }

    fn item_completed(
        &mut self,
        item: &Item,
        line: &ServerLine,
        events: &mut Vec<AgentWrapperEvent>,
    ) {
        match &item.body {
            ItemBody::AgentMessage(message) => {
                self.open_message(&item.id);
                let id = self.message.as_ref().map(|open| open.id.as_str());
                let unseen = self.said.whole(id, &message.text);
                say(&self.kind, unseen, events);
                self.close_message();
            }
            ItemBody::ContextCompaction => {
                events.push(self.status("the conversation was summarised"));
            }
            ItemBody::Plan(_) => events.push(self.status("a plan was made")),
            // A call has a result; the other items were reported when they began.
            _ => events.extend(self.tools.completed(&self.kind, item, line)),
        }
    }

    /// Begins a message, unless it is already the current one.
    fn open_message(&mut self, item_id: &str) {
        if self.message.as_ref().is_some_and(|open| open.item_id == item_id) {
            return;
        }
        self.close_message();
        self.messages += 1;
        let id = self.messages.to_string();
        self.said.message_starts(Some(&id));
        self.said.block_starts(BLOCK);
        self.message = Some(OpenMessage { item_id: item_id.to_owned(), id });
    }

    /// Ends the current message, completed or not.
    fn close_message(&mut self) {
        if self.message.take().is_some() {
            self.said.message_stops();
        }
    }

    /// Records that the turn continues with something other than an answer, so no answer will be
    /// repeated.
    fn goes_on(&mut self) {
        self.close_message();
        self.said.goes_on();
    }

    fn status(&self, message: &str) -> AgentWrapperEvent {
        AgentWrapperEvent::status(&self.kind, message)
    }

    fn unknown(&self) -> AgentWrapperEvent {
        AgentWrapperEvent::bare(&self.kind, AgentWrapperEventKind::Unknown)
    }
}

fn say(kind: &AgentWrapperKind, unseen: Unseen<'_>, events: &mut Vec<AgentWrapperEvent>) {
    if unseen.begins_again {
        events.push(AgentWrapperEvent::status(kind, "an answer broke off and begins again"));
    }
    if !unseen.text.is_empty() {
        events.push(AgentWrapperEvent::text(kind, unseen.text));
    }
}

#[cfg(test)]
mod tests;

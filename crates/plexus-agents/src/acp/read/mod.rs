//! What the lines of an agent mean. Pure: the same lines and memory give the same steps, so reading
//! can resume anywhere.
//!
//! - this file: the kinds of line, and what is refused;
//! - [`handshake`]: the answers to our own requests;
//! - [`speech`]: what the model says and thinks;
//! - [`calls`]: calls of tools, and whether they were asked for;
//! - [`questions`]: requests for permission;
//! - [`modes`]: what the agent may do without a question.

mod calls;
mod handshake;
mod modes;
mod questions;
mod speech;
#[cfg(test)]
mod tests;

use acp_lines::event::update::UsageUpdate;
use acp_lines::{
    AcpParser, AgentBody, AgentLine, AgentRequest, Notification, RequestId, SessionUpdate,
};
use agent_lines::journal::LineContent;
use agent_lines::json::RawJson;
use plexus_engine::driver::Step;
use plexus_engine::driver::step::Hidden;
use plexus_store::JsonText;
use plexus_wire::ChatEvent;
use serde_json::Value;

use super::memory::{AcpMemory, Handshake};
use super::profile::Profile;
use super::write;

/// The tool name under which a form for the user is asked.
pub(super) const FORM: &str = "elicitation";

/// The request that carries a form.
const FORM_METHOD: &str = "elicitation/create";

/// A smaller difference between amounts of money is rounding.
const ROUNDING_USD: f64 = 1e-9;

/// Reads one line.
pub(super) fn line(profile: &Profile, memory: &mut AcpMemory, line: &LineContent) -> Vec<Step> {
    let mut reading = Reading { profile, memory, steps: Vec::new() };
    match line.parse(&mut AcpParser::new()) {
        Ok(None) => {}
        Ok(Some(line)) => {
            reading.line(&line);
            reading.note_conversation();
        }
        Err(error) => reading.steps.push(unreadable(line, error.to_string())),
    }
    reading.steps
}

/// Handles a line that cannot be read. A line that is no JSON cannot hold a question; any other
/// might.
fn unreadable(line: &LineContent, why: String) -> Step {
    let bytes = match line {
        LineContent::Whole(bytes) => bytes,
        LineContent::TooLong { head, .. } => head,
    };
    match bytes.trim_ascii_start().first() {
        Some(b'{' | b'[') => Step::Unreadable { why, hides: Hidden::Anything },
        _ => Step::Event(ChatEvent::notice("the agent wrote a line that is not of its protocol")),
    }
}

/// One line that is being read, and the steps that follow from it so far.
struct Reading<'a> {
    profile: &'a Profile,
    memory: &'a mut AcpMemory,
    steps: Vec<Step>,
}

impl Reading<'_> {
    fn line(&mut self, line: &AgentLine) {
        match &line.body {
            AgentBody::Request { id, request } => self.request(line, id, request),
            AgentBody::Notification(told) => self.told(line, told),
            AgentBody::Answer(answer) => self.answer(answer),
            AgentBody::Complaint(error) => {
                self.steps.push(Step::OwnRequestFailed(error.message.to_string()));
            }
        }
    }

    /// Reports the conversation once the agent has answered a prompt in it. Most agents keep a
    /// session only from its first turn on: one that was killed before could never go on with it.
    fn note_conversation(&mut self) {
        let memory = &mut *self.memory;
        let has_answered = memory.speech.is_some()
            || !memory.calls.is_empty()
            || !memory.questions.is_empty()
            || memory.turn.as_ref().is_some_and(|turn| turn.outcome.is_some());
        if memory.is_noted || memory.handshake != Handshake::Done || !has_answered {
            return;
        }
        if let Some(session) = memory.session.clone() {
            memory.is_noted = true;
            // Before the end of the turn, if this line is that.
            self.steps.insert(0, Step::Conversation(session));
        }
    }

    fn request(&mut self, line: &AgentLine, id: &RequestId, request: &AgentRequest) {
        match request {
            AgentRequest::Permission(_) if !self.is_ours(line) => {
                self.refuse(id, "a question about a session that is not this one");
            }
            AgentRequest::Permission(asked) => self.asked(id, asked),
            // OpenCode asks to write a file after each change, though nobody offered it, and has
            // already written the file itself.
            AgentRequest::FileSystem { method, .. } => {
                let why = format!("{method} is not served here");
                self.steps.push(Step::Send(vec![write::refusal(id, &why)]));
            }
            AgentRequest::Unknown { method, params }
                if self.profile.forms && method.as_str() == FORM_METHOD && self.is_ours(line) =>
            {
                self.form(id, params);
            }
            AgentRequest::Terminal { method, .. } | AgentRequest::Unknown { method, .. } => {
                self.refuse(id, &format!("{}, which is not served here", method.as_str()));
            }
        }
    }

    /// Refuses a request that nobody is asked about.
    fn refuse(&mut self, id: &RequestId, what: &str) {
        self.flush();
        self.steps.push(Step::Refused {
            request_id: None,
            notice: format!("the agent asked for {what}; it was refused"),
            reply: write::refusal(id, "refused by the supervisor"),
        });
    }

    fn told(&mut self, line: &AgentLine, told: &Notification) {
        match told {
            Notification::Update(_) if !self.is_ours(line) => {}
            Notification::Update(update) => self.update(line, update),
            Notification::CancelRequest(withdrawn) => {
                if let Some(id) = &withdrawn.request_id {
                    self.withdrawn(id);
                }
            }
            Notification::Extension { .. } => {}
            Notification::Unknown { method, .. } => self.passthrough(line, method.as_str()),
        }
    }

    fn update(&mut self, line: &AgentLine, update: &SessionUpdate) {
        // Modes and costs count from the first line on, also during the handshake.
        match update {
            SessionUpdate::CurrentMode(mode) => return self.mode_told(&mode.current_mode_id),
            SessionUpdate::ConfigOptions(options) => return self.options_told(options),
            SessionUpdate::Usage(usage) => return self.cost(usage),
            _ => {}
        }
        if self.memory.handshake != Handshake::Done {
            // Updates before the agent is ready replay the history of its session.
            return;
        }
        if let Some(turn) = &mut self.memory.turn {
            turn.is_heard = true;
        }
        match update {
            SessionUpdate::AgentMessageChunk(chunk) if chunk.content.text.is_none() => {
                self.passthrough(line, "content");
            }
            SessionUpdate::AgentMessageChunk(chunk) => self.said(chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.thought(chunk),
            SessionUpdate::ToolCall(call) => self.call_begins(call),
            SessionUpdate::ToolCallUpdate(call) => self.call_goes_on(call),
            SessionUpdate::Plan(_) => self.passthrough(line, "plan"),
            SessionUpdate::Notice(_) => self.passthrough(line, "notice"),
            SessionUpdate::Compaction(_) => self.passthrough(line, "compaction"),
            SessionUpdate::Unknown { kind, .. } => self.passthrough(line, kind.as_str()),
            // Display state, and the prompt, which is in the chat already.
            SessionUpdate::UserMessageChunk(_)
            | SessionUpdate::AvailableCommands(_)
            | SessionUpdate::SessionInfo(_)
            | SessionUpdate::CurrentMode(_)
            | SessionUpdate::ConfigOptions(_)
            | SessionUpdate::Usage(_) => {}
        }
    }

    /// Notes the conversation's cost. The agent's total runs through the conversation, or at worst
    /// restarts with its process.
    fn cost(&mut self, usage: &UsageUpdate) {
        let Some(cost) = usage.cost.as_ref().filter(|cost| cost.currency == "USD") else { return };
        if !self.profile.cost {
            return;
        }
        if cost.amount < self.memory.cost_total - ROUNDING_USD {
            self.memory.cost_before = 0.0;
        }
        self.memory.cost_total = cost.amount;
    }

    /// Whether a line is about the session of this run, or about none.
    fn is_ours(&self, line: &AgentLine) -> bool {
        match (&line.session_id, &self.memory.session) {
            (Some(told), Some(ours)) => told.as_str() == ours,
            // The session's id is known once it is open; no question comes earlier.
            _ => true,
        }
    }

    /// Keeps a line that has no translation, unchanged.
    fn passthrough(&mut self, line: &AgentLine, event_type: &str) {
        self.flush();
        let data = as_json(line.raw_json()).into();
        let event_type = format!("acp/{event_type}");
        self.steps.push(Step::Event(ChatEvent::Passthrough { event_type, data }));
    }
}

/// Keeps JSON of the agent as it was written. Text that our parser refuses is kept as a string.
fn as_json(raw: &RawJson) -> JsonText {
    JsonText::parse(raw.get()).unwrap_or_else(|_| JsonText::from(Value::from(raw.get())))
}

//! Rows of a transcript as the real CLI writes them: calls of tools and their results, by which a
//! supervisor sees whether a process that asks may end, and the row by which it has the next
//! process ask again.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::ask::ToolCall;
use crate::script::Manners;
use crate::sim::Sim;
use crate::wire::{VERSION, line_id, now, raw};

/// What the CLI calls the attachment of a call that was put off.
const DEFERRED: &str = "hook_deferred_tool";

/// A message of the model that calls tools.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallsRow {
    message: CallsMessage,
    is_sidechain: bool,
    uuid: Uuid,
    timestamp: String,
    cwd: String,
    session_id: String,
    version: String,
    /// How many steps of the script follow. The real CLI has a model that knows how to go on.
    sim_steps_left: usize,
}

#[derive(Serialize, Deserialize)]
struct CallsMessage {
    id: String,
    role: String,
    content: Vec<CallBlock>,
}

#[derive(Serialize, Deserialize)]
struct CallBlock {
    r#type: String,
    id: String,
    name: String,
    input: Value,
}

/// The results of calls.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResultsRow {
    message: ResultsMessage,
    is_sidechain: bool,
    uuid: Uuid,
    timestamp: String,
}

#[derive(Serialize, Deserialize)]
struct ResultsMessage {
    role: String,
    content: Value,
}

/// A row that a supervisor appends, among others.
#[derive(Serialize, Deserialize)]
pub(crate) struct AttachmentRow {
    attachment: Value,
}

/// A call that the next process of the conversation asks about before anything else.
#[derive(Debug, Clone)]
pub(crate) struct ParkedCall {
    pub(crate) call: OpenCall,
    /// How many steps of the script follow it.
    pub(crate) steps_left: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct OpenCall {
    id: String,
    name: String,
    input: Value,
}

impl OpenCall {
    pub(crate) fn to_tool_call(&self) -> ToolCall {
        ToolCall {
            id: self.id.clone(),
            name: self.name.clone(),
            raw_input: raw(&self.input),
            input: self.input.clone(),
            manners: Manners::Good,
            early_answer: None,
        }
    }
}

/// Finds the call that was put off, row by row.
#[derive(Debug, Default)]
pub(crate) struct Deferral {
    /// The calls of the last message that have no result, and how many steps follow.
    open: Vec<String>,
    steps_left: usize,
    deferred: Option<OpenCall>,
}

impl Deferral {
    pub(crate) fn called(&mut self, row: &CallsRow) {
        self.open = row.message.content.iter().map(|call| call.id.clone()).collect();
        self.steps_left = row.sim_steps_left;
        self.deferred = None;
    }

    pub(crate) fn had_results(&mut self, row: &ResultsRow) {
        let blocks = row.message.content.as_array().map(Vec::as_slice).unwrap_or_default();
        let ids: Vec<&str> = blocks.iter().filter_map(|it| it["tool_use_id"].as_str()).collect();
        self.open.retain(|open| !ids.contains(&open.as_str()));
    }

    pub(crate) fn attached(&mut self, row: &AttachmentRow) {
        let it = &row.attachment;
        let text = |name: &str| it[name].as_str().map(str::to_owned);
        if it["type"] == DEFERRED
            && let (Some(id), Some(name)) = (text("toolUseID"), text("toolName"))
        {
            self.deferred = Some(OpenCall { id, name, input: it["toolInput"].clone() });
        }
    }

    pub(crate) fn prompted(&mut self) {
        *self = Self::default();
    }

    /// The call, if nothing has been said since and it has no result.
    pub(crate) fn found(self) -> Option<ParkedCall> {
        let call = self.deferred.filter(|call| self.open.contains(&call.id))?;
        Some(ParkedCall { call, steps_left: self.steps_left })
    }
}

impl Sim {
    /// Notes the calls of a message that is whole. Of a turn that several prompts made, no script
    /// tells what would follow: nothing is noted, and nobody can put its calls off.
    pub(crate) fn note_calls(&self, message: &str, calls: &[ToolCall], steps_left: usize) {
        if self.turn.borrow().prompts.len() > 1 {
            return;
        }
        let block = |call: &ToolCall| CallBlock {
            r#type: "tool_use".to_owned(),
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
        };
        let content = calls.iter().map(block).collect();
        let role = "assistant".to_owned();
        self.note_row(crate::transcript::Line::Assistant(CallsRow {
            message: CallsMessage { id: message.to_owned(), role, content },
            is_sidechain: false,
            uuid: line_id(),
            timestamp: now(),
            cwd: self.cwd.to_string_lossy().into_owned(),
            session_id: self.session_id.clone(),
            version: VERSION.to_owned(),
            sim_steps_left: steps_left,
        }));
    }

    /// Notes the result of a call.
    pub(crate) fn note_result(&self, content: &Value) {
        self.note_row(crate::transcript::Line::User(ResultsRow {
            message: ResultsMessage { role: "user".to_owned(), content: content.clone() },
            is_sidechain: false,
            uuid: line_id(),
            timestamp: now(),
        }));
    }
}

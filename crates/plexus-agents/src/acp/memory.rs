//! The state that a run keeps from earlier lines.

use std::collections::BTreeMap;

use acp_lines::{RequestId, ToolKind};
use plexus_engine::driver::{Memory, Report, TurnReport};
use plexus_wire::{Json, Usage};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::codex::Price;

/// How many calls are remembered without a reported end. Some agents never report the end of a
/// denied call; the oldest of these are forgotten.
const MAX_CALLS: usize = 1_024;

/// The state that a run keeps from earlier lines.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AcpMemory {
    /// How far the handshake has come.
    pub(super) handshake: Handshake,
    /// The agent's id of its session.
    pub(super) session: Option<String>,
    /// Whether the session's id was reported as that of the conversation.
    #[serde(default)]
    pub(super) is_noted: bool,
    /// The model that is to be set once the session is open.
    pub(super) model: Option<String>,
    /// The mode in which the session is.
    pub(super) mode: Option<String>,
    /// Counts questions and calls: agents reuse their ids.
    pub(super) count: u64,
    /// Questions that the agent may still wait for.
    pub(super) questions: BTreeMap<String, Question>,
    /// Calls whose end was not reported.
    pub(super) calls: BTreeMap<String, Call>,
    /// A text that is still being streamed.
    pub(super) speech: Option<Speech>,
    /// The turn that runs, if one does.
    pub(super) turn: Option<Turn>,
    /// What its tokens cost, where the agent does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) price: Option<Price>,
    /// What the conversation had cost when the turn began.
    pub(super) cost_before: f64,
    /// What the conversation has cost.
    pub(super) cost_total: f64,
}

/// How far the handshake has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Handshake {
    /// Nothing was answered.
    #[default]
    Begun,
    /// The agent has said who it is.
    Greeted,
    /// The session is open, and its model is being set.
    SetsModel,
    /// The session is open, and its history is being replayed.
    Replays,
    /// The agent can take a prompt.
    Done,
    /// It failed: the process is of no use.
    Failed,
}

/// A question that the agent asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// The agent's own id of it.
    pub(super) id: RequestId,
    /// The call that it is about.
    pub(super) call: String,
    /// The option that allows it once.
    pub(super) allow: String,
    /// The option that rejects it once.
    pub(super) reject: Option<String>,
    /// Whether it is a form for the user, which has no options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_form: bool,
    /// The question to ask once the input is complete; `None` when it was asked.
    pub(super) held: Option<HeldBack>,
}

/// A question whose input is not complete yet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct HeldBack {
    /// The part of the input that the request itself has.
    pub(super) input: Option<Json>,
    /// Its title.
    pub(super) title: Option<String>,
}

/// A call of a tool.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Call {
    /// When it came, among all calls and questions.
    pub(super) number: u64,
    /// The tool, once its name is known.
    pub(super) tool: Option<String>,
    /// What kind of thing it does, in the agent's word.
    pub(super) kind: Option<ToolKind>,
    /// The last input that was reported.
    pub(super) input: Option<Json>,
    /// Whether the agent has reported the call as in progress; its input is complete by then.
    pub(super) in_progress: bool,
    /// Whether the chat has an event for it.
    pub(super) is_told: bool,
    /// The newest question about it.
    pub(super) question: Option<String>,
}

/// A text of the model that is still being streamed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Speech {
    /// Whether it is said or thought.
    pub(super) voice: Voice,
    /// The agent's id of the message.
    pub(super) message: Option<String>,
    /// What was said so far.
    pub(super) text: String,
}

/// Whether a text is said or thought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Voice {
    /// It is for the reader.
    Said,
    /// It is for the model itself.
    Thought,
}

/// A turn: one prompt, or what the agent does by itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The prompt, which is also the id of the request.
    pub(super) prompt: Option<Uuid>,
    /// Whether the agent has said anything after it received the prompt.
    pub(super) is_heard: bool,
    /// How it ended, once it has.
    pub(super) outcome: Option<Result<(), String>>,
    /// What it has used, without cost.
    pub(super) usage: Usage,
}

impl AcpMemory {
    /// Returns a number that no earlier call or question had.
    pub(super) fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Drops the oldest calls until their number is within its bound.
    pub(super) fn forget_old_calls(&mut self) {
        while self.calls.len() > MAX_CALLS {
            let oldest = self.calls.iter().min_by_key(|(_, call)| call.number);
            let Some(id) = oldest.map(|(id, _)| id.clone()) else { return };
            self.calls.remove(&id);
        }
    }
}

impl Memory for AcpMemory {
    fn begin_turn(&mut self, prompt: Option<Uuid>) {
        self.turn = Some(Turn { prompt, ..Turn::default() });
    }

    fn steered(&mut self, _message: Uuid) {}

    fn end_turn(&mut self) {
        self.cost_before = self.cost_total;
        self.turn = None;
        self.speech = None;
        // A call may end after its turn, so whether it was asked about is kept.
        self.calls.retain(|_, call| call.question.is_some());
        for call in self.calls.values_mut() {
            call.input = None;
        }
    }

    fn report(&self) -> Report {
        let cost_usd = (self.cost_total - self.cost_before).max(0.0);
        Report {
            turn: self.turn.as_ref().map(|turn| TurnReport {
                heard_of_prompt: turn.is_heard,
                outcome: turn.outcome.clone(),
                usage: Usage { cost_usd, ..turn.usage },
                last_message: None,
            }),
            works_in_background: false,
            conversation_cost_usd: self.cost_total,
            spent: self.handshake == Handshake::Failed,
            is_beginning: !matches!(self.handshake, Handshake::Done | Handshake::Failed),
        }
    }

    fn unfinished(&self) -> Option<&str> {
        let said = self.speech.as_ref().filter(|speech| speech.voice == Voice::Said);
        said.map(|speech| speech.text.as_str())
    }

    fn holds_back(&self) -> bool {
        self.questions.values().any(|question| question.held.is_some())
    }
}

//! The state that a run of `codex app-server` keeps from earlier lines.

use std::collections::BTreeMap;

use codex_app::RequestId;
use plexus_engine::driver::{Memory, Report, TurnReport};
use plexus_wire::Usage;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The state that a run keeps from earlier lines.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CodexMemory {
    /// What the agent was told to ask about.
    pub(super) mode: Mode,
    /// Why no prompt may be sent, once a line has shown it.
    pub(super) refusal: Option<String>,
    /// The thread, once the agent has opened it.
    pub(super) thread: Option<String>,
    /// Whether the thread is on disk, so that a later process can resume it.
    pub(super) durable: bool,
    /// The model that is used.
    pub(super) model: Option<String>,
    /// The turn that runs, if one does.
    pub(super) turn: Option<Turn>,
    /// The turn that was over last.
    pub(super) last_turn: Option<String>,
    /// Calls that were announced or asked about and are not over, by [`CodexMemory::key`].
    pub(super) calls: BTreeMap<String, Call>,
    /// Questions that the agent waits for, by the text of their ids.
    pub(super) questions: BTreeMap<String, Question>,
    /// The thread's usage as it was reported last; `None` while that is not known.
    pub(super) tokens: Option<Tokens>,
    /// What the conversation has cost, also in earlier processes.
    pub(super) cost_usd: f64,
    /// Whether the process must not serve another turn.
    pub(super) spent: bool,
}

/// What the agent was told to ask about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Everything.
    #[default]
    Strict,
    /// Everything that its own sandbox blocks.
    Sandboxed,
    /// Nothing: a call that its sandbox blocks fails.
    Silent,
    /// Everything that the wall around it blocks; its own sandbox is off.
    Walled,
    /// Nothing: a call that the wall around it blocks fails.
    SilentlyWalled,
}

/// A turn: one prompt, or what the agent does by itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The prompt by its uuid; `None` for a turn that the agent started itself.
    pub(super) prompt: Option<Uuid>,
    /// The agent's id of the turn, once it has one.
    pub(super) id: Option<String>,
    /// Whether the agent has repeated our prompt, which shows that the prompt is on disk.
    pub(super) heard: bool,
    /// Messages that were added to the turn and that the agent has not repeated, with the turn that
    /// took them.
    pub(super) steers: BTreeMap<Uuid, Option<String>>,
    /// How it ended: `Err` with what went wrong.
    pub(super) outcome: Option<Result<(), String>>,
    /// Whether its end waits for the end of commands that it left running.
    pub(super) cleaning: bool,
    /// What it has used.
    pub(super) usage: Usage,
}

/// A call that was announced, or asked about.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Call {
    /// The turn.
    pub(super) turn: Option<String>,
    /// The kind of the call.
    pub(super) what: Called,
    /// The question about it, once it was asked.
    pub(super) question: Option<String>,
    /// The question about input typed into it.
    pub(super) typing: Option<String>,
    /// Whether another open call has the same id, so that an answer to one may run the other.
    pub(super) ambiguous: bool,
}

/// The kind of a call. The input is kept only where the question does not repeat it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Called {
    /// A command.
    Command,
    /// A command that was asked about and not announced: its item follows once it runs.
    Unannounced,
    /// A patch, with its changes as JSON until the question about it takes them.
    Patch(Option<String>),
    /// A tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Its arguments as JSON.
        arguments: String,
    },
}

/// A question that the agent waits for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// Its id as the agent wrote it.
    pub(super) id: RequestId,
    /// Which form of answer it takes.
    pub(super) form: Form,
    /// The thread.
    pub(super) thread: String,
    /// The turn.
    pub(super) turn: Option<String>,
    /// The call, by [`CodexMemory::key`].
    pub(super) call: Option<String>,
    /// Tells questions about the same call apart.
    pub(super) approval: Option<String>,
}

/// Which form of answer a question takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    /// A decision about a command, about input typed into it, or about a patch.
    Decision,
    /// Permissions for the turn.
    Permissions,
    /// Whether a tool of an MCP server may run.
    McpTool,
    /// A question of an MCP server itself.
    McpQuestion,
    /// A question of the model.
    UserInput,
}

/// Numbers of tokens since a thread began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// Read by the model.
    pub(super) input: u64,
    /// Of those, read from the cache.
    pub(super) cached: u64,
    /// Written by the model.
    pub(super) output: u64,
}

impl CodexMemory {
    /// Returns the name under which a call is kept. It tells calls of other threads apart, which
    /// only subagents have.
    pub(super) fn key(&self, thread: Option<&str>, item: &str) -> String {
        match thread {
            Some(thread) if self.thread.as_deref() != Some(thread) => format!("{thread}/{item}"),
            _ => item.to_owned(),
        }
    }

    /// Ends the open turn because the agent cannot take its prompt.
    pub(super) fn fail(&mut self, why: String) {
        if let Some(turn) = &mut self.turn {
            turn.outcome.get_or_insert(Err(why));
        }
    }
}

impl Memory for CodexMemory {
    fn begin_turn(&mut self, prompt: Option<Uuid>) {
        self.turn = Some(Turn { prompt, ..Turn::default() });
    }

    fn steered(&mut self, message: Uuid) {
        if let Some(turn) = &mut self.turn {
            turn.steers.insert(message, None);
        }
    }

    fn end_turn(&mut self) {
        self.turn = None;
    }

    fn report(&self) -> Report {
        Report {
            turn: self.turn.as_ref().map(|turn| TurnReport {
                heard_of_prompt: turn.heard,
                outcome: turn.outcome.clone(),
                usage: turn.usage,
                last_message: self.last_turn.as_ref().and_then(|id| Uuid::try_parse(id).ok()),
            }),
            works_in_background: false,
            conversation_cost_usd: self.cost_usd,
            spent: self.spent,
            is_beginning: self.thread.is_none(),
        }
    }
}

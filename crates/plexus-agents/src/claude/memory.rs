//! The state that a run of the CLI keeps from earlier lines.

use std::collections::{BTreeMap, BTreeSet};

use plexus_engine::driver::{Memory, Report, TurnReport};
use plexus_wire::Usage;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The state that a run keeps from earlier lines.
///
/// Its field names are a stored format: runs that an older version of the server began are
/// continued.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ClaudeMemory {
    /// The turn that runs, if one does.
    #[serde(rename = "chat")]
    pub(super) turn: Option<Turn>,
    /// Background tasks that the last `background_tasks_changed` named.
    pub(super) background_tasks: usize,
    /// What the conversation had cost when the turn began. The CLI's total covers all turns, also
    /// of earlier processes.
    pub(super) cost_before: f64,
    /// What the conversation has cost.
    pub(super) cost_total: f64,
    /// What each subagent that runs does, by the CLI's id of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) subagents: BTreeMap<String, String>,
    /// How many turns may still begin without a prompt of ours that they name: one for each
    /// background task that has ended, whose result the CLI tells the model in a turn of its own,
    /// one for a woken call, and one for a prompt that was an argument.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) turns_without_prompt: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A turn of the CLI: one prompt, or what it does by itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The prompt by its uuid; `None` for a turn that the CLI started itself.
    pub(super) prompt: Option<Uuid>,
    /// How far the CLI is with our prompt.
    pub(super) progress: PromptProgress,
    /// Messages that were added to the turn and that the CLI has not finished. The turn is not over
    /// before it has.
    pub(super) outstanding: BTreeSet<Uuid>,
    /// The last result of this turn.
    pub(super) result: Option<TurnResult>,
    /// The CLI's own id of the last thing it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_message: Option<Uuid>,
    /// What its results have used so far, without cost.
    pub(super) usage: Usage,
    /// Whether the CLI has begun with the prompt; until then it is only queued.
    #[serde(default)]
    pub(super) started: bool,
    /// Whether a background task has ended in this turn. The CLI tells the model of it as soon as
    /// it can, and no line says when that was.
    #[serde(default)]
    pub(super) task_ended: bool,
}

/// How far the CLI is with a prompt, as its `command_lifecycle` lines say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PromptProgress {
    /// Nothing was heard of it.
    Unseen,
    /// It has been taken.
    Taken,
    /// It is done, or was cancelled.
    Done,
}

/// How a turn ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct TurnResult {
    /// What went wrong, in the CLI's words; `None` when nothing did.
    pub(super) failure: Option<String>,
}

impl Memory for ClaudeMemory {
    fn begin_turn(&mut self, prompt: Option<Uuid>) {
        self.turn = Some(Turn {
            prompt,
            progress: PromptProgress::Unseen,
            outstanding: BTreeSet::new(),
            result: None,
            last_message: None,
            usage: Usage::default(),
            started: false,
            task_ended: false,
        });
    }

    fn steered(&mut self, message: Uuid) {
        if let Some(turn) = &mut self.turn {
            turn.outstanding.insert(message);
        }
    }

    fn end_turn(&mut self) {
        self.cost_before = self.cost_total;
        self.turn = None;
    }

    fn report(&self) -> Report {
        let cost_usd = (self.cost_total - self.cost_before).max(0.0);
        Report {
            turn: self.turn.as_ref().map(|turn| TurnReport {
                heard_of_prompt: turn.progress != PromptProgress::Unseen,
                outcome: turn.result.as_ref().map(|result| match &result.failure {
                    Some(failure) => Err(failure.clone()),
                    None => Ok(()),
                }),
                usage: Usage { cost_usd, ..turn.usage },
                last_message: turn.last_message,
            }),
            works_in_background: self.background_tasks > 0,
            conversation_cost_usd: self.cost_total,
            spent: false,
            is_beginning: false,
        }
    }
}

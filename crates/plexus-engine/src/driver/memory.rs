//! What a driver must know of earlier lines of a run.

use std::fmt::Debug;

use plexus_wire::Usage;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// What a driver must know of earlier lines. It is stored in the same transaction as the events of
/// those lines, so that reading can resume at any point with the same result.
///
/// It holds what the agent said, and nothing of what the engine wants from the run.
pub trait Memory:
    Clone + PartialEq + Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// A turn begins: with this prompt, or without one because the agent goes on by itself.
    fn begin_turn(&mut self, prompt: Option<Uuid>);

    /// A message was put into the running turn. The turn lasts until the agent has dealt with it.
    fn steered(&mut self, message: Uuid);

    /// The turn is over, and the next may begin.
    fn end_turn(&mut self);

    /// What is known by now.
    fn report(&self) -> Report;

    /// What the agent has begun to say and is no event yet. It becomes one when the turn ends
    /// without the rest.
    fn unfinished(&self) -> Option<&str> {
        None
    }

    /// Whether the agent asks about a call whose input it has not told whole. It has a limited time
    /// for that.
    fn holds_back(&self) -> bool {
        false
    }
}

/// What a driver knows of a run by now.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The turn that runs, if one does.
    pub turn: Option<TurnReport>,
    /// Whether work goes on in the background, which neither an interrupt nor the end of stdin
    /// ends.
    pub works_in_background: bool,
    /// What the conversation has cost, also in earlier processes.
    pub conversation_cost_usd: f64,
    /// Whether the process can serve no further turn, so that it has to go after this one.
    pub spent: bool,
    /// Whether the agent has not said yet that it can take a prompt. It has a limited time for
    /// that.
    pub is_beginning: bool,
}

/// What a driver knows of a turn that runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TurnReport {
    /// Whether the agent has said anything of our prompt.
    pub heard_of_prompt: bool,
    /// How it ended: `Err` with what went wrong. `None` while the agent has not said it.
    pub outcome: Option<Result<(), String>>,
    /// What it has used.
    pub usage: Usage,
    /// The agent's own id of the last thing it said.
    pub last_message: Option<Uuid>,
}

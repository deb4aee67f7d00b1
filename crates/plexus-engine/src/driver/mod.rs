//! What is particular to one kind of agent, behind one trait.
//!
//! Every answer of a [`Driver`] is pure: the engine starts the process, reads its journal, writes
//! its stdin and stores what came of it. A driver only says what to start, what a line means, and
//! which lines say what we want to say.
//!
//! In reading order:
//! - this file: the trait, and what an agent can do;
//! - [`launch`]: what a process is started with;
//! - [`step`]: what a line means to us;
//! - [`say`]: what we tell an agent;
//! - [`memory`]: what a driver must know of earlier lines;
//! - [`park`]: ending a process that waits, and asking again later;
//! - [`mind`]: a driver together with its memory, whichever driver it is.

pub mod launch;
pub mod memory;
pub mod mind;
pub mod park;
pub mod say;
pub mod step;
#[cfg(test)]
pub(crate) mod testing;

use std::path::{Path, PathBuf};

use agent_lines::VersionError;
use agent_lines::journal::LineContent;
use plexus_wire::{AgentPowers, Answers, CostPower, Question, ToolCall};
use serde_json::Value;

use crate::session::SessionConfig;

use crate::wall::WallNeeds;

pub use launch::{
    AgentHome, Channel, Conversation, FirstPrompt, HomeContent, HomeFile, Launch, LaunchError,
    McpDoor, Plan, PlanFile, Stdin,
};
pub use memory::{Memory, Report, TurnReport};
pub use mind::{AnyDriver, Mind};
pub use park::{ChildEnv, NotParkable, TranscriptPlace, WaitingCall, WakeMark, WokenCall};
pub use say::{OutLine, Say};
pub use step::{AcceptedBy, Ask, Step, TakenAnswer};

/// One kind of agent.
pub trait Driver: Send + Sync + 'static {
    /// What this driver must know of earlier lines.
    type Memory: Memory;

    /// The name of the kind, as it is stored and shown.
    fn kind(&self) -> &'static str;

    /// What this kind of agent can do.
    fn powers(&self) -> AgentPowers;

    /// Says what to do so that the cost of this model in dollars is known; `None` where it is. A
    /// budget in dollars starts no agent whose cost it would not see.
    fn unpriced(&self, _model: Option<&str>) -> Option<String> {
        let is_known = self.powers().cost == CostPower::Usd;
        (!is_known).then(|| "limit tokens, turns or time instead of dollars".to_owned())
    }

    /// The arguments that make an agent whom somebody else starts ask us over MCP, with `FILE` for
    /// the path of its MCP configuration; `None` when it cannot.
    fn permit_flags(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Whether the agent runs a prompt only once when it is sent twice under the same id. If so, a
    /// restarted server sends a prompt again that the agent has not echoed; if not, never.
    fn prompts_repeat(&self) -> bool {
        false
    }

    /// Whether a process can be started before it has a prompt, and then takes its first one as it
    /// takes later ones. It must neither begin a turn nor keep a conversation that a later process
    /// would resume until it has the prompt.
    fn prestarts(&self) -> bool {
        false
    }

    /// The files of a project, relative to it, that the agent reads when its process starts. A
    /// process that was started before one of them changed is not used.
    fn read_at_start(&self) -> Vec<&'static str> {
        let files = self.project_files();
        files.instructions.iter().chain(files.settings).copied().collect()
    }

    /// Whether an allow of this tool may carry another input than the one that was asked about.
    /// Answers to a question of the agent are sent that way, so this is true for such a tool even
    /// when the agent has not the power `edit_input`.
    fn takes_edit(&self, _tool_name: &str) -> bool {
        self.powers().edit_input
    }

    /// Judges what the program printed when it was asked for its version.
    ///
    /// # Errors
    /// Says why the program cannot be used, and what to do about it.
    fn identify(
        &self,
        program: &Path,
        version: VersionAnswer,
    ) -> Result<Identified, UnusableProgram>;

    /// Returns the memory of a run that has said nothing yet.
    fn begin(&self, begin: &Begin<'_>) -> Self::Memory;

    /// Paths that the working directory of a session may not have, because the agent would run what
    /// lies there without a question.
    fn must_be_absent(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The files of a project that the agent knows, relative to the project.
    fn project_files(&self) -> ProjectFiles {
        ProjectFiles::default()
    }

    /// Says what to start.
    ///
    /// # Errors
    /// When what is asked for cannot be started, with the reason.
    fn launch(&self, launch: &Launch<'_>) -> Result<Plan, LaunchError>;

    /// Says what a call of one of the agent's tools would act on. If the target does not tell
    /// everything, the call carries a doubt, and no rule allows it by its target alone.
    fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall;

    /// What a wall around this agent must know of it; `None` when it cannot be confined.
    fn wall(&self) -> Option<WallNeeds> {
        None
    }

    /// Reads a question of the agent to its user in one form for every agent; `None` for every
    /// other call.
    fn question(&self, _tool_name: &str, _input: &Value) -> Option<Question> {
        None
    }

    /// Writes the input that carries the answers to a question. The answers have been checked
    /// against the question.
    ///
    /// # Errors
    /// Says in plain words why the agent cannot be told them.
    fn answered(
        &self,
        _tool_name: &str,
        _input: &Value,
        _answers: &Answers,
    ) -> Result<Value, String> {
        Err("this agent takes no answers".to_owned())
    }

    /// Reads the answers out of an input that [`Driver::answered`] wrote.
    fn answers(&self, _tool_name: &str, _input: &Value) -> Option<Answers> {
        None
    }

    /// Reads one line of the agent's output.
    ///
    /// A line that gives [`Step::TurnBegan`] leaves the memory as it was: it is read again once a
    /// chat is open for it.
    fn read(&self, memory: &mut Self::Memory, line: &LineContent) -> Vec<Step>;

    /// Writes what we want to say as lines for the agent's stdin. Returns no line when this kind of
    /// agent cannot be told that.
    fn write(&self, memory: &Self::Memory, say: &Say<'_>) -> Vec<OutLine>;

    /// Says where the transcript of a conversation lies, given the environment of the child; `None`
    /// where the agent keeps none that is known here.
    fn transcript(&self, _conversation: &str, _env: ChildEnv<'_>) -> Option<TranscriptPlace> {
        None
    }

    /// Judges whether a process that waits with this call can be ended without losing it, and says
    /// what makes another process ask again.
    ///
    /// # Errors
    /// The reason why not.
    fn parkable(
        &self,
        _memory: &Self::Memory,
        _call: &WaitingCall<'_>,
        _transcript: &str,
    ) -> Result<WakeMark, NotParkable> {
        Err(NotParkable::NoPower)
    }

    /// Says what the transcript of a conversation holds of a call that was woken in it.
    fn woken_call(&self, _tool_use_id: &str, _transcript: &str) -> WokenCall {
        WokenCall::Settled
    }
}

/// Files of a project that an agent knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProjectFiles {
    /// Texts for the model, which [`Driver::launch`] can have the agent read alone.
    pub instructions: &'static [&'static str],
    /// Settings, hooks, rules and servers.
    pub settings: &'static [&'static str],
}

/// What is known of a run before its agent has said anything.
#[derive(Clone, Copy, Debug)]
pub struct Begin<'a> {
    /// What the session was created with.
    pub config: &'a SessionConfig,
    /// How the agent asks.
    pub channel: Channel,
    /// Which conversation the run goes on with.
    pub conversation: &'a Conversation,
    /// What that conversation has cost.
    pub cost_usd: f64,
}

/// What a program said when it was asked for its version.
#[derive(Debug)]
pub enum VersionAnswer {
    /// It is our own binary in the part of this agent.
    BuiltIn,
    /// What it printed, or why it printed nothing.
    Said(Result<String, VersionError>),
}

/// A program that can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identified {
    /// What to call it in a notice, with its version.
    pub label: String,
    /// The channel that `auto` means for it.
    pub channel: Channel,
    /// Whether this version is known to ask again about a call that was parked.
    pub asks_again: bool,
}

/// Why a program cannot be used as this agent, and what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnusableProgram(pub String);

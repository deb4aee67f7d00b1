//! Parking: whether the process of an agent that waits for a decision can end now and another one
//! ask again later, and what has to be written into its transcript for that.
//!
//! The transcript is the file in which an agent keeps its conversation. A driver reads it as text;
//! the engine finds, copies and changes the file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The call that an agent waits with.
#[derive(Clone, Copy, Debug)]
pub struct WaitingCall<'a> {
    /// The agent's id of the call.
    pub tool_use_id: &'a str,
    /// The tool.
    pub tool_name: &'a str,
    /// The input, as JSON, byte for byte as it was asked.
    pub input: &'a str,
    /// Where the process of the agent was started.
    pub working_dir: &'a Path,
}

/// What wakes a parked agent: a line that is appended to its transcript before the next process
/// starts. Without the line, that process has forgotten the call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WakeMark {
    /// The line, without its line ending.
    pub line: String,
}

/// Where an agent keeps its transcripts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TranscriptPlace {
    /// A directory, in whose folders they lie.
    pub root: PathBuf,
    /// The name of the file.
    pub name: String,
}

/// The environment of a child, by name.
pub type ChildEnv<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// What a transcript says of a call that was woken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WokenCall {
    /// It has its result: no process asks about it again.
    Settled,
    /// The next process would ask about it again, or run it.
    Open {
        /// The transcript without the mark, in which the call is forgotten.
        unmarked: String,
    },
}

/// Why a process that waits cannot be ended without losing what it waits with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum NotParkable {
    /// The agent has no such power.
    #[error("this agent cannot be parked")]
    NoPower,
    /// This version of the agent is not known to ask again, or one that was woken did not.
    #[error("its version is not known to ask again when it is resumed")]
    Version,
    /// The process asks in a way that cannot be resumed.
    #[error("its channel or its chat cannot be resumed")]
    Channel,
    /// The chat is being stopped, or its process is leaving.
    #[error("the chat is being ended")]
    Ending,
    /// More than one question is open, or an answer is under way.
    #[error("another question is open, or an answer is under way")]
    OtherQuestions,
    /// A message waits that the agent has not begun with.
    #[error("a message waits after the call")]
    Queued,
    /// A background task runs.
    #[error("a background task runs")]
    BackgroundTask,
    /// A background task has just ended, and the agent will begin a turn for it.
    #[error("a background task has just ended")]
    TaskEnded,
    /// The turn has had a result before, whose use would not be counted.
    #[error("the chat has had a result already")]
    HadResult,
    /// There is no transcript, or it cannot be read.
    #[error("its transcript cannot be read")]
    NoTranscript,
    /// The transcript does not hold the call: a subagent asks, or the message is not whole yet.
    #[error("its transcript does not hold the call")]
    NotInTranscript,
    /// Another call of the same message has no result.
    #[error("another call of the same message is open")]
    OtherCalls,
    /// The call has its result, or the conversation went on after it.
    #[error("the conversation went on after the call")]
    NotLast,
    /// The agent is in a permission mode that the next process would not have.
    #[error("it is in a permission mode that a resumed process would not have")]
    Mode,
    /// The agent's shell has moved to another directory.
    #[error("its shell has moved to another directory")]
    Moved,
}

impl NotParkable {
    /// The name under which it is counted.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NoPower => "no_power",
            Self::Version => "version",
            Self::Channel => "channel",
            Self::Ending => "ending",
            Self::OtherQuestions => "other_questions",
            Self::Queued => "queued",
            Self::BackgroundTask => "background_task",
            Self::TaskEnded => "task_ended",
            Self::HadResult => "had_result",
            Self::NoTranscript => "no_transcript",
            Self::NotInTranscript => "not_in_transcript",
            Self::OtherCalls => "other_calls",
            Self::NotLast => "not_last",
            Self::Mode => "mode",
            Self::Moved => "moved",
        }
    }
}

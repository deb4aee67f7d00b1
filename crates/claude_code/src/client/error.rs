//! The errors of a run, for the person who must act.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use agent_lines::child::StartError;

/// Why a run could not be started or failed. The error contains none of the child's output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaudeCodeError {
    /// There is no such program.
    #[error(
        "could not start the Claude Code CLI: there is no program {}; install it \
         (`npm install -g @anthropic-ai/claude-code`) or give the path of an installed one",
        binary.display()
    )]
    BinaryNotFound {
        /// The program that was looked for.
        binary: PathBuf,
    },
    /// The file is not a program that this user may run.
    #[error(
        "could not start the Claude Code CLI: {} is not executable; check its permissions, or \
         give the path of an installed one",
        binary.display()
    )]
    BinaryNotExecutable {
        /// The file.
        binary: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The directory to run in does not exist.
    #[error("could not start the Claude Code CLI: the working directory {} is not a \
        directory", working_dir.display())]
    WorkingDir {
        /// The directory.
        working_dir: PathBuf,
    },
    /// The system did not start the program.
    #[error("could not start the Claude Code CLI at {}", binary.display())]
    Spawn {
        /// The program.
        binary: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The run exceeded its time limit. The child and everything it started are gone.
    #[error("the Claude Code CLI did not end within {after:?} and was stopped")]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// The run printed more than a buffered run may return.
    #[error(
        "the Claude Code CLI printed more than {limit} bytes; read its events as they come instead"
    )]
    TooMuchOutput {
        /// The limit.
        limit: usize,
    },
    /// The system could not tell how the child ended.
    #[error("could not wait for the Claude Code CLI")]
    Wait(#[source] io::Error),
    /// The task that owns the run is gone, because its runtime was shut down.
    #[error("the run was given up because its runtime was shut down")]
    RunLost,
}

impl From<StartError> for ClaudeCodeError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::NotFound { binary } => Self::BinaryNotFound { binary },
            StartError::NotExecutable { binary, source } => {
                Self::BinaryNotExecutable { binary, source }
            }
            StartError::WorkingDir { working_dir } => Self::WorkingDir { working_dir },
            StartError::Spawn { binary, source } => Self::Spawn { binary, source },
        }
    }
}

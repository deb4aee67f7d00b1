//! Starts `codex app-server` and talks to it while it runs.
//!
//! A [`CodexClient`] says how the program is started, a [`Launch`] with which settings. The caller
//! holds a [`CodexConnection`], and dropping that ends the child with everything it started.

mod connection;
mod launch;
mod version;

use agent_lines::child::{ChildOptions, Input, StartError};

pub use agent_lines::rpc::{CALL_TIMEOUT, CallError, MAX_HELD_LINES, SendError};
pub use connection::{CLOSE_GRACE, CodexConnection, Sender};
pub use launch::{Launch, LaunchError, Trust};
pub use version::{
    OLDEST_SUPPORTED_VERSION, ProbeError, ProbedCodex, TESTED_VERSION, probe_version,
};

use crate::parser::CodexParser;

/// Starts the server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CodexClient {
    child: ChildOptions,
}

/// Why the server could not be started. The error contains nothing that the server printed.
#[derive(Debug, thiserror::Error)]
pub enum CodexError {
    /// The system did not start the program.
    #[error(
        "could not start the Codex CLI: {0}; install it (`npm install -g @openai/codex`) or give \
         the path of an installed one"
    )]
    Start(#[from] StartError),
    /// Its settings cannot be written on a command line.
    #[error("could not start the Codex CLI: {0}")]
    Launch(#[from] LaunchError),
}

impl Default for CodexClient {
    /// Creates a client that runs `codex` from the search path, in the environment of this process.
    fn default() -> Self {
        Self::new(ChildOptions::new("codex"))
    }
}

impl CodexClient {
    /// Creates a client that starts the program as `child` says.
    pub fn new(child: ChildOptions) -> Self {
        Self { child }
    }

    /// Starts the server and returns at once, before the handshake. It runs in the directory of
    /// `launch` unless the client's options name another. Must be called inside a tokio runtime.
    pub fn start(&self, launch: &Launch) -> Result<CodexConnection, CodexError> {
        let mut child = self.child.clone();
        if child.directory().is_none() {
            child = child.working_dir(launch.cwd());
        }
        let arguments = launch.arguments()?;
        let started = child.start(arguments, Input::Open, CodexParser::new())?;
        Ok(CodexConnection::new(started))
    }
}

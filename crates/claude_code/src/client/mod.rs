//! Starts the CLI in print mode and yields its events while it runs.
//!
//! A [`ClaudeClient`] holds the settings that all runs share. The caller of a run holds a
//! [`ClaudePrintStreamJsonHandle`], and dropping that ends the child with everything it started.

mod error;
mod handle;
mod request;
mod version;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use agent_lines::CliVersion;
use agent_lines::child::{ChildOptions, Input};
pub use agent_lines::child::{
    DEFAULT_TERMINATION_GRACE, EVENT_CHANNEL_CAPACITY, Environment, STDERR_TAIL_BYTES, StderrTail,
    TerminationHandle,
};
use futures::StreamExt as _;

pub use error::ClaudeCodeError;
pub use handle::{
    ClaudeCompletion, ClaudeEventStream, ClaudePrintOutput, ClaudePrintStreamJsonHandle,
};
pub use request::{ClaudePrintRequest, MAX_PROMPT_ARGUMENT_BYTES};
pub use version::{OLDEST_SUPPORTED_VERSION, ProbeError, ProbedCli, TESTED_VERSION, probe_version};

use crate::parser::ClaudeStreamJsonParser;

/// How many bytes of output [`ClaudeClient::print`] buffers at most.
pub const MAX_BUFFERED_BYTES: usize = 256 * 1024 * 1024;

/// Runs the CLI. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClaudeClient {
    options: ClaudeClientBuilder,
}

/// The settings that all runs of a client share.
#[derive(Debug, Clone)]
pub struct ClaudeClientBuilder {
    child: ChildOptions,
}

impl ClaudeClient {
    /// Creates the builder of a client that runs `claude` from the search path.
    pub fn builder() -> ClaudeClientBuilder {
        ClaudeClientBuilder { child: ChildOptions::new("claude") }
    }

    /// Returns the program that is run.
    pub fn binary(&self) -> &Path {
        self.options.child.program()
    }

    /// Starts a run and returns at once; its events arrive while it lives. Must be called inside a
    /// tokio runtime.
    ///
    /// Dropping the handle, or its `events`, ends the child with everything it started.
    pub async fn print_stream_json(
        &self,
        request: ClaudePrintRequest,
    ) -> Result<ClaudePrintStreamJsonHandle, ClaudeCodeError> {
        let mut child = self.options.child.clone();
        for (name, value) in &request.env {
            child = child.env(name, value);
        }
        if let Some(dir) = &request.working_dir {
            child = child.working_dir(dir);
        }
        if let Some(timeout) = request.timeout {
            child = child.timeout(timeout);
        }
        // The CLI waits three seconds for an input that is open and silent, so it gets none unless
        // the prompt needs it.
        let input = match request.prompt_for_stdin() {
            Some(prompt) => Input::Text(prompt.to_owned()),
            None => Input::Empty,
        };
        let started = child.start(request.arguments(), input, ClaudeStreamJsonParser::new())?;
        Ok(started.into())
    }

    /// Runs to the end and returns everything at once, up to [`MAX_BUFFERED_BYTES`].
    pub async fn print(
        &self,
        request: ClaudePrintRequest,
    ) -> Result<ClaudePrintOutput, ClaudeCodeError> {
        let mut handle = self.print_stream_json(request).await?;
        let stderr_tail = handle.stderr_tail();
        let mut events = Vec::new();
        let mut buffered = 0;
        while let Some(event) = handle.events.next().await {
            buffered += event.as_ref().map_or(0, |event| event.raw().len());
            if buffered > MAX_BUFFERED_BYTES {
                return Err(ClaudeCodeError::TooMuchOutput { limit: MAX_BUFFERED_BYTES });
            }
            events.push(event);
        }
        let status = handle.completion.await?;
        Ok(ClaudePrintOutput { events, status, stderr_tail: stderr_tail.text() })
    }
}

impl ClaudeClientBuilder {
    /// Runs this program instead of `claude` from the search path.
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.child = self.child.binary(binary);
        self
    }

    /// Sets which environment the child inherits.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.child = self.child.environment(environment);
        self
    }

    /// Sets an environment variable for every child.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.child = self.child.env(name, value);
        self
    }

    /// Runs in this directory.
    pub fn working_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.child = self.child.working_dir(dir);
        self
    }

    /// Stops a run after this long, from start to exit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.child = self.child.timeout(timeout);
        self
    }

    /// Skips lines longer than this.
    pub fn max_line_bytes(mut self, bytes: usize) -> Self {
        self.child = self.child.max_line_bytes(bytes);
        self
    }

    /// Gives a child this long between being asked to end and being killed.
    pub fn termination_grace(mut self, grace: Duration) -> Self {
        self.child = self.child.termination_grace(grace);
        self
    }

    /// Builds the client.
    pub fn build(self) -> ClaudeClient {
        ClaudeClient { options: self }
    }
}

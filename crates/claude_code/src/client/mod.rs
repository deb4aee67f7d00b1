//! Starts the CLI in print mode and hands out its events while it runs.
//!
//! A [`ClaudeClient`] holds what all runs share. Each run is owned by one task ([`run`]); the caller holds a
//! [`ClaudePrintStreamJsonHandle`], and dropping that ends the child with everything it started.

mod error;
mod handle;
mod output;
mod request;
mod run;
mod stderr;
mod version;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::process::Command;

pub use error::ClaudeCodeError;
pub use handle::{
    ClaudeCompletion, ClaudeEventStream, ClaudePrintOutput, ClaudePrintStreamJsonHandle,
    EVENT_CHANNEL_CAPACITY, TerminationHandle,
};
pub use request::{ClaudePrintRequest, MAX_PROMPT_ARGUMENT_BYTES};
pub use stderr::{STDERR_TAIL_BYTES, StderrTail};
pub use version::{
    CliVersion, OLDEST_SUPPORTED_VERSION, ProbeError, ProbedCli, TESTED_VERSION, probe_version,
};

use crate::line::DEFAULT_MAX_LINE_BYTES;
use crate::process::ProcessTree;
use run::RunOptions;

/// How long a child that was asked to end may take. It saves its transcript and stops its tools meanwhile.
pub const DEFAULT_TERMINATION_GRACE: Duration = Duration::from_secs(3);

/// How much output [`ClaudeClient::print`] holds at most.
pub const MAX_BUFFERED_BYTES: usize = 256 * 1024 * 1024;

/// Runs the CLI. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClaudeClient {
    options: ClaudeClientBuilder,
}

/// What all runs of a client share.
#[derive(Debug, Clone)]
pub struct ClaudeClientBuilder {
    binary: PathBuf,
    environment: Environment,
    env: Vec<(OsString, OsString)>,
    working_dir: Option<PathBuf>,
    timeout: Option<Duration>,
    max_line_bytes: usize,
    termination_grace: Duration,
}

/// What a child finds in its environment besides the variables it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Environment {
    /// Everything this process has.
    #[default]
    Inherit,
    /// Nothing.
    Clear,
}

impl ClaudeClient {
    /// Begins a client that runs `claude` from the search path.
    pub fn builder() -> ClaudeClientBuilder {
        ClaudeClientBuilder {
            binary: PathBuf::from("claude"),
            environment: Environment::default(),
            env: Vec::new(),
            working_dir: None,
            timeout: None,
            max_line_bytes: DEFAULT_MAX_LINE_BYTES,
            termination_grace: DEFAULT_TERMINATION_GRACE,
        }
    }

    /// Returns the program that is run.
    pub fn binary(&self) -> &Path {
        &self.options.binary
    }

    /// Starts a run and returns at once; its events come while it lives. Must be called inside a tokio runtime.
    ///
    /// Dropping the handle, or its `events`, ends the child with everything it started.
    pub async fn print_stream_json(
        &self,
        request: ClaudePrintRequest,
    ) -> Result<ClaudePrintStreamJsonHandle, ClaudeCodeError> {
        let options = &self.options;
        let prompt = request.prompt_for_stdin().map(str::to_owned);
        let mut command = Command::new(&options.binary);
        command.args(request.arguments());
        if options.environment == Environment::Clear {
            command.env_clear();
        }
        command.envs(options.env.iter().chain(&request.env).map(|(name, value)| (name, value)));
        if let Some(dir) = request.working_dir.as_ref().or(options.working_dir.as_ref()) {
            if !dir.is_dir() {
                return Err(ClaudeCodeError::WorkingDir { working_dir: dir.clone() });
            }
            command.current_dir(dir);
        }
        // An open and silent input costs the CLI three seconds of waiting, so it gets none unless the prompt needs it.
        command.stdin(if prompt.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, tree) = ProcessTree::spawn(&mut command)
            .map_err(|source| ClaudeCodeError::from_spawn(options.binary.clone(), source))?;
        Ok(run::start(
            child,
            tree,
            RunOptions {
                prompt,
                timeout: request.timeout.or(options.timeout),
                max_line_bytes: options.max_line_bytes,
                termination_grace: options.termination_grace,
            },
        ))
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
        self.binary = binary.into();
        self
    }

    /// Says what the child inherits.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets a variable for every child.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs in this directory.
    pub fn working_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.working_dir = Some(dir.into());
        self
    }

    /// Stops a run after this long, from start to exit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Skips lines longer than this.
    pub fn max_line_bytes(mut self, bytes: usize) -> Self {
        self.max_line_bytes = bytes;
        self
    }

    /// Gives a child this long between being asked to end and being killed.
    pub fn termination_grace(mut self, grace: Duration) -> Self {
        self.termination_grace = grace;
        self
    }

    /// Finishes the client.
    pub fn build(self) -> ClaudeClient {
        ClaudeClient { options: self }
    }
}

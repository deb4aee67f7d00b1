//! Starts a program and hands out its lines as typed events while it runs.
//!
//! [`ChildOptions`] say how; [`ChildOptions::start`] starts it. Each child is owned by one task
//! ([`run`]); the caller holds a [`LiveChild`], and dropping that ends the child with everything it
//! started.

mod handle;
mod input;
mod output;
mod run;
mod stderr;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

pub use handle::{
    Completion, EVENT_CHANNEL_CAPACITY, EventStream, LiveChild, RunError, TerminationHandle,
};
pub use input::{InputError, InputWriter, MAX_QUEUED_BYTES};
pub use stderr::{STDERR_TAIL_BYTES, StderrTail, redact};

use crate::LineParser;
use crate::line::DEFAULT_MAX_LINE_BYTES;
use crate::process::ProcessTree;
use run::RunOptions;

/// How long a child may take to end after it was asked. Meanwhile an agent saves its transcript and
/// stops its tools.
pub const DEFAULT_TERMINATION_GRACE: Duration = Duration::from_secs(3);

/// How a program is started and held.
#[derive(Clone)]
pub struct ChildOptions {
    binary: PathBuf,
    environment: Environment,
    env: Vec<(OsString, OsString)>,
    working_dir: Option<PathBuf>,
    timeout: Option<Duration>,
    max_line_bytes: usize,
    termination_grace: Duration,
}

/// Shows the names of the environment variables without their values, because the values may be
/// secrets.
impl fmt::Debug for ChildOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("ChildOptions")
            .field("binary", &self.binary)
            .field("environment", &self.environment)
            .field("env", &names)
            .field("working_dir", &self.working_dir)
            .field("timeout", &self.timeout)
            .field("max_line_bytes", &self.max_line_bytes)
            .field("termination_grace", &self.termination_grace)
            .finish()
    }
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

/// What a child reads from its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Empty,
    /// This text, written while the output is read; then the input is closed.
    Text(String),
    /// Whatever the caller writes to [`LiveChild::stdin`].
    Open,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such program.
    #[error("there is no program {}", binary.display())]
    NotFound {
        /// The program that was looked for.
        binary: PathBuf,
    },
    /// The file is not a program that this user may run.
    #[error("{} is not executable", binary.display())]
    NotExecutable {
        /// The file.
        binary: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The directory to run in does not exist.
    #[error("the working directory {} is not a directory", working_dir.display())]
    WorkingDir {
        /// The directory.
        working_dir: PathBuf,
    },
    /// The system did not start the program.
    #[error("could not start {}", binary.display())]
    Spawn {
        /// The program.
        binary: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl ChildOptions {
    /// Creates options for `binary`, a path or a name on the search path, with the environment of
    /// this process, no timeout and the default limits.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            environment: Environment::default(),
            env: Vec::new(),
            working_dir: None,
            timeout: None,
            max_line_bytes: DEFAULT_MAX_LINE_BYTES,
            termination_grace: DEFAULT_TERMINATION_GRACE,
        }
    }

    /// Runs this program instead of the one given to [`ChildOptions::new`].
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = binary.into();
        self
    }

    /// Sets which environment the child inherits.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets an environment variable. If it is set twice, the last value counts.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs in this directory.
    pub fn working_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.working_dir = Some(dir.into());
        self
    }

    /// Stops the child after this long, from start to exit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Skips lines longer than this.
    pub fn max_line_bytes(mut self, bytes: usize) -> Self {
        self.max_line_bytes = bytes;
        self
    }

    /// Gives the child this long between being asked to end and being killed.
    pub fn termination_grace(mut self, grace: Duration) -> Self {
        self.termination_grace = grace;
        self
    }

    /// Returns the program.
    pub fn program(&self) -> &Path {
        &self.binary
    }

    /// Returns the directory that the child runs in; `None` means the directory of this process.
    pub fn directory(&self) -> Option<&Path> {
        self.working_dir.as_deref()
    }

    /// Starts the program with these arguments and returns at once; its events arrive while it
    /// runs. Must be called inside a tokio runtime.
    pub fn start<P: LineParser + Send + 'static>(
        self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: Input,
        parser: P,
    ) -> Result<LiveChild<P::Event>, StartError> {
        let mut command = Command::new(&self.binary);
        command.args(arguments);
        if self.environment == Environment::Clear {
            command.env_clear();
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(working_dir) = self.working_dir {
            if !working_dir.is_dir() {
                return Err(StartError::WorkingDir { working_dir });
            }
            command.current_dir(working_dir);
        }
        // Some programs wait for an input that is open and silent, so the child gets none unless
        // the caller uses it.
        let is_empty = input == Input::Empty;
        command.stdin(if is_empty { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, tree) = ProcessTree::spawn(&mut command)
            .map_err(|source| StartError::from_spawn(self.binary, source))?;
        let options = RunOptions {
            fed: match input {
                Input::Text(text) => Some(text),
                Input::Empty | Input::Open => None,
            },
            timeout: self.timeout,
            max_line_bytes: self.max_line_bytes,
            termination_grace: self.termination_grace,
        };
        Ok(run::start(child, tree, parser, options))
    }
}

impl StartError {
    /// Returns the error for a failed attempt to start `binary`.
    pub(crate) fn from_spawn(binary: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { binary },
            io::ErrorKind::PermissionDenied => Self::NotExecutable { binary, source },
            _ => Self::Spawn { binary, source },
        }
    }
}

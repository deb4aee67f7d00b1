//! Asks a CLI for its version. Each error says what the user can do.

use std::io;
use std::path::PathBuf;

use agent_lines::child::{StartError, redact};
use agent_lines::{CliVersion, VERSION_TIMEOUT, VersionError, ask_version};

/// The newest version with which the suites of the real CLI pass.
pub const TESTED_VERSION: CliVersion = CliVersion { major: 2, minor: 1, patch: 328 };

/// The oldest supported version. Older ones lack flags and lines that this crate needs.
pub const OLDEST_SUPPORTED_VERSION: CliVersion = CliVersion { major: 2, minor: 0, patch: 0 };

/// How much of an unexpected answer is shown.
const SHOWN_CHARACTERS: usize = 80;

/// A supported CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbedCli {
    /// The program that was asked.
    pub binary: PathBuf,
    /// The version that it printed.
    pub version: CliVersion,
}

impl ProbedCli {
    /// Judges what a program printed when it was asked for its version.
    pub fn judge(
        binary: impl Into<PathBuf>,
        answer: Result<String, VersionError>,
    ) -> Result<Self, ProbeError> {
        let binary = binary.into();
        let answer = match answer {
            Ok(answer) => answer,
            Err(VersionError::Silent) => return Err(ProbeError::Silent { binary }),
            Err(VersionError::Start(error)) => return Err(ProbeError::from_start(binary, error)),
        };
        let Some(version) = answer.split_whitespace().next().and_then(CliVersion::parse) else {
            let seen = redact(&answer)
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(SHOWN_CHARACTERS)
                .collect();
            return Err(ProbeError::Unrecognized { binary, seen });
        };
        if version < OLDEST_SUPPORTED_VERSION {
            return Err(ProbeError::TooOld { binary, found: version });
        }
        Ok(Self { binary, version })
    }

    /// Returns whether it is newer than [`TESTED_VERSION`]. Such a version is used, but the user
    /// should be told.
    pub fn is_newer_than_tested(&self) -> bool {
        self.version > TESTED_VERSION
    }
}

/// Why a program cannot be used as the CLI.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// There is no such program.
    #[error(
        "there is no program {}; install the Claude Code CLI (`npm install -g \
         @anthropic-ai/claude-code`) or give the path of \
         an installed one",
        binary.display()
    )]
    NotFound {
        /// The program that was looked for.
        binary: PathBuf,
    },
    /// It cannot be run.
    #[error("{} is not executable ({source}); make it executable, or give the path of an \
        installed Claude Code CLI", binary.display())]
    NotExecutable {
        /// The file.
        binary: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// It printed something that is not a version of the CLI.
    #[error(
        "{} does not look like the Claude Code CLI: asked for its version it printed {seen:?}; \
         give the path of an installed one",
        binary.display()
    )]
    Unrecognized {
        /// The program.
        binary: PathBuf,
        /// The beginning of its answer, redacted.
        seen: String,
    },
    /// It is too old.
    #[error(
        "{} is version {found}, older than {OLDEST_SUPPORTED_VERSION}; update it (`claude \
         update`, or \
         `npm install -g @anthropic-ai/claude-code`)",
        binary.display()
    )]
    TooOld {
        /// The program.
        binary: PathBuf,
        /// Its version.
        found: CliVersion,
    },
    /// It did not answer.
    #[error("{} did not print its version within {} s; run it with `--version` by hand to see \
        why", binary.display(), VERSION_TIMEOUT.as_secs())]
    Silent {
        /// The program.
        binary: PathBuf,
    },
}

/// Runs `binary --version` and judges the answer. Must be called inside a tokio runtime.
pub async fn probe_version(binary: impl Into<PathBuf>) -> Result<ProbedCli, ProbeError> {
    let binary = binary.into();
    let answer = ask_version(&binary).await;
    ProbedCli::judge(binary, answer)
}

impl ProbeError {
    fn from_start(binary: PathBuf, error: StartError) -> Self {
        match error {
            StartError::NotFound { binary } => Self::NotFound { binary },
            StartError::NotExecutable { binary, source } | StartError::Spawn { binary, source } => {
                Self::NotExecutable { binary, source }
            }
            // This cannot happen: a probe runs in the directory of this process.
            StartError::WorkingDir { .. } => Self::NotFound { binary },
        }
    }
}

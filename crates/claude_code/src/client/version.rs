//! Asks a CLI for its version, with an error that says what to do when there is none.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::stderr::redact;
use crate::process::ProcessTree;

/// The version whose recorded output the tests hold this crate against.
pub const TESTED_VERSION: CliVersion = CliVersion { major: 2, minor: 1, patch: 325 };

/// Older ones lack flags and lines that this crate counts on.
pub const OLDEST_SUPPORTED_VERSION: CliVersion = CliVersion { major: 2, minor: 0, patch: 0 };

/// A CLI prints its version in well under a second; a busy machine may need some more.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// A version line has a few dozen bytes.
const MAX_ANSWER_BYTES: u64 = 4096;

/// How much of an unexpected answer is shown.
const SHOWN_CHARACTERS: usize = 80;

/// A version of the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CliVersion {
    /// Changes with the protocol.
    pub major: u32,
    /// Changes with features.
    pub minor: u32,
    /// Changes almost daily.
    pub patch: u32,
}

/// A CLI that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedCli {
    /// The program that was asked.
    pub binary: PathBuf,
    /// What it answered.
    pub version: CliVersion,
}

impl ProbedCli {
    /// Whether it is newer than [`TESTED_VERSION`]: it is used, and the user should be told.
    pub fn is_newer_than_tested(&self) -> bool {
        self.version > TESTED_VERSION
    }
}

/// Why a program cannot be used as the CLI.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// There is no such program.
    #[error(
        "there is no program {}; install the Claude Code CLI (`npm install -g @anthropic-ai/claude-code`) or give the path of \
         an installed one",
        binary.display()
    )]
    NotFound {
        /// What was looked for.
        binary: PathBuf,
    },
    /// It cannot be run.
    #[error("{} is not executable ({source}); make it so, or give the path of an installed Claude Code CLI", binary.display())]
    NotExecutable {
        /// The file.
        binary: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It answered something that is no version of the CLI.
    #[error(
        "{} does not look like the Claude Code CLI: asked for its version it printed {seen:?}; give the path of an installed one",
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
        "{} is version {found}, older than {OLDEST_SUPPORTED_VERSION}; update it (`claude update`, or \
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
    #[error("{} did not tell its version within {} s; run it with `--version` by hand to see why", binary.display(), PROBE_TIMEOUT.as_secs())]
    Silent {
        /// The program.
        binary: PathBuf,
    },
}

/// Runs `binary --version` and judges the answer. Must be called inside a tokio runtime.
pub async fn probe_version(binary: impl Into<PathBuf>) -> Result<ProbedCli, ProbeError> {
    let binary = binary.into();
    let answer = ask(&binary).await?;
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
    Ok(ProbedCli { binary, version })
}

async fn ask(binary: &Path) -> Result<String, ProbeError> {
    let mut command = Command::new(binary);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (mut child, tree) =
        ProcessTree::spawn(&mut command).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ProbeError::NotFound { binary: binary.to_owned() },
            _ => ProbeError::NotExecutable { binary: binary.to_owned(), source },
        })?;
    let mut answer = Vec::new();
    let answered = tokio::time::timeout(PROBE_TIMEOUT, async {
        if let Some(stdout) = child.stdout.take() {
            // What could be read is judged; a broken pipe shows as an answer that is none.
            let _ = stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await;
        }
    })
    .await;
    // It has said what it had to say; whatever it does now is of no interest.
    tree.kill();
    let _ = child.wait().await;
    tree.end_leftovers().await;
    match answered {
        Ok(()) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Err(_) => Err(ProbeError::Silent { binary: binary.to_owned() }),
    }
}

impl CliVersion {
    /// Reads `2.1.325`; what follows the number of the patch is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_start_matches('v').splitn(3, '.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let patch: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
        Some(Self { major, minor, patch: patch.parse().ok()? })
    }
}

impl fmt::Display for CliVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

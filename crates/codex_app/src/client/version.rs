//! Asks a program whether it is a supported Codex CLI.

use std::path::PathBuf;

use agent_lines::child::{StartError, redact};
use agent_lines::{CliVersion, VERSION_TIMEOUT, VersionError, ask_version};

/// The version whose recorded lines the tests of this crate use.
pub const TESTED_VERSION: CliVersion = CliVersion { major: 0, minor: 169, patch: 0 };

/// The oldest supported version, with which the tests against the real CLI passed as well. We did
/// not try older ones, and they refuse switches that [`Launch`](super::Launch) needs.
pub const OLDEST_SUPPORTED_VERSION: CliVersion = CliVersion { major: 0, minor: 166, patch: 0 };

/// How much of an unexpected answer is shown.
const SHOWN_CHARACTERS: usize = 80;

/// A supported CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedCodex {
    /// The program that was asked.
    pub binary: PathBuf,
    /// The version that it printed.
    pub version: CliVersion,
}

impl ProbedCodex {
    /// Judges what a program printed when it was asked for its version. The CLI prints `codex-cli
    /// 0.169.0`.
    pub fn judge(
        binary: impl Into<PathBuf>,
        answer: Result<String, VersionError>,
    ) -> Result<Self, ProbeError> {
        let binary = binary.into();
        let answer = match answer {
            Ok(answer) => answer,
            Err(VersionError::Silent) => return Err(ProbeError::Silent { binary }),
            Err(VersionError::Start(error)) => return Err(ProbeError::Start(error)),
        };
        match answer.trim().strip_prefix("codex-cli ").and_then(CliVersion::parse) {
            None => {
                let first_line = redact(&answer).lines().next().unwrap_or_default().to_owned();
                let seen = first_line.chars().take(SHOWN_CHARACTERS).collect();
                Err(ProbeError::Unrecognized { binary, seen })
            }
            Some(found) if found < OLDEST_SUPPORTED_VERSION => {
                Err(ProbeError::TooOld { binary, found })
            }
            Some(version) => Ok(Self { binary, version }),
        }
    }

    /// Returns whether it is newer than [`TESTED_VERSION`]. Such a version is used, but the user
    /// should be told.
    pub fn is_newer_than_tested(&self) -> bool {
        self.version > TESTED_VERSION
    }
}

/// Why a program cannot be used as the CLI.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It could not be started.
    #[error(
        "{0}; install the Codex CLI (`npm install -g @openai/codex`) or give the path of an \
         installed one"
    )]
    Start(#[source] StartError),
    /// It printed something that is not a version of the CLI.
    #[error(
        "{} does not look like the Codex CLI: asked for its version it printed {seen:?}; give the \
         path of an installed one",
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
        "{} is version {found}, older than {OLDEST_SUPPORTED_VERSION}; update it (`npm install -g \
         @openai/codex`)",
        binary.display()
    )]
    TooOld {
        /// The program.
        binary: PathBuf,
        /// Its version.
        found: CliVersion,
    },
    /// It did not answer.
    #[error(
        "{} did not print its version within {} s; run it with `--version` by hand to see why",
        binary.display(),
        VERSION_TIMEOUT.as_secs()
    )]
    Silent {
        /// The program.
        binary: PathBuf,
    },
}

/// Runs `binary --version` and judges the answer. Must be called inside a tokio runtime.
pub async fn probe_version(binary: impl Into<PathBuf>) -> Result<ProbedCodex, ProbeError> {
    let binary = binary.into();
    let answer = ask_version(&binary).await;
    ProbedCodex::judge(binary, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_judged() {
        let judged = |answer: &str| ProbedCodex::judge("codex", Ok(answer.to_owned()));
        for supported in [OLDEST_SUPPORTED_VERSION, TESTED_VERSION] {
            let answer = format!("codex-cli {supported}\n");
            assert!(judged(&answer).is_ok_and(|cli| !cli.is_newer_than_tested()), "{answer}");
        }
        assert!(judged("codex-cli 0.170.1-alpha.2\n").is_ok_and(|cli| cli.is_newer_than_tested()));
        assert!(matches!(judged("codex-cli 0.165.9"), Err(ProbeError::TooOld { .. })));
        for other in ["2.1.325 (Claude Code)", "", "0.169.0"] {
            assert!(matches!(judged(other), Err(ProbeError::Unrecognized { .. })), "{other:?}");
        }
    }
}

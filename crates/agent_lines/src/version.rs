//! Asks a program for its version: bounded in time and size, and nothing is left of it.

use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::child::StartError;
use crate::process::ProcessTree;

/// A program prints its version in well under a second, unless its hundred megabytes are read from
/// a slow disk for the first time, on a machine that has other things to do.
pub const VERSION_TIMEOUT: Duration = Duration::from_secs(60);

/// A version line has a few dozen bytes.
const MAX_ANSWER_BYTES: u64 = 4096;

/// A version of three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CliVersion {
    /// Changes with the protocol.
    pub major: u32,
    /// Changes with features.
    pub minor: u32,
    /// Changes almost daily.
    pub patch: u32,
}

/// Why a program did not tell its version.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It did not answer within [`VERSION_TIMEOUT`].
    #[error("the program did not tell its version in time")]
    Silent,
}

/// Runs `binary --version` and returns what it prints, at most 4 KiB. Must be called inside a tokio
/// runtime.
pub async fn ask_version(binary: &Path) -> Result<String, VersionError> {
    let mut command = Command::new(binary);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (mut child, tree) = ProcessTree::spawn(&mut command)
        .map_err(|source| StartError::from_spawn(binary.to_owned(), source))?;
    let mut answer = Vec::new();
    let answered = tokio::time::timeout(VERSION_TIMEOUT, async {
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
        Err(_) => Err(VersionError::Silent),
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

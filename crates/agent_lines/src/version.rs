//! Asks a program for its version, with a limit on time and size, and leaves no process behind.

use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::child::StartError;
use crate::process::ProcessTree;

/// How long a program may take to print its version. It usually takes well under a second, but on a
/// busy machine its hundred megabytes may have to be read from a slow disk first.
pub const VERSION_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest answer that is read. A version line has a few dozen bytes.
const MAX_ANSWER_BYTES: u64 = 4096;

/// A version of three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CliVersion {
    /// Changes when the protocol changes.
    pub major: u32,
    /// Changes with new features.
    pub minor: u32,
    /// Changes almost daily.
    pub patch: u32,
}

/// Why the version of a program is unknown.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It did not answer within [`VERSION_TIMEOUT`].
    #[error("the program did not print its version in time")]
    Silent,
}

/// Runs `binary --version` and returns what it prints, at most 4 KiB. Must be called inside a tokio
/// runtime.
pub async fn ask_version(binary: &Path) -> Result<String, VersionError> {
    // Some programs obey files of the directory that they start in, and ours may be one that agents
    // write to. A name alone is looked up in `PATH`; anything else would mean another file there.
    let is_name = binary.components().count() == 1;
    let program = if is_name { Ok(binary.to_owned()) } else { std::path::absolute(binary) };
    let program = program.map_err(|source| StartError::from_spawn(binary.to_owned(), source))?;
    let mut command = Command::new(program);
    command.arg("--version").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (mut child, tree) = ProcessTree::spawn(&mut command)
        .map_err(|source| StartError::from_spawn(binary.to_owned(), source))?;
    let mut answer = Vec::new();
    let answered = tokio::time::timeout(VERSION_TIMEOUT, async {
        if let Some(stdout) = child.stdout.take() {
            // Whatever could be read is judged; after a broken pipe that is not a version.
            let _ = stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await;
        }
    })
    .await;
    // The program has printed its version, and nothing else that it does matters.
    tree.kill();
    let _ = child.wait().await;
    tree.end_leftovers().await;
    match answered {
        Ok(()) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Err(_) => Err(VersionError::Silent),
    }
}

impl CliVersion {
    /// Reads `2.1.325`; anything after the patch number is ignored.
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

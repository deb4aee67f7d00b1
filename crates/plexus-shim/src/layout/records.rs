//! `pid.json` and `exit.json`.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{FORMAT_VERSION, LayoutError, boot_id, files, process_identity};

/// Identifies the processes of this directory. The kernel may give a pid to another process later;
/// together with the start time (field 22 of `/proc/PID/stat`, in clock ticks since the system
/// started) and the boot it belongs to, it names one process for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PidFile {
    /// The format of this file, see [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The shim.
    pub shim_pid: i32,
    /// When the shim started.
    pub shim_start: u64,
    /// The child.
    pub child_pid: i32,
    /// When the child started; 0 when it ended before that could be read.
    pub child_start: u64,
    /// The process group that the child was started in.
    pub child_pgid: i32,
    /// When the child was started, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// The boot that the start times count from; `None` where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

impl PidFile {
    /// Returns whether the shim that wrote this still lives.
    pub fn shim_lives(&self) -> bool {
        self.is_same_boot() && process_identity(self.shim_pid) == Some(self.shim_start)
    }

    /// Returns whether the child still lives.
    pub fn child_lives(&self) -> bool {
        self.is_same_boot() && process_identity(self.child_pid) == Some(self.child_start)
    }

    fn is_same_boot(&self) -> bool {
        self.boot_id.is_none() || self.boot_id == boot_id()
    }
}

/// How a run ended. When both `code` and `signal` are missing, the child never started, or nobody
/// could learn how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitFile {
    /// The format of this file, see [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The child's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended the child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// When this was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// What the shim did or could not do, for people; `None` when the child simply ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ExitFile {
    /// Describes an end without code or signal.
    pub fn without_status(reason: impl Into<String>) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            code: None,
            signal: None,
            at_ms: now_ms(),
            reason: Some(reason.into()),
        }
    }
}

/// Returns the time in milliseconds since 1970; 0 on a clock set before that.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The part of either file that is read first: a newer format may differ in everything else.
#[derive(Deserialize)]
struct Version {
    format_version: u32,
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LayoutError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(LayoutError::io("read", path, source)),
    };
    let malformed = |source| LayoutError::Malformed { path: path.to_path_buf(), source };
    let version: Version = serde_json::from_slice(&bytes).map_err(malformed)?;
    if version.format_version > FORMAT_VERSION {
        return Err(LayoutError::NewerFormat {
            path: path.to_path_buf(),
            found: version.format_version,
        });
    }
    serde_json::from_slice(&bytes).map(Some).map_err(malformed)
}

pub(super) fn write<T: Serialize>(path: &Path, record: &T) -> Result<(), LayoutError> {
    let mut bytes = serde_json::to_vec(record)
        .map_err(|source| LayoutError::Malformed { path: path.to_path_buf(), source })?;
    bytes.push(b'\n');
    files::write_by_rename(path, &bytes).map_err(|source| LayoutError::io("write", path, source))
}

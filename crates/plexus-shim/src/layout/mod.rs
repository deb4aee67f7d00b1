//! The run directory's format: its file names, its JSON, and how each file is created.
//!
//! Only this module defines that format. The shim writes most of it, the server reads it and writes
//! the inbox, the lease and the idle mark, and both take every name from here. A shim of an older
//! release outlives an upgrade of the server, so a change here raises [`FORMAT_VERSION`] and keeps
//! reading what earlier versions wrote.
//!
//! ```text
//! RUN_DIR/            0700
//!   pid.json          who runs here ([`PidFile`]); appears once, by rename, as soon as the child is started
//!   shim.log          what the shim said before it had a child: why it has none. Made by the server
//!   exit.json         how it ended ([`ExitFile`]); appears once, by rename, after the journal is complete
//!   journal/          000001.jsonl, 000002.jsonl, …: the child's output, see [`SegmentNo`]
//!   inbox/            00000001.json, …: lines for the child's stdin, see [`InboxSeq`]; `close` closes stdin
//!   lease             touched by the server while it lives
//!   idle              present while the server holds the child for warm and idle
//! ```
//!
//! Nothing here is synced to the disk: these files describe living processes, and a loss of power
//! ends those too. Whatever must survive that is in the store.

mod error;
mod files;
mod identity;
mod inbox;
mod journal;
mod members;
mod records;

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use error::LayoutError;
pub use files::{DIR_MODE, FILE_MODE, write_by_rename};
pub(crate) use files::{create_private, make_bell};
pub(crate) use identity::Stat;
pub use identity::{Delivery, boot_id, parent_of, process_identity, signal_process};
pub use inbox::{InboxSeq, InboxState, MAX_INBOX_BYTES, check_message};
pub use journal::SegmentNo;
pub use members::RUN_VARIABLE;
pub(crate) use records::now_ms;
pub use records::{ExitFile, PidFile};

/// The version that this code writes into `pid.json` and `exit.json`, and the newest that it can
/// read.
pub const FORMAT_VERSION: u32 = 1;

/// The directory of one run. It is only a path: constructing it touches no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    root: PathBuf,
}

impl RunDir {
    /// Names the run directory at `root`, whether or not it exists.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Creates the directory with its `journal/` and `inbox/`, all 0700, and touches the lease;
    /// what exists already is kept and its mode is set.
    pub fn create(&self) -> Result<(), LayoutError> {
        for dir in [self.root.clone(), self.journal(), self.inbox()] {
            files::make_dir(&dir).map_err(|source| LayoutError::io("create", &dir, source))?;
        }
        self.touch_lease()
    }

    /// Returns the directory itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the path of `pid.json`.
    pub fn pid_file(&self) -> PathBuf {
        self.root.join("pid.json")
    }

    /// Returns the path of `exit.json`.
    pub fn exit_file(&self) -> PathBuf {
        self.root.join("exit.json")
    }

    /// Returns the path of the journal's directory.
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// Returns the path of the inbox.
    pub fn inbox(&self) -> PathBuf {
        self.root.join("inbox")
    }

    /// Returns the path of the lease, whose modification time says when a server last lived.
    pub fn lease(&self) -> PathBuf {
        self.root.join("lease")
    }

    /// Returns the path of the file that marks the child as warm and idle.
    pub fn idle_mark(&self) -> PathBuf {
        self.root.join("idle")
    }

    /// Reads `pid.json`; `None` while there is none.
    pub fn read_pid(&self) -> Result<Option<PidFile>, LayoutError> {
        records::read(&self.pid_file())
    }

    /// Returns the path of the log that the shim writes until its child is started.
    pub fn shim_log(&self) -> PathBuf {
        self.root.join("shim.log")
    }

    /// Reads `exit.json`; `None` while there is none.
    pub fn read_exit(&self) -> Result<Option<ExitFile>, LayoutError> {
        records::read(&self.exit_file())
    }

    /// Writes `pid.json`.
    pub fn write_pid(&self, pid: &PidFile) -> Result<(), LayoutError> {
        records::write(&self.pid_file(), pid)
    }

    /// Writes `exit.json`.
    pub fn write_exit(&self, exit: &ExitFile) -> Result<(), LayoutError> {
        records::write(&self.exit_file(), exit)
    }

    /// Records that a server lives: sets the lease's modification time to now.
    pub fn touch_lease(&self) -> Result<(), LayoutError> {
        files::touch(&self.lease())
            .map_err(|source| LayoutError::io("touch", &self.lease(), source))
    }

    /// Returns when the lease was last touched; `None` when there is no lease.
    pub fn lease_touched_at(&self) -> Result<Option<SystemTime>, LayoutError> {
        let lease = self.lease();
        match std::fs::symlink_metadata(&lease).and_then(|meta| meta.modified()) {
            Ok(at) => Ok(Some(at)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(LayoutError::io("read the time of", &lease, source)),
        }
    }

    /// Marks the child as warm and idle: from now on it may be ended when no server is there.
    pub fn mark_idle(&self) -> Result<(), LayoutError> {
        files::touch(&self.idle_mark())
            .map_err(|source| LayoutError::io("write", &self.idle_mark(), source))
    }

    /// Removes the idle mark. The lease is touched first, so that a child which is about to get
    /// work is never seen with an old lease.
    pub fn clear_idle(&self) -> Result<(), LayoutError> {
        self.touch_lease()?;
        match std::fs::remove_file(self.idle_mark()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LayoutError::io("remove", &self.idle_mark(), error))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the child is marked warm and idle.
    pub fn is_idle(&self) -> bool {
        std::fs::symlink_metadata(self.idle_mark()).is_ok()
    }
}

#[cfg(test)]
mod tests;

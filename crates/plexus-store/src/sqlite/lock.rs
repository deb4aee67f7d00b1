//! The lock that keeps a second server out of a data directory, and names its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::file::io_error;
use crate::contract::StoreError;

/// The lock, held for as long as this lives. The kernel releases it when the process ends, however
/// it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// How much of the file is read: no process id is longer.
const MAX_HOLDER_BYTES: u64 = 32;

/// How long a lock may outlive its owner: a server that is being killed, or a process that is just
/// being started, has a copy of the descriptor for a moment after the owner released it.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the lock is tried meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl Lock {
    /// Takes the lock at `path`, or returns an error that names the holder.
    pub(super) fn take(path: &Path) -> Result<Self, StoreError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| io_error("open", path, error))?;
        let given_up = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < given_up => {
                    std::thread::sleep(LOOK_AGAIN)
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Locked { holder: holder(&mut file) });
                }
                Err(TryLockError::Error(error)) => return Err(io_error("lock", path, error)),
            }
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            writeln!(file, "{}", std::process::id())
        };
        // The flock is the lock; the number only informs. On a full disk it may be missing.
        if let Err(error) = write(&mut file) {
            tracing::warn!(%error, "could not write the process id into the lock file");
        }
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(MAX_HOLDER_BYTES).read_to_string(&mut text) {
        Ok(_) if text.trim().parse::<u32>().is_ok() => format!("the process {}", text.trim()),
        _ => "another process".to_owned(),
    }
}

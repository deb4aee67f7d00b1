//! Checks that the files being written are still those at their paths.
//!
//! A database whose files were deleted, moved or replaced can be written without an error, and all
//! of it is lost when the server stops. So nothing is acknowledged before both files were seen at
//! their paths.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::file::wal_path;
use crate::contract::StoreError;

/// Identifies a file whatever its name: its device and inode.
type FileId = (u64, u64);

/// The files of an open database.
#[derive(Debug)]
pub(super) struct Presence {
    database: Place,
    /// SQLite creates it with the first write, and keeps it open from then on.
    log: Place,
}

impl Presence {
    /// Remembers the files of the open database at `path`.
    pub(super) fn new(path: &Path) -> Self {
        // Absolute, so that the working directory may change.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let place = |path| Place { path, seen: OnceLock::new() };
        Self { log: place(wal_path(&path)), database: place(path) }
    }

    /// Refuses when a file is gone or was replaced.
    ///
    /// # Errors
    /// `Poisoned`: everything written after that is lost.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        [&self.database, &self.log].into_iter().try_for_each(Place::check)
    }
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// The file that was first seen there.
    seen: OnceLock<FileId>,
}

impl Place {
    fn check(&self) -> Result<(), StoreError> {
        let there = match std::fs::metadata(&self.path) {
            Ok(file) => Some((file.dev(), file.ino())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            // For example no descriptor or no memory, which says nothing about the file.
            Err(_) => return Ok(()),
        };
        match there {
            Some(file) if *self.seen.get_or_init(|| file) == file => Ok(()),
            None if self.seen.get().is_none() => Ok(()),
            Some(_) | None => Err(StoreError::Poisoned {
                message: format!("{} was deleted or replaced", self.path.display()),
            }),
        }
    }
}

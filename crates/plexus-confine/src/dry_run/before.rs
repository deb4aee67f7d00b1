//! The working directory as it is, read from outside the wall and never through a link.
//!
//! The program of a dry run chooses the names that are compared, and other programs may change the
//! directory meanwhile. A link on the way would show a file that the wall hides, so the kernel is
//! told to follow none.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};

/// The most names of one directory that are listed: as many changes are never shown.
const MAX_NAMES: usize = 10_000;

/// A directory, held open so that nothing can be put in its place.
pub(super) struct Before {
    root: OwnedFd,
}

impl Before {
    pub(super) fn hold(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(dir, flags, Mode::empty())? })
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), within)?.into())
    }

    /// What is at a path; a link there is not followed.
    pub(super) fn stat(&self, path: &Path) -> Option<Metadata> {
        self.open(path, OFlags::PATH).ok()?.metadata().ok()
    }

    /// Opens a file for reading. Opening a pipe does not block.
    pub(super) fn file(&self, path: &Path) -> io::Result<File> {
        self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// Where a link leads.
    pub(super) fn link(&self, path: &Path) -> Option<PathBuf> {
        let link = self.open(path, OFlags::PATH).ok()?;
        let target = rustix::fs::readlinkat(&link, "", Vec::new()).ok()?;
        Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// The names in a directory.
    pub(super) fn names(&self, path: &Path) -> Vec<OsString> {
        let dir = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY).ok().map(Dir::new);
        let entries = dir.and_then(Result::ok).into_iter().flatten().flatten();
        let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        names.filter(|name| name != "." && name != "..").take(MAX_NAMES).collect()
    }
}

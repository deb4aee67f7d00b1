//! Finds the repository that a directory belongs to, by its files alone: no program reads its
//! configuration.
//!
//! An agent may have put anything in the place of these files, also a pipe, which would hold
//! whoever opens it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// How much of a file of a repository is read: they hold a path or a few settings.
const MAX_BYTES: u64 = 64 * 1024;

/// A repository and a directory in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Repository {
    /// The top of the working tree.
    pub(super) top: PathBuf,
    /// Its objects.
    pub(super) objects: PathBuf,
    /// The index of this working tree.
    pub(super) index: PathBuf,
    /// Its own list of ignored files.
    pub(super) exclude: PathBuf,
    /// Whether its objects are named by SHA-256.
    pub(super) sha256: bool,
}

impl Repository {
    /// Finds the repository of a directory; `None` where there is none.
    pub(super) fn of(dir: &Path) -> Option<Self> {
        let dir = dir.canonicalize().ok()?;
        let (top, dot_git) = dir.ancestors().find_map(|above| {
            let dot_git = above.join(".git");
            dot_git.symlink_metadata().is_ok().then(|| (above.to_owned(), dot_git))
        })?;
        // A linked working tree has a file that names its directory.
        let own = if dot_git.is_dir() {
            dot_git
        } else {
            let named = read(&dot_git)?;
            top.join(named.trim().strip_prefix("gitdir:")?.trim())
        };
        let common = match read(&own.join("commondir")) {
            Some(common) => own.join(common.trim()),
            None => own.clone(),
        };
        let objects = common.join("objects");
        if !objects.is_dir() {
            return None;
        }
        let config = read(&common.join("config")).unwrap_or_default().to_lowercase();
        let sha256 = config.lines().any(|line| {
            let mut parts = line.split('=').map(str::trim);
            parts.next() == Some("objectformat") && parts.next() == Some("sha256")
        });
        let exclude = common.join("info/exclude");
        Some(Self { top, objects, index: own.join("index"), exclude, sha256 })
    }
}

/// Reads the beginning of a small text file.
fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Copies a file of a repository that has at most `most` bytes.
pub(super) fn copy(from: &Path, to: &Path, most: u64) -> io::Result<()> {
    let mut from = open(from)?.take(most + 1);
    let copied = io::copy(&mut from, &mut File::create(to)?);
    if copied.as_ref().is_ok_and(|bytes| *bytes <= most) {
        return Ok(());
    }
    fs::remove_file(to)?;
    copied.and(Err(io::Error::other("it is too long")))
}

/// Opens a file, and nothing else that may be in its place.
fn open(path: &Path) -> io::Result<File> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(no_wait).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(file)
}

//! Finds the repository that a directory belongs to and reads its files as data: no program reads
//! them, so nothing that they name is run.
//!
//! An agent may have put anything in the place of these files. A `.git` that names a directory
//! elsewhere counts only if that directory names this working tree in return, which the agent of
//! another directory cannot write. Objects of other repositories (`objects/info/alternates`) are
//! not read at all.

mod index;
mod objects;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use plexus_files::HeldDir;
use serde::{Deserialize, Serialize};

use super::content::Hashing;
use super::ignored::MAX_RULES;
use super::snapshot::{Snapshot, Time};

pub(super) use self::objects::Objects;

/// How much of a file of a repository is read that holds a path or a few settings.
const MAX_SETTINGS: u64 = 64 * 1024;

/// How long an index may be. That of a million files has 100 MB.
const MAX_INDEX: u64 = 128 * 1024 * 1024;

/// A repository and a directory in it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Repository {
    /// The top of the working tree.
    pub(super) top: PathBuf,
    /// The directory of its objects.
    objects: PathBuf,
    /// The digest by which its objects are named.
    pub(super) hashing: Hashing,
    /// Its own list of ignored files.
    pub(super) exclude: String,
}

impl Repository {
    /// Finds the repository of a canonical directory, and the files below the directory that its
    /// index names. `None` where there is no repository.
    ///
    /// # Errors
    /// When what is there is not read, with the reason.
    pub(super) fn of(dir: &Path) -> io::Result<Option<(Self, Snapshot)>> {
        let above = |above: &&Path| above.join(".git").symlink_metadata().is_ok();
        let Some(top) = dir.ancestors().find(above) else { return Ok(None) };
        let (own, common) = directories(top)?;
        let held = HeldDir::hold(&common)?;
        let config = String::from_utf8_lossy(&read(&held, "config")?).to_lowercase();
        let is_sha256 = settings(&config, "objectformat").any(|format| format == "sha256");
        let hashing = if is_sha256 { Hashing::Sha256 } else { Hashing::Sha1 };
        let below = dir.strip_prefix(top).unwrap_or(Path::new(""));
        let mut indexed = indexed(&HeldDir::hold(&own)?, hashing, below.as_os_str().as_bytes());
        if held.stat(Path::new("objects/info/alternates")).is_some() {
            // Which objects are its own is not known, so nothing is looked up among them.
            indexed.distrust();
        }
        let exclude = held.read(Path::new("info/exclude"), MAX_RULES).unwrap_or_default();
        let exclude = String::from_utf8_lossy(&exclude).into_owned();
        let objects = common.join("objects");
        Ok(Some((Self { top: top.to_owned(), objects, hashing, exclude }, indexed)))
    }

    /// Opens its objects.
    pub(super) fn objects(&self) -> io::Result<Objects> {
        Ok(Objects::open(HeldDir::hold(&self.objects)?, self.hashing))
    }
}

/// Returns the directory of a working tree's own files, such as its index, and the one that it
/// shares with the other working trees of its repository.
fn directories(top: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let (held, name) = (HeldDir::hold(top)?, Path::new(".git"));
    let found = held.stat(name).ok_or(ErrorKind::NotFound)?;
    if found.is_dir() {
        return Ok((top.join(name), top.join(name)));
    }
    let pointer = held.read(name, MAX_SETTINGS)?;
    let pointer = pointer.trim_ascii().strip_prefix(b"gitdir:").map(<[u8]>::trim_ascii);
    let pointer = pointer.ok_or_else(|| refused("its .git names no directory"))?;
    let own = top.join(OsStr::from_bytes(pointer)).canonicalize()?;
    let held = HeldDir::hold(&own)?;
    // A linked working tree.
    if let Ok(back) = held.read(Path::new("gitdir"), MAX_SETTINGS) {
        let back = own.join(OsStr::from_bytes(back.trim_ascii()));
        let names_us =
            back.parent().is_some_and(|back| back.canonicalize().is_ok_and(|it| it == top));
        let above = own.parent().filter(|above| above.ends_with("worktrees"));
        if let Some(common) = above.and_then(Path::parent).filter(|_| names_us) {
            let common = common.to_owned();
            return Ok((own, common));
        }
    }
    // A submodule.
    let config = String::from_utf8_lossy(&read(&held, "config")?).into_owned();
    let names_us = |tree: &str| own.join(tree).canonicalize().is_ok_and(|tree| tree == top);
    if settings(&config, "worktree").any(names_us) {
        return Ok((own.clone(), own));
    }
    Err(refused("its .git names a repository that does not name it in return"))
}

fn refused(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

/// Reads a file of settings; one that is not there is empty.
fn read(dir: &HeldDir, name: &str) -> io::Result<Vec<u8>> {
    match dir.read(Path::new(name), MAX_SETTINGS) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// The values that git itself would have written for a name.
fn settings<'a>(config: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    config.lines().filter_map(move |line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| value.trim().trim_matches('"'))
    })
}

/// The files below a directory that an index names. An index that cannot be read names none.
fn indexed(own: &HeldDir, hashing: Hashing, below: &[u8]) -> Snapshot {
    let read = || {
        let path = Path::new("index");
        let written = own.stat(path)?;
        let bytes = own.read(path, MAX_INDEX).ok()?;
        let files = index::parse(&bytes, hashing, below)?;
        Some(Snapshot { taken: Time::modified(&written), files })
    };
    read().unwrap_or_else(|| Snapshot { taken: Time::default(), files: BTreeMap::new() })
}

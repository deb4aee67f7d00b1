//! Finds the repository that a directory belongs to, by its files alone: no program reads its
//! configuration.

use std::fs;
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
    use std::io::Read as _;
    let file = fs::File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

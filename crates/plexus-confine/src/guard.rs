//! Files in writable places through which a program could run code outside the wall later.
//!
//! The full tier mounts those that exist read-only. The landlock tier cannot take a right away
//! below a directory that it gave it for, and no tier puts placeholders where nothing is. So a
//! [`Watch`] compares before and after, and the caller reports what changed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Names in a writable directory that tools outside read as code or as the names of programs.
pub(crate) const IN_A_DIRECTORY: &[&str] = &[
    // Shells and their helpers.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".envrc",
    ".mise.toml",
    ".tool-versions",
    // Editors.
    ".vscode",
    ".idea",
    ".zed",
    ".nvim.lua",
    ".exrc",
    ".devcontainer",
    // Agents.
    ".claude",
    ".mcp.json",
    ".cursor",
    ".codex",
    ".gemini",
    ".opencode",
    // Git hooks of other tools.
    ".husky",
    ".pre-commit-config.yaml",
    ".gitmodules",
];

/// Names in a git directory that git outside runs, or that say what it runs.
pub(crate) const IN_A_GIT_DIRECTORY: &[&str] =
    &["hooks", "config", "config.worktree", "info/attributes", "commondir", "gitdir"];

/// The most submodules whose hooks and configuration are protected one by one.
const MAX_SUBMODULES: usize = 64;
/// The most files of one watched place that are compared. A change of a file beyond them is not
/// noticed.
const MAX_FILES: usize = 4_096;
/// The most bytes of one file that are compared. Settings are smaller.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The most bytes of one watched place that are compared. Of the files beyond, their sizes are.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Returns the places to protect below a writable directory, whether they exist or not.
#[must_use]
pub fn places(dir: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = IN_A_DIRECTORY.iter().map(|name| dir.join(name)).collect();
    let git = dir.join(".git");
    match git.symlink_metadata() {
        Ok(meta) if meta.is_dir() => places.extend(places_of_git(&git)),
        // A link or a file that names another directory: changing it changes whose hooks run.
        Ok(_) | Err(_) => places.push(git),
    }
    places
}

/// Whether a directory is what git keeps a repository in.
fn is_git_directory(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && dir.join("objects").is_dir()
}

/// Returns the places to protect in a git directory and in its submodules.
#[must_use]
pub fn places_of_git(git: &Path) -> Vec<PathBuf> {
    let of = |dir: &Path| -> Vec<PathBuf> {
        IN_A_GIT_DIRECTORY.iter().map(|name| dir.join(name)).collect()
    };
    let mut places = of(git);
    for family in ["modules", "worktrees"] {
        let entries = fs::read_dir(git.join(family)).into_iter().flatten().flatten();
        for entry in entries.take(MAX_SUBMODULES) {
            places.extend(of(&entry.path()));
        }
    }
    places
}

/// The state of the places to protect, to be compared after the program has worked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Watch {
    before: Vec<(PathBuf, Option<[u8; 32]>)>,
}

impl Watch {
    /// Looks at the places below these directories.
    #[must_use]
    pub fn begin(dirs: &[PathBuf]) -> Self {
        let of = |dir: &PathBuf| match is_git_directory(dir) {
            // The repository of a linked worktree.
            true => places_of_git(dir),
            false => places(dir),
        };
        let places: BTreeSet<PathBuf> = dirs.iter().flat_map(of).collect();
        let before = places.into_iter().map(|place| {
            let digest = digest(&place);
            (place, digest)
        });
        Self { before: before.collect() }
    }

    /// Returns the places that are different now.
    #[must_use]
    pub fn changed(&self) -> Vec<PathBuf> {
        let mut changed: Vec<PathBuf> = Vec::new();
        for (place, before) in &self.before {
            if digest(place) != *before && !changed.iter().any(|known| place.starts_with(known)) {
                changed.push(place.clone());
            }
        }
        changed
    }
}

/// A digest of everything at a place; `None` when nothing is there.
fn digest(place: &Path) -> Option<[u8; 32]> {
    place.symlink_metadata().ok()?;
    let mut hasher = Sha256::new();
    let mut left = Left { files: MAX_FILES, bytes: MAX_BYTES };
    if add(&mut hasher, place, &mut left).is_err() {
        // What cannot be read now could be read before or the other way round: a change as well.
        hasher.update(b"unreadable");
    }
    Some(hasher.finalize().into())
}

/// How much of a place may still be compared.
struct Left {
    files: usize,
    bytes: u64,
}

/// Adds everything at a place: a directory, then what is in it. The program chooses how deep its
/// directories lie, so nothing here recurses.
fn add(hasher: &mut Sha256, place: &Path, left: &mut Left) -> io::Result<()> {
    let mut waiting = vec![place.to_owned()];
    while let Some(path) = waiting.pop() {
        if left.files == 0 {
            return Ok(());
        }
        left.files -= 1;
        let meta = path.symlink_metadata()?;
        hasher.update(path.as_os_str().as_bytes());
        hasher.update([0]);
        if meta.is_symlink() {
            hasher.update(fs::read_link(&path)?.as_os_str().as_bytes());
        } else if meta.is_dir() {
            let mut names: Vec<PathBuf> =
                fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
            names.sort();
            // The last one that is put down is the first that is taken up.
            waiting.extend(names.into_iter().rev());
        } else if meta.is_file() {
            hasher.update(meta.len().to_le_bytes());
            let mut bytes = Vec::new();
            let most = MAX_FILE_BYTES.min(left.bytes);
            let read = open(&path)?.take(most).read_to_end(&mut bytes)?;
            left.bytes = left.bytes.saturating_sub(read as u64);
            hasher.update(&bytes);
        }
    }
    Ok(())
}

/// Opens a file that the program may have replaced since it was looked at: a link is not followed,
/// and a pipe does not hold us.
fn open(path: &Path) -> io::Result<fs::File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{nested_below, on_a_small_stack};

    #[test]
    fn a_watch_reports_what_was_made_changed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at(".git/hooks")).unwrap();
        fs::write(at(".git/config"), "[core]").unwrap();
        fs::write(at(".envrc"), "export A=1").unwrap();
        fs::write(at("code.rs"), "fn main() {}").unwrap();
        let watch = Watch::begin(&[dir.path().to_owned()]);
        assert_eq!(watch.changed(), Vec::<PathBuf>::new());

        fs::write(at("code.rs"), "fn main() { }").unwrap();
        assert_eq!(watch.changed(), Vec::<PathBuf>::new(), "code is the work itself");

        fs::write(at(".git/hooks/pre-commit"), "#!/bin/sh").unwrap();
        fs::write(at(".git/config"), "[user]").unwrap();
        fs::remove_file(at(".envrc")).unwrap();
        fs::create_dir(at(".vscode")).unwrap();
        let mut expected = vec![at(".envrc"), at(".git/config"), at(".git/hooks"), at(".vscode")];
        expected.sort();
        assert_eq!(watch.changed(), expected);
    }

    #[test]
    fn a_place_deeper_than_a_stack_can_follow_is_compared() {
        let dir = tempfile::tempdir().unwrap();
        let last = nested_below(&dir.path().join(".idea"));
        let before = on_a_small_stack(|| digest(dir.path()));
        fs::write(last.join("x"), "x").unwrap();
        assert_ne!(on_a_small_stack(|| digest(dir.path())), before);
    }
}

//! Files in writable places through which a program could run code outside the wall later.
//!
//! The full tier mounts those that exist read-only. In git directories, where making a file is
//! enough to have git outside run something, it first puts a [`Mask`] where nothing is: only what
//! exists can be mounted. The landlock tier cannot take a right away below a directory that it gave
//! it for. So a [`Watch`] compares before and after, and the caller reports what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a place holds that says no more than nothing there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mask {
    /// A directory without anything in it.
    EmptyDirectory,
    /// A file without anything in it.
    EmptyFile,
    /// A file that names the directory it is in.
    ThisDirectory,
}

/// The text of [`Mask::ThisDirectory`].
const THIS_DIRECTORY: &str = ".\n";

impl Mask {
    /// Returns the text of the file; `None` for a directory.
    pub(crate) fn text(self) -> Option<&'static str> {
        match self {
            Self::EmptyDirectory => None,
            Self::EmptyFile => Some(""),
            Self::ThisDirectory => Some(THIS_DIRECTORY),
        }
    }

    /// Says whether a place holds this and nothing else.
    fn is_at(self, place: &Path) -> bool {
        let Ok(meta) = place.symlink_metadata() else { return false };
        match self.text() {
            None => meta.is_dir() && fs::read_dir(place).is_ok_and(|mut it| it.next().is_none()),
            Some(text) => {
                let mut found = Vec::new();
                let most = text.len() as u64 + 1;
                meta.is_file()
                    && open(place).is_ok_and(|it| it.take(most).read_to_end(&mut found).is_ok())
                    && found == text.as_bytes()
            }
        }
    }
}

/// Names in the git directory of a repository or a submodule that git outside runs, or that say
/// what it runs, and what masks them where they are missing. `commondir` names the directory whose
/// configuration and hooks count; git takes its own where there is none.
const IN_A_REPOSITORY: &[(&str, Option<Mask>)] = &[
    ("hooks", Some(Mask::EmptyDirectory)),
    ("config", Some(Mask::EmptyFile)),
    ("config.worktree", Some(Mask::EmptyFile)),
    ("info/attributes", Some(Mask::EmptyFile)),
    ("commondir", Some(Mask::ThisDirectory)),
];

/// The same in what a repository keeps of a linked worktree.
const IN_A_WORKTREE: &[(&str, Option<Mask>)] =
    &[("commondir", None), ("gitdir", None), ("config.worktree", Some(Mask::EmptyFile))];

/// Where git keeps the commands of a rebase that has stopped, which `git rebase --continue` runs.
/// Git inside must write it, so a change is only reported.
const STOPPED_REBASE: &str = "rebase-merge/git-rebase-todo";

/// The most submodules whose hooks and configuration are protected one by one.
const MAX_SUBMODULES: usize = 64;
/// The most files of one watched place that are compared. A change of a file beyond them is not
/// noticed.
const MAX_FILES: usize = 4_096;
/// The most bytes of one file that are compared. Settings are smaller.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The most bytes of one watched place that are compared. Of the files beyond, their sizes are.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A place to protect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// What masks it while nothing is there.
    pub(crate) mask: Option<Mask>,
}

/// Returns the places to protect below a writable directory, whether they exist or not.
#[must_use]
pub fn places(dir: &Path) -> Vec<PathBuf> {
    places_of_project(dir).into_iter().map(|place| place.path).collect()
}

/// Returns the same, with their masks.
pub(crate) fn places_of_project(dir: &Path) -> Vec<Place> {
    let unmasked = |path: PathBuf| Place { path, mask: None };
    let mut places: Vec<Place> =
        plexus_files::protected().map(|name| unmasked(dir.join(name))).collect();
    let git = dir.join(".git");
    match git.symlink_metadata() {
        Ok(meta) if meta.is_dir() => places.extend(places_of_git(&git)),
        // A link or a file that names another directory: changing it changes whose hooks run.
        Ok(_) | Err(_) => places.push(unmasked(git)),
    }
    places
}

/// Whether a directory is what git keeps a repository in.
fn is_git_directory(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && dir.join("objects").is_dir()
}

/// Returns the places to protect in a git directory, and in what it keeps of submodules and linked
/// worktrees.
pub(crate) fn places_of_git(git: &Path) -> Vec<Place> {
    let entries = |family: &str| {
        let entries = fs::read_dir(git.join(family)).into_iter().flatten().flatten();
        entries.take(MAX_SUBMODULES).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let repositories = std::iter::once(git.to_owned()).chain(entries("modules"));
    let repositories = repositories.map(|dir| (dir, IN_A_REPOSITORY));
    let worktrees = entries("worktrees").into_iter().map(|dir| (dir, IN_A_WORKTREE));
    let all = repositories.chain(worktrees).flat_map(|(dir, names)| {
        names.iter().map(move |(name, mask)| Place { path: dir.join(name), mask: *mask })
    });
    all.collect()
}

/// Returns where git keeps the commands of stopped rebases.
fn stopped_rebases(git: &Path) -> Vec<Place> {
    let worktrees = fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten();
    let worktrees = worktrees.take(MAX_SUBMODULES).map(|entry| entry.path());
    let dirs = std::iter::once(git.to_owned()).chain(worktrees);
    dirs.map(|dir| Place { path: dir.join(STOPPED_REBASE), mask: None }).collect()
}

/// The state of the places to protect, to be compared after the program has worked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Watch {
    before: Vec<(PathBuf, Option<[u8; 32]>)>,
    /// What says as much as nothing. A watch of an earlier release has none.
    #[serde(default)]
    masks: BTreeMap<PathBuf, Mask>,
}

impl Watch {
    /// Looks at the places below these directories.
    #[must_use]
    pub fn begin(dirs: &[PathBuf]) -> Self {
        let of = |dir: &PathBuf| {
            // The repository of a linked worktree is writable as a whole.
            let (git, mut places) = match is_git_directory(dir) {
                true => (dir.clone(), places_of_git(dir)),
                false => (dir.join(".git"), places_of_project(dir)),
            };
            places.extend(stopped_rebases(&git));
            places
        };
        let places: Vec<Place> = dirs.iter().flat_map(of).collect();
        let masks: BTreeMap<PathBuf, Mask> =
            places.iter().filter_map(|place| Some((place.path.clone(), place.mask?))).collect();
        let paths: BTreeSet<PathBuf> = places.into_iter().map(|place| place.path).collect();
        let before = paths.into_iter().map(|path| {
            let state = state(&path, masks.get(&path));
            (path, state)
        });
        Self { before: before.collect(), masks }
    }

    /// Returns the places that are different now.
    #[must_use]
    pub fn changed(&self) -> Vec<PathBuf> {
        let mut changed: Vec<PathBuf> = Vec::new();
        for (place, before) in &self.before {
            let is_known = |known: &PathBuf| place.starts_with(known);
            if state(place, self.masks.get(place)) != *before && !changed.iter().any(is_known) {
                changed.push(place.clone());
            }
        }
        changed
    }
}

/// A digest of everything at a place; `None` when nothing is there, or what says the same.
fn state(place: &Path, mask: Option<&Mask>) -> Option<[u8; 32]> {
    match mask {
        Some(mask) if mask.is_at(place) => None,
        Some(_) | None => digest(place),
    }
}

/// A digest of everything at a path; `None` when nothing is there.
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
    fn a_watch_takes_a_mask_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main").unwrap();
        let watch = Watch::begin(&[dir.path().to_owned()]);
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::create_dir_all(git.join("info")).unwrap();
        fs::write(git.join("info/attributes"), "").unwrap();
        fs::write(git.join("commondir"), THIS_DIRECTORY).unwrap();
        assert_eq!(watch.changed(), Vec::<PathBuf>::new());

        fs::write(git.join("commondir"), "./x\n").unwrap();
        fs::create_dir_all(git.join("rebase-merge")).unwrap();
        fs::write(git.join(STOPPED_REBASE), "exec true").unwrap();
        fs::write(git.join("hooks/pre-commit"), "#!/bin/sh").unwrap();
        let expected = ["commondir", "hooks", STOPPED_REBASE].map(|name| git.join(name));
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

//! Directories in the temporary directory, for runs that belong to no server's data.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::plan::Plan;

/// What the names of these directories begin with. Builds before there were locks used another one,
/// and the directories of their running programs are not locked.
const PREFIX: &str = "plexus-run-";

/// How often another name is tried when a sweep was faster than we.
const TRIES: usize = 8;

/// A directory for one run, for this user alone, that goes with its value.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Locked for as long as we live, so that a [`sweep`] tells ours from what was left. Nothing on
    /// a file system without locks, where a sweep removes nothing either.
    _held: Option<File>,
}

impl RunDir {
    /// Makes one in the temporary directory of this machine.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let mut random = [0; 8];
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            let path = parent.join(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)));
            fs::DirBuilder::new().mode(0o700).create(&path)?;
            let held = match lock(&path) {
                Ok(held) => Some(held),
                // A sweep found it before it was locked.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotFound) =>
                {
                    continue;
                }
                Err(_) => None,
            };
            let dir = Self { path: path.canonicalize()?, _held: held };
            for name in ["work", "temp"] {
                fs::create_dir(dir.path.join(name))?;
            }
            return Ok(dir);
        }
        Err(io::Error::other(format!("{TRIES} directories were removed at once by somebody else")))
    }

    /// Returns the directory. The program does not see it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the files of a plan and writes it down, for the stage. Returns the plan's file.
    ///
    /// # Errors
    /// When they cannot be made, or there is a plan already.
    pub fn put(&self, plan: &Plan) -> io::Result<PathBuf> {
        plan.prepare()?;
        let file = self.path.join("plan");
        plan.write_to(&file)?;
        Ok(file)
    }

    /// Returns the part of it that is the run's temporary directory.
    #[must_use]
    pub fn temp_dir(&self) -> PathBuf {
        self.path.join("temp")
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _left_behind_in_the_temporary_directory = plexus_files::remove_all(&self.path);
    }
}

/// Removes what killed runs of this user have left in the temporary directory, on a thread of its
/// own: programs decided how much that is, and nobody waits for it. What cannot be removed, because
/// a program still writes into it or this process ends first, is left for the next sweep.
pub fn sweep() {
    let work = || sweep_in(&std::env::temp_dir());
    let _without_a_thread_it_is_left_too = std::thread::Builder::new().spawn(work);
}

fn sweep_in(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let own = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if is_ours && let Ok(_held) = lock(&entry.path()) {
            let _left_for_the_next_sweep = plexus_files::remove_all(&entry.path());
        }
    }
}

/// Locks a directory. The error is `WouldBlock` when somebody else has it, and `NotFound` when
/// somebody else has removed it.
fn lock(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let dir = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    dir.try_lock()?;
    let (locked, found) = (dir.metadata()?, fs::symlink_metadata(path)?);
    if (locked.dev(), locked.ino()) != (found.dev(), found.ino()) {
        return Err(ErrorKind::NotFound.into());
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_tree_that_is_deeper_than_a_path_can_be_is_removed() {
        let dir = RunDir::new().unwrap();
        let path = dir.path().to_owned();
        // Made from the inside out, because the whole of it has no name.
        let name = "d".repeat(200);
        for _ in 0..50 {
            let work = path.join("work");
            fs::rename(&work, path.join("inner")).unwrap();
            fs::create_dir(&work).unwrap();
            fs::rename(path.join("inner"), work.join(&name)).unwrap();
        }
        fs::write(path.join("temp/file"), "x").unwrap();
        std::os::unix::fs::symlink("/", path.join("temp/link")).unwrap();
        fs::set_permissions(path.join("temp"), fs::Permissions::from_mode(0o000)).unwrap();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn a_sweep_removes_what_a_killed_process_has_left_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let ours = RunDir::new_in(parent.path()).unwrap();
        let left = parent.path().join(format!("{PREFIX}0000000000000001"));
        // What the kernel makes in the state of an overlay.
        let state = left.join("overlay/7/work/work");
        fs::create_dir_all(&state).unwrap();
        fs::write(left.join("plan"), "{}").unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o000)).unwrap();
        // An earlier build, which was interrupted while it removed it, has moved these here.
        for number in 0..6 {
            fs::create_dir_all(left.join(format!("{number}.moved/below"))).unwrap();
        }
        let others = parent.path().join("others");
        fs::create_dir(&others).unwrap();
        let link = parent.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(&others, &link).unwrap();
        sweep_in(parent.path());
        assert!(!left.exists());
        assert!(ours.temp_dir().exists(), "it is in use");
        assert!(others.exists() && link.is_symlink());
        let path = ours.path().to_owned();
        drop(ours);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_a_sweep_has_locked_is_not_taken() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("dir");
        fs::create_dir(&dir).unwrap();
        let held = lock(&dir).unwrap();
        assert_eq!(lock(&dir).unwrap_err().kind(), ErrorKind::WouldBlock);
        fs::remove_dir(&dir).unwrap();
        assert_eq!(lock(&dir).unwrap_err().kind(), ErrorKind::NotFound);
        drop(held);
    }
}

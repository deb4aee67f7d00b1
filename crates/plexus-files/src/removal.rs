//! Removes directories that an untrusted program has filled, even while it still changes them.
//!
//! Such a program can replace a directory by a link at any moment, take all rights from one, and
//! nest them deeper than a path can be long or a stack can follow. So:
//! - every call names one entry of a directory that is held open, and follows no link;
//! - the kernel says what an entry is when it removes it, not a listing that was read before;
//! - what lies too deep is moved to the top first.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

/// How deep a directory may lie to be emptied in its place. Each level holds two descriptors and a
/// piece of the stack; what agents and tool chains write is seldom deeper.
const MAX_DEPTH: usize = 32;

/// Removes a directory with everything in it, also with directories that nobody may enter: the
/// kernel leaves such ones below a wall, and an agent can make them.
///
/// The way to `path` must be safe: nobody untrusted may replace a directory above it.
///
/// # Errors
/// When `path` is not a directory, or something in it cannot be removed. Another call goes on with
/// what is left.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let top = open(CWD, path)?;
    let mut moved = Moved::none()?;
    empty(&top, 0, &top, &mut moved)?;
    while let Some(name) = moved.pop() {
        remove(&top, name.as_str(), 1, &top, &mut moved)?;
    }
    fs::remove_dir(path)
}

/// Removes everything in a directory. What would lie too deep comes to the top instead.
fn empty(dir: &OwnedFd, depth: usize, top: &OwnedFd, moved: &mut Moved) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in Dir::new(openat(dir, ".", flags, Mode::empty())?)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") && !moved.has(name) {
            remove(dir, name, depth + 1, top, moved)?;
        }
    }
    Ok(())
}

/// Removes one entry of a directory.
fn remove(
    dir: &OwnedFd,
    name: impl Arg + Copy,
    depth: usize,
    top: &OwnedFd,
    moved: &mut Moved,
) -> io::Result<()> {
    let done = match unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => match open(dir, name) {
            Ok(found) if depth <= MAX_DEPTH => {
                empty(&found, depth, top, moved)?;
                unlinkat(dir, name, AtFlags::REMOVEDIR)
            }
            Ok(_) => renameat(dir, name, top, moved.add()),
            // Something else took the place of the directory since.
            Err(Errno::NOTDIR) => unlinkat(dir, name, AtFlags::empty()),
            Err(error) => Err(error),
        },
        done => done,
    };
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

/// Holds the directory of this name, which is not a link, with all rights in it: to list it, to
/// remove its entries, and to move it itself.
fn open(at: impl AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(at, name, flags, Mode::empty())?;
    if !Mode::from_raw_mode(fstat(&dir)?.st_mode).contains(Mode::RWXU) {
        // By its descriptor, because its name may lead elsewhere by now.
        chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), Mode::RWXU)?;
    }
    Ok(dir)
}

/// The directories that were moved to the top and are still to be removed.
struct Moved {
    /// What their names begin with. It is random, so nothing else is called so, nor is anything that
    /// an interrupted removal has left.
    mark: String,
    count: u64,
    removed: u64,
}

impl Moved {
    fn none() -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let mark = format!("{:016x}-", u64::from_ne_bytes(random));
        Ok(Self { mark, count: 0, removed: 0 })
    }

    fn has(&self, name: &CStr) -> bool {
        name.to_bytes().starts_with(self.mark.as_bytes())
    }

    fn name(&self, number: u64) -> String {
        format!("{}{number}", self.mark)
    }

    /// Returns the name for another one.
    fn add(&mut self) -> String {
        let name = self.name(self.count);
        self.count += 1;
        name
    }

    /// Returns the name of one that is still to be removed.
    fn pop(&mut self) -> Option<String> {
        if self.removed == self.count {
            return None;
        }
        let name = self.name(self.removed);
        self.removed += 1;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;
    use std::thread;

    use rustix::fs::{mkdirat, statat, symlinkat};

    use super::*;

    /// Makes a directory with a directory in it, and so on, and returns the first.
    fn nested(dir: &Path, depth: usize) -> PathBuf {
        let first = dir.join("nested");
        fs::create_dir(&first).unwrap();
        let mut dir = open(CWD, &first).unwrap();
        for _ in 1..depth {
            mkdirat(&dir, "below", Mode::RWXU).unwrap();
            dir = open(&dir, "below").unwrap();
        }
        first
    }

    #[test]
    fn a_tree_deeper_than_a_stack_can_follow_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        for depth in [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 10 * MAX_DEPTH, 15_000] {
            let tree = nested(folder.path(), depth);
            remove_all(&tree).unwrap();
            assert!(!tree.exists(), "{depth}");
        }
    }

    #[test]
    fn files_links_and_closed_directories_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, outside) = (folder.path().join("tree"), folder.path().join("outside"));
        fs::create_dir_all(tree.join("closed/below")).unwrap();
        fs::create_dir_all(tree.join("read-only/below")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "x").unwrap();
        fs::write(tree.join("read-only/file"), "x").unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        for (name, mode) in [("closed/below", 0o000), ("closed", 0o000), ("read-only", 0o500)] {
            fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        remove_all(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("file").exists());
    }

    #[test]
    fn only_a_directory_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("outside")).unwrap();
        fs::write(at("file"), "x").unwrap();
        symlink(at("outside"), at("link")).unwrap();
        for (name, kind) in [
            ("file", io::ErrorKind::NotADirectory),
            ("link", io::ErrorKind::NotADirectory),
            ("missing", io::ErrorKind::NotFound),
        ] {
            assert_eq!(remove_all(&at(name)).unwrap_err().kind(), kind, "{name}");
        }
        assert!(at("outside").exists() && at("link").is_symlink() && at("file").exists());
    }

    /// Plays a program that puts links to `outside` in the place of the directories below `tree` as
    /// soon as the first of them is gone, while a listing still calls the others directories.
    /// Returns whether it could replace one in time.
    fn swap_while_it_is_removed(tree: &Path, outside: &Path, taken: &Path) -> bool {
        let names: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        for name in &names {
            fs::create_dir_all(tree.join("inside").join(name)).unwrap();
        }
        // Held, because the removal may move it.
        let inside = open(CWD, tree.join("inside")).unwrap();
        let program = || {
            let is_there = |name: &String| statat(&inside, name, AtFlags::empty()).is_ok();
            while names.iter().all(is_there) {}
            names.iter().fold(false, |swapped, name| {
                let swaps = renameat(&inside, name, CWD, taken.join(name))
                    .and_then(|()| symlinkat(outside, &inside, name));
                swapped | swaps.is_ok()
            })
        };
        thread::scope(|scope| {
            let program = scope.spawn(program);
            // It fails where a link came after the listing.
            let _links_may_be_left = remove_all(tree);
            program.join().unwrap()
        })
    }

    #[test]
    fn nothing_is_removed_through_a_directory_that_becomes_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "x").unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o750)).unwrap();
        // On a busy machine the program may come too late.
        let mut swapped = 0;
        for round in 0..1_000 {
            let [tree, taken] =
                ["tree", "taken"].map(|it| folder.path().join(format!("{it}-{round}")));
            fs::create_dir_all(&taken).unwrap();
            swapped += u32::from(swap_while_it_is_removed(&tree, &outside, &taken));
            assert!(outside.join("file").exists(), "it was removed");
            assert_eq!(outside.metadata().unwrap().permissions().mode() & 0o777, 0o750);
            if swapped == 10 {
                return;
            }
        }
        panic!("only {swapped} of 1000 rounds put a link in the place of a directory");
    }
}

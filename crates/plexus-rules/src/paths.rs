//! Following `..` and symbolic links, one step at a time, also for files that do not exist yet.
//!
//! `std::fs::canonicalize` fails on a missing file, and trying its parents instead would miss a
//! dangling link: a Write through one creates the link's target. So we walk as the kernel does. The
//! result may change before the tool runs: a rule is not a sandbox.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The most links followed for one path; the kernel's own limit, so that a loop ends the same way.
pub const MAX_LINKS: usize = 40;

/// The longest path that the kernel opens. A tool could shorten a longer one by itself, so nothing
/// is known of where that leads.
pub(super) const MAX_PATH_BYTES: usize = 4096;

/// What is at one path, without following a link there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Nothing is there.
    Missing,
    /// A file, a directory or anything else that is not a link.
    Plain,
    /// A symbolic link and where it points, as written.
    Link(PathBuf),
}

/// The only access to the file system that rules have.
pub trait PathResolver: Send + Sync {
    /// Says what is at `path`, whose parent was already followed.
    ///
    /// # Errors
    /// When it cannot be known, for example because a directory may not be searched. Somebody is
    /// then asked about the call.
    fn look(&self, path: &Path) -> io::Result<Entry>;

    /// Says whether `path` exists and no step of it is a link, in one lookup. `false` proves
    /// nothing: the caller then checks every step.
    fn leads_straight(&self, _path: &Path) -> bool {
        false
    }

    /// Returns the names in the directory `path`, which has no links in it.
    ///
    /// # Errors
    /// When it is not a directory, or cannot be read, or holds more than `most` names. Somebody is
    /// then asked about the call.
    fn names(&self, _path: &Path, _most: usize) -> io::Result<Vec<OsString>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealPaths;

impl PathResolver for RealPaths {
    fn look(&self, path: &Path) -> io::Result<Entry> {
        match std::fs::read_link(path) {
            Ok(target) => Ok(Entry::Link(target)),
            // The kernel's answer for something that exists and is not a link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(Entry::Plain),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Entry::Missing),
            Err(error) => Err(error),
        }
    }

    fn names(&self, path: &Path, most: usize) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path)? {
            if names.len() >= most {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            names.push(entry?.file_name());
        }
        Ok(names)
    }

    // Most paths have no link in them, and disk lookups dominate the cost of a decision. Here the
    // kernel walks all steps in one lookup.
    #[cfg(target_os = "linux")]
    fn leads_straight(&self, path: &Path) -> bool {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
        openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
            .is_ok()
    }
}

/// Why a path could not be followed.
#[derive(Debug, thiserror::Error)]
pub enum Unresolved {
    /// Only absolute paths can be followed.
    #[error("the path is not absolute")]
    Relative,
    /// `..` below something that does not exist: where it leads depends on what is created first.
    #[error("`..` below a directory that does not exist")]
    ParentOfMissing,
    /// More than [`MAX_LINKS`] links.
    #[error("more than {MAX_LINKS} symbolic links")]
    TooManyLinks,
    /// `/proc` shows another tree to each process, so what we see there is not what the child will
    /// see.
    #[error("the path leads through /proc, which differs from process to process")]
    Proc,
    /// The file system returned an error.
    #[error("the file system did not say what is there: {0}")]
    Io(#[from] io::Error),
}

/// Returns where `path` really is: no `.`, no `..`, no link. The missing end of a path is placed
/// below its nearest existing ancestor.
///
/// # Errors
/// When that cannot be known; see [`Unresolved`].
pub fn resolve(paths: &dyn PathResolver, path: &Path) -> Result<PathBuf, Unresolved> {
    if !path.is_absolute() {
        return Err(Unresolved::Relative);
    }
    if let Some(straight) = straight(paths, path)? {
        return Ok(straight);
    }
    let mut here = PathBuf::from("/");
    let mut todo = steps(path);
    let mut links = 0;
    let mut missing = false;
    while let Some(step) = todo.pop_front() {
        match step {
            Step::Up if missing => return Err(Unresolved::ParentOfMissing),
            Step::Up => {
                here.pop();
            }
            Step::Into(name) => {
                here.push(&name);
                if here.starts_with("/proc") {
                    return Err(Unresolved::Proc);
                }
                if missing {
                    continue;
                }
                match paths.look(&here)? {
                    Entry::Plain => {}
                    Entry::Missing => missing = true,
                    Entry::Link(target) => {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(Unresolved::TooManyLinks);
                        }
                        if target.is_absolute() {
                            here = PathBuf::from("/");
                        } else {
                            here.pop();
                        }
                        for step in steps(&target).into_iter().rev() {
                            todo.push_front(step);
                        }
                    }
                }
            }
        }
    }
    Ok(here)
}

/// Returns the path itself if it has no `..` and no link in it. Only its last step may be missing.
fn straight(paths: &dyn PathResolver, path: &Path) -> Result<Option<PathBuf>, Unresolved> {
    if path.components().any(|step| step == Component::ParentDir) || path.starts_with("/proc") {
        return Ok(None);
    }
    let plain: PathBuf = path.components().collect();
    if paths.leads_straight(&plain) {
        return Ok(Some(plain));
    }
    // A file that is yet to be written is in a directory that exists.
    if !plain.parent().is_some_and(|parent| paths.leads_straight(parent)) {
        return Ok(None);
    }
    Ok(match paths.look(&plain)? {
        Entry::Missing | Entry::Plain => Some(plain),
        Entry::Link(_) => None,
    })
}

enum Step {
    Up,
    Into(OsString),
}

fn steps(path: &Path) -> VecDeque<Step> {
    path.components()
        .filter_map(|component| match component {
            Component::ParentDir => Some(Step::Up),
            Component::Normal(name) => Some(Step::Into(name.to_owned())),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    struct Map(HashMap<&'static str, Entry>);

    impl PathResolver for Map {
        fn look(&self, path: &Path) -> io::Result<Entry> {
            Ok(self.0.get(path.to_str().unwrap()).cloned().unwrap_or(Entry::Missing))
        }
    }

    fn world() -> Map {
        let link = |to: &str| Entry::Link(PathBuf::from(to));
        Map(HashMap::from([
            ("/src", Entry::Plain),
            ("/src/a.rs", Entry::Plain),
            ("/src/out", link("/etc")),
            ("/src/dangling", link("../secret/new")),
            ("/src/loop", link("loop")),
            ("/src/here", link(".")),
            ("/etc", Entry::Plain),
            ("/etc/passwd", Entry::Plain),
        ]))
    }

    fn at(path: &str) -> Result<String, String> {
        resolve(&world(), Path::new(path))
            .map(|p| p.to_str().unwrap().to_owned())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn links_and_parents_are_followed_as_the_kernel_does() {
        for (path, really) in [
            ("/src/a.rs", "/src/a.rs"),
            ("/src/./a.rs/", "/src/a.rs"),
            ("/src/../etc/passwd", "/etc/passwd"),
            ("/src/out/passwd", "/etc/passwd"),
            // By its text this is /src/a.rs; with links followed it is beside /etc.
            ("/src/out/../a.rs", "/a.rs"),
            ("/src/here/here/a.rs", "/src/a.rs"),
            ("/src/new/deep/file", "/src/new/deep/file"),
            // A Write through a dangling link creates its target.
            ("/src/dangling", "/secret/new"),
            ("/../../etc", "/etc"),
        ] {
            assert_eq!(at(path), Ok(really.to_owned()), "{path}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_resolved_is_an_error() {
        for path in
            ["src/a.rs", "/src/loop", "/src/new/../../etc", "/proc/self/root/etc", "/proc/1/cwd"]
        {
            assert!(at(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_write_through_a_real_link_is_placed_at_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("tree")).unwrap();
        std::fs::create_dir(root.join("outside")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("tree/link")).unwrap();
        std::os::unix::fs::symlink("../outside/unborn", root.join("tree/dangling")).unwrap();
        assert_eq!(
            resolve(&RealPaths, &root.join("tree/link/new")).unwrap(),
            root.join("outside/new")
        );
        assert_eq!(
            resolve(&RealPaths, &root.join("tree/dangling")).unwrap(),
            root.join("outside/unborn")
        );
        assert_eq!(
            resolve(&RealPaths, &root.join("tree/link/../outside")).unwrap(),
            root.join("outside")
        );
        assert_eq!(resolve(&RealPaths, &root.join("tree/new")).unwrap(), root.join("tree/new"));
        assert_eq!(resolve(&RealPaths, &root.join("./tree//")).unwrap(), root.join("tree"));
        assert!(
            RealPaths.leads_straight(&root.join("tree"))
                && !RealPaths.leads_straight(&root.join("tree/link"))
        );
        assert!(
            !RealPaths.leads_straight(&root.join("tree/link/new"))
                && !RealPaths.leads_straight(&root.join("none"))
        );
        std::fs::write(root.join("tree/file"), "x").unwrap();
        assert!(
            resolve(&RealPaths, &root.join("tree/file/below")).is_err(),
            "a file is no directory"
        );
    }
}

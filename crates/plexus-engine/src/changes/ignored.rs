//! Which files a repository leaves out: its `.gitignore` files and its own list.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use plexus_files::HeldDir;

/// How many bytes of rules a file may have. One that is longer leaves out nothing.
pub(super) const MAX_RULES: u64 = 64 * 1024;

/// The rules that hold in a directory: its own, and those of the directories above it.
#[derive(Clone)]
pub(super) struct Rules(Option<Rc<Level>>);

struct Level {
    rules: Gitignore,
    above: Rules,
}

impl Rules {
    /// Returns the rules of a repository's own list and of the directories from its top to `dir`,
    /// which is not included.
    pub(super) fn above(top: &Path, dir: &Path, exclude: &str) -> Self {
        let rules = Self(None).and(top, exclude);
        let below = dir.strip_prefix(top).unwrap_or(Path::new(""));
        let Ok(held) = HeldDir::hold(top) else { return rules };
        let mut at = PathBuf::new();
        below.components().fold(rules, |rules, part| {
            let rules = rules.and_of(&held, &at, &top.join(&at));
            at.push(part);
            rules
        })
    }

    /// Adds the rules of a directory, which is at `path` below `held` and has this full name.
    pub(super) fn and_of(self, held: &HeldDir, path: &Path, name: &Path) -> Self {
        match held.read(&path.join(".gitignore"), MAX_RULES) {
            Ok(bytes) => self.and(name, &String::from_utf8_lossy(&bytes)),
            Err(_) => self,
        }
    }

    fn and(self, dir: &Path, text: &str) -> Self {
        let mut builder = GitignoreBuilder::new(dir);
        for line in text.lines() {
            // A line that is no pattern leaves out nothing.
            let _no_pattern = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(rules) if !rules.is_empty() => Self(Some(Rc::new(Level { rules, above: self }))),
            Ok(_) | Err(_) => self,
        }
    }

    /// Whether a file or directory, by its full name, is left out.
    pub(super) fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let mut at = self;
        while let Some(level) = &at.0 {
            let found = level.rules.matched(path, is_dir);
            if !found.is_none() {
                return found.is_ignore();
            }
            at = &level.above;
        }
        false
    }
}

/// The full name of a path below a directory.
pub(super) fn full(dir: &Path, path: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(path))
}

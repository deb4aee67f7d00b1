//! What an overlay's upper directory says: which files a program made, changed and removed.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use plexus_files::HeldDir;
use serde::{Deserialize, Serialize};

/// The most bytes of a changed text that are kept, for each of before and after.
const MAX_TEXT_BYTES: u64 = 64 * 1024;
/// The most names of one directory that are listed: as many changes are never shown.
const MAX_NAMES: usize = 10_000;
/// The attribute with which a directory of the upper layer hides what lies below it.
const OPAQUE: &str = "user.overlay.opaque";

/// How a path changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was made.
    Added,
    /// Its content, kind or mode changed.
    Modified,
    /// It was removed.
    Removed,
}

/// One path that changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// The path, from the working directory.
    pub path: PathBuf,
    /// How it changed.
    pub kind: ChangeKind,
    /// Whether it is a plain file, or was one before it was removed.
    pub is_file: bool,
    /// The text before, where it was a text of at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The text after, where it is a text of at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Change {
    /// Returns the texts before and after, when nothing of either is missing.
    #[must_use]
    pub fn texts(&self) -> Option<(&str, &str)> {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        match self.kind {
            ChangeKind::Added => after.map(|after| ("", after)),
            ChangeKind::Modified => before.zip(after),
            ChangeKind::Removed => before.map(|before| (before, "")),
        }
    }
}

/// Lists up to `most` changes of `upper` over what was there before, sorted by path, and whether
/// there are more.
pub(super) fn list(upper: &Path, before: &HeldDir, most: usize) -> io::Result<(Vec<Change>, bool)> {
    let mut found = Found { upper, before, most, changes: Vec::new() };
    // The program chose how deep its directories lie, so nothing here recurses.
    let mut left = vec![PathBuf::new()];
    while let Some(below) = left.pop() {
        found.look_into(&below, &mut left)?;
    }
    let mut changes = found.changes;
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    let is_cut = changes.len() > most;
    changes.truncate(most);
    Ok((changes, is_cut))
}

/// Whether the files below a directory have more bytes than this together.
pub(super) fn is_larger(dir: &Path, bytes: u64) -> bool {
    let (mut sum, mut left) = (0_u64, vec![dir.to_owned()]);
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if sum > bytes {
                return true;
            }
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => left.push(entry.path()),
                // Blocks and not length: a file with holes costs nothing.
                Ok(meta) => sum = sum.saturating_add(meta.blocks().saturating_mul(512)),
                Err(_) => {}
            }
        }
    }
    sum > bytes
}

/// The changes found so far.
struct Found<'a> {
    upper: &'a Path,
    before: &'a HeldDir,
    most: usize,
    changes: Vec<Change>,
}

impl Found<'_> {
    /// Looks at the entries of one directory. Those that are directories come into `left`.
    fn look_into(&mut self, below: &Path, left: &mut Vec<PathBuf>) -> io::Result<()> {
        let dir = self.upper.join(below);
        // A directory that was removed and made again: what it had is gone.
        if is_opaque(&dir) {
            for name in self.before.names(below, MAX_NAMES).unwrap_or_default() {
                let path = below.join(name);
                if self.upper.join(&path).symlink_metadata().is_err() {
                    self.removed(path);
                }
            }
        }
        let entries = match fs::read_dir(&dir) {
            // The program may have closed its own directory; that it was made is listed.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            if self.changes.len() > self.most {
                return Ok(());
            }
            let entry = entry?;
            let path = below.join(entry.file_name());
            let meta = entry.metadata()?;
            let before = self.before.stat(&path);
            // A character device of number 0 stands for a removal.
            if meta.file_type().is_char_device() && meta.rdev() == 0 {
                if before.is_some() {
                    self.removed(path);
                }
            } else if meta.is_dir() {
                let is_same = |b: &fs::Metadata| b.is_dir() && b.mode() == meta.mode();
                if !before.as_ref().is_some_and(is_same) {
                    self.changed(path.clone(), &meta, before.is_some());
                }
                left.push(path);
            } else if !before.as_ref().is_some_and(|before| self.is_same(&path, before, &meta)) {
                self.changed(path, &meta, before.is_some());
            }
        }
        Ok(())
    }

    fn removed(&mut self, path: PathBuf) {
        let is_file = self.before.stat(&path).is_some_and(|meta| meta.is_file());
        let before = self.before.file(&path).ok().and_then(text);
        self.changes.push(Change { path, kind: ChangeKind::Removed, is_file, before, after: None });
    }

    fn changed(&mut self, path: PathBuf, now: &fs::Metadata, was_there: bool) {
        let kind = if was_there { ChangeKind::Modified } else { ChangeKind::Added };
        let before = self.before.file(&path).ok().and_then(text);
        // A link is not followed: it would be read outside of the wall.
        let after = now.is_file().then(|| fs::File::open(self.upper.join(&path)).ok());
        let after = after.flatten().and_then(text);
        self.changes.push(Change { path, kind, is_file: now.is_file(), before, after });
    }

    /// Whether two files have the same kind, mode and content: a copy alone is no change. What
    /// cannot be read is taken for a change.
    fn is_same(&self, path: &Path, old: &fs::Metadata, new: &fs::Metadata) -> bool {
        let after = self.upper.join(path);
        if old.mode() != new.mode() {
            return false;
        }
        if new.is_symlink() {
            let target = fs::read_link(&after).ok();
            return target.is_some() && self.before.link(path).ok() == target;
        }
        if !new.is_file() {
            return true;
        }
        let files = self.before.file(path).ok().zip(fs::File::open(&after).ok());
        old.len() == new.len()
            && files.is_some_and(|(old, new)| has_same_bytes(old, new).unwrap_or(false))
    }
}

fn is_opaque(dir: &Path) -> bool {
    let mut value = [0; 1];
    rustix::fs::lgetxattr(dir, OPAQUE, &mut value[..]).is_ok_and(|length| length == 1)
        && value == *b"y"
}

/// The content of a small text file.
fn text(file: fs::File) -> Option<String> {
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > MAX_TEXT_BYTES {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_TEXT_BYTES).read_to_string(&mut text).ok()?;
    (!text.contains('\0')).then_some(text)
}

fn has_same_bytes(one: fs::File, two: fs::File) -> io::Result<bool> {
    let buffered = |file| io::BufReader::with_capacity(64 * 1024, file).bytes();
    let (mut one, mut two) = (buffered(one), buffered(two));
    loop {
        match (one.next().transpose()?, two.next().transpose()?) {
            (None, None) => return Ok(true),
            (a, b) if a != b => return Ok(false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{nested_below, on_a_small_stack};

    #[test]
    fn directories_deeper_than_a_stack_can_follow_are_listed() {
        let (upper, before) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        nested_below(upper.path());
        let before = HeldDir::hold(before.path()).unwrap();
        let listed = on_a_small_stack(|| list(upper.path(), &before, 10_000).unwrap());
        assert!(listed.0.len() > 1_000 && !listed.1, "{}", listed.0.len());
        assert_eq!(listed.0[0].path, Path::new("d"));
        assert!(!on_a_small_stack(|| is_larger(upper.path(), u64::MAX)));
    }
}

//! What an overlay's upper directory says: which files a program made, changed and removed.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The most bytes of a changed text that are kept, for each of before and after.
const MAX_TEXT_BYTES: u64 = 64 * 1024;
/// The attribute by which a directory of the upper layer hides what lies below it.
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
    /// The text before, where it was a text of at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The text after, where it is a text of at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Lists up to `most` changes of `upper` over `lower`, sorted by path, and whether there are more.
pub(super) fn list(upper: &Path, lower: &Path, most: usize) -> io::Result<(Vec<Change>, bool)> {
    let mut changes = Vec::new();
    walk(upper, lower, Path::new(""), most, &mut changes)?;
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    let is_cut = changes.len() > most;
    changes.truncate(most);
    Ok((changes, is_cut))
}

/// Whether the files below a directory have more bytes than this together.
pub(super) fn is_larger(dir: &Path, bytes: u64) -> bool {
    fn add(dir: &Path, sum: &mut u64, bytes: u64) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if *sum > bytes {
                return;
            }
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => add(&entry.path(), sum, bytes),
                // Blocks and not length: a file with holes costs nothing.
                Ok(meta) => *sum = sum.saturating_add(meta.blocks().saturating_mul(512)),
                Err(_) => {}
            }
        }
    }
    let mut sum = 0;
    add(dir, &mut sum, bytes);
    sum > bytes
}

fn walk(
    upper: &Path,
    lower: &Path,
    below: &Path,
    most: usize,
    changes: &mut Vec<Change>,
) -> io::Result<()> {
    let dir = upper.join(below);
    // A directory that was removed and made again: what it had is gone.
    if is_opaque(&dir) {
        for entry in fs::read_dir(lower.join(below)).into_iter().flatten().flatten() {
            let path = below.join(entry.file_name());
            if upper.join(&path).symlink_metadata().is_err() {
                changes.push(removed(lower, path));
            }
        }
    }
    for entry in fs::read_dir(&dir)? {
        if changes.len() > most {
            return Ok(());
        }
        let entry = entry?;
        let path = below.join(entry.file_name());
        let meta = entry.metadata()?;
        let before = lower.join(&path).symlink_metadata().ok();
        // A character device of number 0 stands for a removal.
        if meta.file_type().is_char_device() && meta.rdev() == 0 {
            if before.is_some() {
                changes.push(removed(lower, path));
            }
        } else if meta.is_dir() {
            let is_changed = before.as_ref().is_none_or(|b| !b.is_dir() || b.mode() != meta.mode());
            if is_changed {
                changes.push(change(upper, lower, path.clone(), before.is_some()));
            }
            walk(upper, lower, &path, most, changes)?;
        } else if !is_same(&lower.join(&path), &entry.path())? {
            changes.push(change(upper, lower, path, before.is_some()));
        }
    }
    Ok(())
}

fn is_opaque(dir: &Path) -> bool {
    let mut value = [0; 1];
    rustix::fs::lgetxattr(dir, OPAQUE, &mut value[..]).is_ok_and(|length| length == 1)
        && value == *b"y"
}

fn removed(lower: &Path, path: PathBuf) -> Change {
    let before = text(&lower.join(&path));
    Change { path, kind: ChangeKind::Removed, before, after: None }
}

fn change(upper: &Path, lower: &Path, path: PathBuf, was_there: bool) -> Change {
    let kind = if was_there { ChangeKind::Modified } else { ChangeKind::Added };
    Change { kind, before: text(&lower.join(&path)), after: text(&upper.join(&path)), path }
}

/// The content of a small text file; a link is not followed.
fn text(path: &Path) -> Option<String> {
    let meta = path.symlink_metadata().ok()?;
    if !meta.is_file() || meta.len() > MAX_TEXT_BYTES {
        return None;
    }
    fs::read_to_string(path).ok().filter(|text| !text.contains('\0'))
}

/// Whether two files have the same kind, mode and content: a copy alone is no change.
fn is_same(before: &Path, after: &Path) -> io::Result<bool> {
    let Ok(old) = before.symlink_metadata() else { return Ok(false) };
    let new = after.symlink_metadata()?;
    if old.mode() != new.mode() {
        return Ok(false);
    }
    if new.is_symlink() {
        return Ok(fs::read_link(before)? == fs::read_link(after)?);
    }
    if !new.is_file() {
        return Ok(true);
    }
    if old.len() != new.len() {
        return Ok(false);
    }
    let open =
        |path| fs::File::open(path).map(|file| io::BufReader::with_capacity(64 * 1024, file));
    let (mut one, mut two) = (open(before)?.bytes(), open(after)?.bytes());
    loop {
        match (one.next().transpose()?, two.next().transpose()?) {
            (None, None) => return Ok(true),
            (a, b) if a != b => return Ok(false),
            _ => {}
        }
    }
}

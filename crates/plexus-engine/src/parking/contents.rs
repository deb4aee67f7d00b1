//! What the directories of a session hold, as one digest. Another server wakes an agent only where
//! its directories have the digest that they had when it was parked.
//!
//! Files that `.gitignore` names are left out, as `git status` leaves them out: a second server
//! rarely has the same build output. We read the files ourselves. `git` would run whatever the
//! repository's own configuration names, outside the agent's wall.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use sha2::{Digest as _, Sha256};

use super::transcript::{NO_LINK, NO_WAIT, hex};

/// How many files are compared. The largest repositories have ten times as many, and would keep a
/// disk busy for a minute.
const MAX_FILES: usize = 50_000;

/// How many bytes of files are compared: a second or two of reading.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// How much of a file is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// The directory that is left out: two clones of one commit differ in it.
const GIT: &str = ".git";

/// Why directories have no digest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDigest {
    #[error("{} holds more than {MAX_FILES} files or {} MiB", .0.display(), MAX_BYTES >> 20)]
    TooMuch(PathBuf),
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// Returns the digest of directories: the names of their files, what they hold, which of them can
/// be run, where links point to, and the commit of a repository. It waits for a disk.
pub(crate) fn digest(dirs: &[PathBuf]) -> Result<String, NoDigest> {
    let mut contents = Contents { digest: Sha256::new(), files: 0, bytes: 0 };
    for dir in dirs {
        contents.add(dir)?;
    }
    Ok(hex(&contents.digest.finalize()))
}

struct Contents {
    digest: Sha256,
    files: usize,
    bytes: u64,
}

impl Contents {
    fn add(&mut self, dir: &Path) -> Result<(), NoDigest> {
        self.text(dir.as_os_str().as_bytes());
        self.text(commit(dir).unwrap_or_default().as_bytes());
        let mut walk = WalkBuilder::new(dir);
        // What counts is in the directory itself, not in the settings of a user.
        walk.hidden(false).ignore(false).git_global(false).git_exclude(false).require_git(false);
        walk.filter_entry(|entry| entry.file_name() != GIT);
        walk.sort_by_file_path(Path::cmp);
        for entry in walk.build() {
            let entry = entry.map_err(|error| unreadable(dir, io::Error::other(error)))?;
            // A clone has no empty directories.
            let Some(kind) = entry.file_type().filter(|kind| !kind.is_dir()) else { continue };
            self.files += 1;
            if self.files > MAX_FILES {
                return Err(NoDigest::TooMuch(dir.to_owned()));
            }
            let path = entry.path();
            self.text(path.strip_prefix(dir).unwrap_or(path).as_os_str().as_bytes());
            let failed = |source| unreadable(path, source);
            if kind.is_symlink() {
                self.text(b"link");
                self.text(std::fs::read_link(path).map_err(failed)?.as_os_str().as_bytes());
            } else if kind.is_file() {
                self.file(path).map_err(failed)?;
                if self.bytes > MAX_BYTES {
                    return Err(NoDigest::TooMuch(dir.to_owned()));
                }
            } else {
                // A pipe or a socket holds nothing.
                self.text(b"other");
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let mut options = File::options();
        let file = options.read(true).custom_flags(NO_LINK | NO_WAIT).open(path)?;
        let found = file.metadata()?;
        self.text(if found.mode() & 0o100 == 0 { b"file" } else { b"program" });
        self.bytes = self.bytes.saturating_add(found.len());
        if self.bytes > MAX_BYTES {
            return Ok(());
        }
        let (mut held, mut read) = (Sha256::new(), 0);
        let mut file = file.take(MAX_BYTES);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                bytes => {
                    held.update(&buffer[..bytes]);
                    read += bytes as u64;
                }
            }
        }
        self.bytes = self.bytes.saturating_sub(found.len()).saturating_add(read);
        self.text(&held.finalize());
        Ok(())
    }

    /// Adds a text with its length, so that no two lists of texts look alike.
    fn text(&mut self, text: &[u8]) {
        self.digest.update((text.len() as u64).to_le_bytes());
        self.digest.update(text);
    }
}

/// The longest file of a repository's own that is read here.
const MAX_REF_BYTES: u64 = 4 * 1024 * 1024;

/// The commit that a repository is at, as far as two of its files say it.
fn commit(dir: &Path) -> Option<String> {
    let git = dir.join(GIT);
    let read = |path: PathBuf| {
        let mut text = String::new();
        let mut options = File::options();
        let file = options.read(true).custom_flags(NO_LINK | NO_WAIT).open(path).ok()?;
        file.take(MAX_REF_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let head = read(git.join("HEAD"))?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return Some(head) };
    if Path::new(name).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
        return Some(head);
    }
    let packed = || {
        let refs = read(git.join("packed-refs"))?;
        refs.lines().find(|line| line.ends_with(&format!(" {name}"))).map(str::to_owned)
    };
    let at = read(git.join(name)).or_else(packed)?;
    Some(at.split_whitespace().next().unwrap_or_default().to_owned())
}

fn unreadable(path: &Path, source: io::Error) -> NoDigest {
    NoDigest::Unreadable { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        std::fs::create_dir_all(at.join("src")).unwrap();
        std::fs::create_dir_all(at.join(".git/refs/heads")).unwrap();
        std::fs::write(at.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(at.join(".git/refs/heads/main"), "c0ffee\n").unwrap();
        std::fs::write(at.join(".gitignore"), "target\n").unwrap();
        std::fs::write(at.join("src/a.rs"), "a").unwrap();
        std::os::unix::fs::symlink("a.rs", at.join("src/link")).unwrap();
        dir
    }

    /// Whether a change of a project changes its digest.
    fn is_seen(change: impl FnOnce(&Path)) -> bool {
        let dir = project();
        let dirs = [dir.path().to_owned()];
        let before = digest(&dirs).unwrap();
        assert_eq!(digest(&dirs).unwrap(), before);
        change(dir.path());
        digest(&dirs).unwrap() != before
    }

    #[test]
    fn other_contents_have_another_digest() {
        use std::os::unix::fs::PermissionsExt as _;
        assert!(is_seen(|at| std::fs::write(at.join("src/a.rs"), "b").unwrap()));
        assert!(is_seen(|at| std::fs::write(at.join("src/b.rs"), "").unwrap()));
        assert!(is_seen(|at| std::fs::rename(at.join("src/a.rs"), at.join("src/c.rs")).unwrap()));
        assert!(is_seen(|at| {
            std::fs::remove_file(at.join("src/link")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", at.join("src/link")).unwrap();
        }));
        assert!(is_seen(|at| {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(at.join("src/a.rs"), mode).unwrap();
        }));
        assert!(is_seen(|at| std::fs::write(at.join(".git/refs/heads/main"), "beef").unwrap()));
    }

    #[test]
    fn a_commit_is_found_among_packed_references() {
        assert!(!is_seen(|at| {
            std::fs::remove_file(at.join(".git/refs/heads/main")).unwrap();
            std::fs::write(at.join(".git/packed-refs"), "c0ffee refs/heads/main\n").unwrap();
        }));
    }

    #[test]
    fn build_output_and_the_repository_itself_do_not_count() {
        assert!(!is_seen(|at| {
            std::fs::create_dir(at.join("target")).unwrap();
            std::fs::write(at.join("target/a.o"), "x").unwrap();
            std::fs::write(at.join(".git/index"), "x").unwrap();
            std::fs::create_dir(at.join("empty")).unwrap();
        }));
    }

    #[test]
    fn a_directory_that_holds_too_much_has_no_digest() {
        let dir = project();
        let large = File::create(dir.path().join("large")).unwrap();
        large.set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(digest(&[dir.path().to_owned()]), Err(NoDigest::TooMuch(_))));
        let gone = [PathBuf::from("/does/not/exist")];
        assert!(matches!(digest(&gone), Err(NoDigest::Unreadable { .. })));
    }
}

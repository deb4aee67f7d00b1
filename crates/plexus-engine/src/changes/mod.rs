//! What changed in a session's directory since the session began.
//!
//! Where the directory belongs to a git repository, [`Beginnings::note`] keeps the state of its
//! files when the session is created: a tree, in objects of our own below the data directory. The
//! user's index, references and objects are only read. [`Beginnings::since`] compares the files of
//! now with that tree. Where there is no repository, or none was kept, the edits that the agent's
//! tools recorded are shown ([`edits`]).

mod diff;
pub mod edits;
mod git;
mod repository;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_core::SessionId;
use plexus_wire::{PathChange, PreviewedChange};
use serde::{Deserialize, Serialize};

use self::diff::{MAX_DIFF, alone, by_path};
use self::git::Shadow;
use self::repository::{Repository, copy};

/// How long the creation of a session waits for its beginning to be noted. A tree that takes longer
/// is not noted.
const MAX_NOTE: Duration = Duration::from_secs(5);

/// How long the index of a repository may be. That of a million files has 100 MB.
const MAX_INDEX: u64 = 256 * 1024 * 1024;

/// How many files are listed.
pub const MAX_FILES: usize = 500;

/// How many bytes all differences of an answer may have together.
pub(crate) const MAX_DIFFS: usize = 2 * 1024 * 1024;

/// The beginnings of sessions, in a directory of the server.
#[derive(Clone, Debug)]
pub struct Beginnings {
    dir: PathBuf,
}

/// What is kept of a beginning, beside its objects and its index.
#[derive(Serialize, Deserialize)]
struct Kept {
    tree: String,
    top: PathBuf,
}

/// Changes of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// The changes, by path from the directory.
    pub changes: Vec<PreviewedChange>,
    /// Whether there are more.
    pub cut: bool,
}

impl Beginnings {
    /// Keeps beginnings in a directory of `data_dir`.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("beginnings") }
    }

    fn of(&self, session: SessionId) -> PathBuf {
        self.dir.join(session.to_string())
    }

    /// A new directory for one call of git.
    fn scratch(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        self.dir.join(format!("git-{}-{n}", std::process::id()))
    }

    /// Notes how the files of a directory are now. Where that is not possible, nothing is noted.
    pub async fn note(&self, session: SessionId, dir: &Path) {
        let noting = tokio::time::timeout(MAX_NOTE, self.try_note(session, dir)).await;
        match noting.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut))) {
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(%session, %error, "the files of a new session were not noted");
                self.forget(session);
            }
        }
    }

    async fn try_note(&self, session: SessionId, dir: &Path) -> io::Result<()> {
        let dir = dir.canonicalize()?;
        let found = dir.clone();
        let Some(of) = blocking(move || Repository::of(&found)).await? else { return Ok(()) };
        let below = dir.strip_prefix(&of.top).map(Path::to_owned).unwrap_or_default();
        let shadow = Shadow::make(self.scratch(), &of, None)?;
        // The user's index knows which files are unchanged, so that they are not read. A split
        // index needs files that were not copied, so it is dropped.
        let (index, to) = (of.index.clone(), shadow.index());
        if blocking(move || copy(&index, &to, MAX_INDEX)).await?.is_ok()
            && shadow.git(&["update-index", "-q", "--no-split-index"]).await.is_err()
        {
            fs::remove_file(shadow.index())?;
        }
        let below = below.as_path().to_str().filter(|path| !path.is_empty()).unwrap_or(".");
        match shadow.git(&["add", "--all", "--ignore-errors", "--", below]).await {
            // A file that cannot be read is left out; git says so by how it ends.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let tree = String::from_utf8_lossy(&shadow.git(&["write-tree"]).await?.bytes).into_owned();
        let kept = Kept { tree: tree.trim().to_owned(), top: of.top.clone() };
        let place = self.of(session);
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&place)?;
        fs::rename(shadow.dir().join("objects"), place.join("objects"))?;
        fs::remove_file(place.join("objects/info/alternates"))?;
        fs::rename(shadow.index(), place.join("index"))?;
        fs::write(place.join("kept.json"), serde_json::to_vec(&kept)?)
    }

    /// Returns what changed in a directory since its session began; `None` when its beginning was
    /// not noted.
    ///
    /// # Errors
    /// When git is missing, takes too long, or cannot read what it needs.
    pub async fn since(&self, session: SessionId, dir: &Path) -> io::Result<Option<Changed>> {
        let place = self.of(session);
        let Ok(kept) = fs::read(place.join("kept.json")) else { return Ok(None) };
        let kept: Kept = serde_json::from_slice(&kept)?;
        let found = dir.to_owned();
        let of = blocking(move || Repository::of(&found)).await?;
        let Some(of) = of.filter(|of| of.top == kept.top) else {
            return Err(io::Error::other("its repository is gone"));
        };
        let shadow = Shadow::make(self.scratch(), &of, Some(&place.join("objects")))?;
        fs::copy(place.join("index"), shadow.index())?;
        let below = dir.canonicalize()?;
        let below = below.strip_prefix(&of.top).unwrap_or(Path::new(""));
        let Some(below) = below.to_str() else {
            return Err(io::Error::other("its path is not UTF-8"));
        };
        let path = if below.is_empty() { "." } else { below };
        let plain = ["--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"];
        let diff = |more: &[&'static str]| -> Vec<String> {
            let words = ["diff"].into_iter().chain(plain).chain(more.iter().copied());
            words.chain([kept.tree.as_str(), "--", path]).map(str::to_owned).collect()
        };
        let list = diff(&["--name-status", "-z"]);
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        let patch = diff(&["--patch", "--unified=3"]);
        let patch: Vec<&str> = patch.iter().map(String::as_str).collect();
        let listed = shadow.git(&list).await?;
        let patch = shadow.git(&patch).await?;
        let others = ["ls-files", "-z", "--others", "--exclude-standard", "--", path];
        let others = shadow.git(&others).await?;
        let diffs = by_path(&String::from_utf8_lossy(&patch.bytes));
        let mut changes: Vec<PreviewedChange> = Vec::new();
        for (status, name) in pairs(&listed.bytes) {
            let change = match status.as_str() {
                "A" => PathChange::Added,
                "D" => PathChange::Removed,
                _ => PathChange::Modified,
            };
            let diff = diffs.get(&name).cloned();
            changes.push(change_of(name, change, diff.ok_or("its difference is not shown")));
        }
        let known: BTreeSet<String> = changes.iter().map(|change| change.path.clone()).collect();
        let top = of.top.clone();
        let new = names(&others.bytes).filter(|name| !known.contains(name)).take(MAX_FILES + 1);
        let new: Vec<String> = new.collect();
        let new = blocking(move || {
            new.into_iter()
                .map(|name| {
                    let content = read_new(&top.join(&name));
                    change_of(name, PathChange::Added, content)
                })
                .collect::<Vec<_>>()
        });
        changes.extend(new.await?);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        let cut = listed.cut || others.cut || changes.len() > MAX_FILES;
        changes.truncate(MAX_FILES);
        for change in &mut changes {
            // From the session's directory, not from the top of the repository.
            let from = change.path.strip_prefix(below).map(|path| path.trim_start_matches('/'));
            change.path = from.unwrap_or(&change.path).to_owned();
        }
        bound(&mut changes);
        Ok(Some(Changed { changes, cut }))
    }

    /// Removes what is kept of a session.
    pub fn forget(&self, session: SessionId) {
        match crate::files::remove_all(&self.of(session)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%session, %error, "could not remove the noted files of a session");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

fn names(bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
}

/// Reads `STATUS NUL PATH NUL …`.
fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    let words: Vec<String> = names(bytes).collect();
    words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn change_of(path: String, change: PathChange, diff: Result<String, &str>) -> PreviewedChange {
    let (diff, why) = match diff {
        Ok(diff) if diff.len() > MAX_DIFF => (None, Some("its difference is too long".to_owned())),
        Ok(diff) if diff.lines().any(|line| line.starts_with("Binary files ")) => {
            (None, Some("it is not text".to_owned()))
        }
        Ok(diff) => (Some(diff), None),
        Err(why) => (None, Some(why.to_owned())),
    };
    PreviewedChange { path, change: change.into(), diff, why }
}

/// Reads a file that was not there at the beginning.
fn read_new(path: &Path) -> Result<String, &'static str> {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    // A pipe in its place must not hold the reader, and a link is not followed.
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|_| "it cannot be read, or is a link")?;
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Err("it is not a file");
    }
    let mut bytes = Vec::new();
    file.take(MAX_DIFF as u64 + 1).read_to_end(&mut bytes).map_err(|_| "it cannot be read")?;
    if bytes.len() > MAX_DIFF {
        return Err("it is too long");
    }
    String::from_utf8(bytes).map(|text| alone("", &text)).map_err(|_| "it is not text")
}

/// Leaves out differences beyond what one answer may have.
pub(super) fn bound(changes: &mut [PreviewedChange]) {
    let mut total = 0;
    for change in changes {
        total += change.diff.as_ref().map_or(0, String::len);
        if total > MAX_DIFFS && change.diff.is_some() {
            change.diff = None;
            change.why = Some("the answer is long already".to_owned());
        }
    }
}

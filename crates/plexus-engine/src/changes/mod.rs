//! What changed in a session's directory since the session began.
//!
//! Where the directory belongs to a git repository, [`Beginnings::note`] keeps a [`Snapshot`] of
//! its files when the session is created, below the data directory. [`Beginnings::since`] takes
//! another and compares them. What a file had before comes from the objects of the repository, or
//! from a copy if it was not among them. Where there is no repository, or no snapshot was kept, the
//! edits that the agent's tools recorded are shown ([`edits`]).
//!
//! No program reads the directory: git would obey the configuration of every repository in it,
//! which an agent may have written. The files of repositories are read as data ([`repository`]).

mod content;
mod diff;
pub mod edits;
mod ignored;
mod repository;
mod snapshot;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use plexus_core::SessionId;
use plexus_files::HeldDir;
use plexus_wire::{PathChange, PreviewedChange};

use self::content::ContentId;
use self::diff::{Differ, MAX_DIFF};
use self::ignored::Rules;
use self::repository::{Objects, Repository};
use self::snapshot::{Deadline, Difference, Directory, Entry, Kind, MAX_CONTENT, Snapshot};

/// How long the creation of a session waits for its beginning to be noted. A directory that takes
/// longer is not noted.
const MAX_NOTE: Duration = Duration::from_secs(5);

/// How long files are compared. What is left then has no difference.
const MAX_COMPARE: Duration = Duration::from_secs(10);

/// How long a comparison is waited for. A file system may answer no more.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// How many contents are copied for a session, and how many bytes they have together.
const MAX_COPIES: usize = 10_000;
const MAX_COPIED: usize = 64 * 1024 * 1024;

/// How many files are listed.
pub const MAX_FILES: usize = 500;

/// How many bytes all differences of an answer may have together.
pub(crate) const MAX_DIFFS: usize = 2 * 1024 * 1024;

/// The file that keeps a beginning: its repository as one line of JSON, and its snapshot.
const NOTED: &str = "beginning";

/// The beginnings of sessions, in a directory of the server.
#[derive(Clone, Debug)]
pub struct Beginnings {
    dir: PathBuf,
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

    /// Notes how the files of a directory are now. Where that is not possible, nothing is noted.
    pub async fn note(&self, session: SessionId, dir: &Path) {
        let place = self.of(session);
        let (at, dir) = (place.clone(), dir.to_owned());
        let noted = within(MAX_NOTE, move || note(&at, &dir)).await.and_then(|found| {
            // Only now, because a snapshot that comes too late may have changes of the agent in it.
            found.map_or(Ok(()), |snapshot| fs::rename(snapshot, place.join(NOTED)))
        });
        if let Err(error) = noted {
            tracing::info!(%session, %error, "the files of a new session were not noted");
            self.forget(session);
        }
    }

    /// Returns what changed in a directory since its session began; `None` when its beginning was
    /// not noted.
    ///
    /// # Errors
    /// When the directory cannot be read, has too many files, or takes too long.
    pub async fn since(&self, session: SessionId, dir: &Path) -> io::Result<Option<Changed>> {
        let (place, dir) = (self.of(session), dir.to_owned());
        within(MAX_WAIT, move || since(&place, &dir)).await
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

/// Runs something that waits for a disk.
async fn within<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::time::timeout(time, tokio::task::spawn_blocking(work)).await;
    done.map_err(|_| io::Error::from(ErrorKind::TimedOut))?.map_err(io::Error::other)?
}

/// Keeps how the files of a directory are now, in a file at `place` that the caller then renames.
/// `None` where there is no repository.
fn note(place: &Path, dir: &Path) -> io::Result<Option<PathBuf>> {
    let deadline = Deadline::after(MAX_NOTE);
    let dir = dir.canonicalize()?;
    let Some((repository, indexed)) = Repository::of(&dir)? else { return Ok(None) };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(place)?;
    let mut copies = Copies { dir: place.join("contents"), count: 0, bytes: 0 };
    builder.create(&copies.dir)?;
    let held = HeldDir::hold(&dir)?;
    let of = directory(&held, &dir, &repository);
    let snapshot = Snapshot::take(&of, &indexed, deadline, |id, content| copies.add(id, content))?;
    let noted = place.join("taken");
    let mut bytes = serde_json::to_vec(&repository)?;
    bytes.push(b'\n');
    bytes.extend(snapshot.to_bytes());
    fs::write(&noted, bytes)?;
    Ok(Some(noted))
}

fn since(place: &Path, dir: &Path) -> io::Result<Option<Changed>> {
    let deadline = Deadline::after(MAX_COMPARE);
    let bytes = match fs::read(place.join(NOTED)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let end = memchr::memchr(b'\n', &bytes).unwrap_or(bytes.len());
    let (repository, snapshot) = bytes.split_at(end);
    let repository: Repository = serde_json::from_slice(repository)?;
    let noted = Snapshot::from_bytes(snapshot.get(1..).unwrap_or_default());
    let noted = noted.ok_or_else(|| io::Error::other("its beginning is damaged"))?;
    let dir = dir.canonicalize()?;
    let held = HeldDir::hold(&dir)?;
    let of = directory(&held, &dir, &repository);
    let now = Snapshot::take(&of, &noted, deadline, |_, _| Ok(()))?;
    let (copies, objects) = (place.join("contents"), repository.objects().ok());
    let shown = Shown { held: &held, copies, objects, differ: Differ::new(), deadline };
    let mut differences = noted.differences(&now);
    let mut changes: Vec<_> =
        differences.by_ref().take(MAX_FILES).map(|it| shown.change(&it)).collect();
    bound(&mut changes);
    Ok(Some(Changed { changes, cut: differences.next().is_some() }))
}

fn directory<'a>(held: &'a HeldDir, name: &'a Path, repository: &Repository) -> Directory<'a> {
    let rules = Rules::above(&repository.top, name, &repository.exclude);
    Directory { held, name, rules, hashing: repository.hashing }
}

/// Copies of contents that are not among the objects of the repository.
struct Copies {
    dir: PathBuf,
    count: usize,
    bytes: usize,
}

impl Copies {
    /// Copies a content unless there are too many already.
    fn add(&mut self, id: &ContentId, content: &[u8]) -> io::Result<()> {
        self.count += 1;
        self.bytes += content.len();
        if self.count > MAX_COPIES || self.bytes > MAX_COPIED {
            return Ok(());
        }
        let file = match File::create_new(self.dir.join(id.to_string())) {
            // Another file has the same content.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            file => file?,
        };
        let mut copy = ZlibEncoder::new(file, Compression::fast());
        copy.write_all(content)?;
        copy.finish().map(drop)
    }
}

/// What differences are made of.
struct Shown<'a> {
    held: &'a HeldDir,
    copies: PathBuf,
    objects: Option<Objects>,
    differ: Differ,
    deadline: Deadline,
}

impl Shown<'_> {
    fn change(&self, difference: &Difference<'_>) -> PreviewedChange {
        let change = match (difference.before, difference.after) {
            (None, _) => PathChange::Added,
            (_, None) => PathChange::Removed,
            (Some(_), Some(_)) => PathChange::Modified,
        };
        let (diff, why) = match self.diff(difference) {
            Ok(diff) if diff.len() > MAX_DIFF => (None, Some("its difference is too long")),
            Ok(diff) => (Some(diff), None),
            Err(why) => (None, Some(why)),
        };
        let path = String::from_utf8_lossy(difference.path).into_owned();
        PreviewedChange { path, change: change.into(), diff, why: why.map(str::to_owned) }
    }

    fn diff(
        &self,
        Difference { path, before, after }: &Difference<'_>,
    ) -> Result<String, &'static str> {
        let mut diff = String::new();
        if let (Some(before), Some(after)) = (before, after) {
            let (old, new) = (mode(before.kind)?, mode(after.kind)?);
            if old != new {
                diff = format!("old mode {old}\nnew mode {new}\n");
            }
            if before.id.is_some() && before.id == after.id {
                return Ok(diff);
            }
        }
        let now = |after: &Entry| {
            mode(after.kind)?;
            let path = Path::new(OsStr::from_bytes(path));
            let content = snapshot::content(self.held, path, after.kind);
            text(content.ok_or("it is too long, or cannot be read")?)
        };
        let before = before.map(|before| self.before(before)).transpose()?.unwrap_or_default();
        let after = after.map(now).transpose()?.unwrap_or_default();
        Ok(diff + &self.differ.unified(&before, &after))
    }

    /// The content that a file had.
    fn before(&self, entry: &Entry) -> Result<String, &'static str> {
        mode(entry.kind)?;
        if self.deadline.is_over() {
            return Err("comparing took too long");
        }
        let id = entry.id.as_ref().ok_or("its earlier content was too long, or was not kept")?;
        let copy = File::open(self.copies.join(id.to_string())).ok().and_then(|file| {
            let mut content = Vec::new();
            ZlibDecoder::new(file).take(MAX_CONTENT as u64).read_to_end(&mut content).ok()?;
            Some(content)
        });
        let read = || self.objects.as_ref()?.read(id, self.deadline);
        let content = copy.or_else(read).ok_or("its earlier content was not kept, or is gone")?;
        if u32::try_from(content.len()) != Ok(entry.stat.size) {
            return Err("git converts this file, and its earlier content was not kept");
        }
        text(content)
    }
}

/// The mode of a file that has a content.
fn mode(kind: Kind) -> Result<&'static str, &'static str> {
    kind.mode().ok_or(match kind {
        Kind::Repository => "it is a repository of its own, which is not looked into",
        Kind::Closed => "the directory cannot be read",
        _ => "it is not a file",
    })
}

fn text(content: Vec<u8>) -> Result<String, &'static str> {
    let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
    text.ok_or("it is not text")
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

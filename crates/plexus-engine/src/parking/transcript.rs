//! The file in which an agent keeps its conversation: found, read, made durable, copied, marked
//! before a process is woken from it, and unmarked when that process has gone.
//!
//! Everything here waits for a disk; callers run it on a thread of its own.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use plexus_core::ApprovalId;
use sha2::{Digest as _, Sha256};

use super::ParkedFacts;
use crate::driver::TranscriptPlace;

/// The longest transcript that is parked. One with 150 large outputs has 9 MB.
pub(crate) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Folders that are looked through for a transcript.
const MAX_FOLDERS: usize = 10_000;

/// A link is not opened.
pub(crate) const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// Opens without blocking: a pipe in the place of a file would wait for a writer.
pub(crate) const NO_WAIT: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// Why a parked agent cannot be woken. Nothing of it has run, and nothing will.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unwakeable {
    #[error("its transcript {} was changed after it was parked", .0.display())]
    Changed(PathBuf),
    #[error("its transcript {} is gone, and so is our copy", .0.display())]
    Gone(PathBuf),
    #[error("its transcript {} says that the call has its result", .0.display())]
    Settled(PathBuf),
    #[error("its transcript {} could not be read or written: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{0} is not known to ask again about a parked call; install the version that it had")]
    Version(String),
    #[error("another server parked it, and {0}, so the directories here cannot be compared")]
    Incomparable(String),
    #[error("another server parked it, and {} does not hold the same files here", .0.display())]
    OtherContents(PathBuf),
    #[error("another server parked it, and its transcript in the store is missing or damaged")]
    NotStored,
    #[error("it was woken on too many servers that then ended")]
    TooOften,
}

/// Finds the file; `None` when there is none.
pub(crate) fn find(place: &TranscriptPlace) -> Option<PathBuf> {
    let folders = std::fs::read_dir(&place.root).ok()?.take(MAX_FOLDERS);
    let mut paths = folders.flatten().map(|folder| folder.path().join(&place.name));
    paths.find(|path| path.symlink_metadata().is_ok_and(|it| it.is_file()) && is_plain(path))
}

/// Whether neither the file, its folder nor the directory of all folders is a link. An agent within
/// a wall can write there, and must not lead us elsewhere.
fn is_plain(path: &Path) -> bool {
    path.ancestors().take(3).all(|it| it.symlink_metadata().is_ok_and(|it| !it.is_symlink()))
}

/// Reads a transcript; an error when it is too long or not text.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut options = File::options();
    let file = options.read(true).custom_flags(NO_LINK | NO_WAIT).open(path)?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is too long"));
    }
    Ok(text)
}

/// Where the copy of a parked transcript lies.
pub(crate) fn copy_path(data_dir: &Path, approval: ApprovalId) -> PathBuf {
    data_dir.join("parked").join(format!("{approval}.jsonl"))
}

/// Removes the copy of a transcript that nobody is woken from any more.
pub(crate) fn drop_copy(data_dir: &Path, approval: ApprovalId) {
    if let Err(error) = std::fs::remove_file(copy_path(data_dir, approval)) {
        tracing::debug!(%error, "could not remove the copy of a transcript");
    }
}

/// Makes a transcript durable where it lies, and copies it into the data directory. The CLI itself
/// never waits for the disk.
pub(crate) fn keep(path: &Path, text: &str, data_dir: &Path, id: ApprovalId) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    sync_folder(path)?;
    let folder = data_dir.join("parked");
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    replace(&copy_path(data_dir, id), text)
}

/// The SHA-256 of a text, in hexadecimal digits.
pub(crate) fn digest(text: &[u8]) -> String {
    hex(&Sha256::digest(text))
}

/// Writes bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        use std::fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Makes the transcript one from which the next process asks again: it must be what was parked, and
/// gets the mark. A missing one is put back from our copy. Done again, it changes nothing.
///
/// `shipped` is the transcript that another server parked. It takes the place of a missing one
/// here, and of an older one of the same conversation.
pub(crate) fn mark(
    facts: &ParkedFacts,
    data_dir: &Path,
    id: ApprovalId,
    shipped: Option<&str>,
    is_settled: impl Fn(&str) -> bool,
) -> Result<(), Unwakeable> {
    let path = &facts.transcript;
    let failed = |source| Unwakeable::Io { path: path.clone(), source };
    let text = match read(path) {
        Ok(text) => match shipped.filter(|it| is_older(facts, &text, it)) {
            Some(shipped) => {
                replace(path, shipped).map_err(failed)?;
                shipped.to_owned()
            }
            None => text,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let copy = match shipped {
                Some(shipped) => shipped.to_owned(),
                None => {
                    read(&copy_path(data_dir, id)).map_err(|_| Unwakeable::Gone(path.clone()))?
                }
            };
            if !is_as_parked(facts, &copy) {
                return Err(Unwakeable::Changed(copy_path(data_dir, id)));
            }
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(failed)?;
            }
            replace(path, &copy).map_err(failed)?;
            tracing::info!(path = %path.display(), "a transcript was put back");
            copy
        }
        Err(error) => return Err(failed(error)),
    };
    if !is_plain(path) || !is_as_parked(facts, &text) {
        return Err(Unwakeable::Changed(path.clone()));
    }
    let behind = &text[usize::try_from(facts.bytes).unwrap_or(usize::MAX)..];
    let marked = format!("{}\n", facts.mark.line);
    let is_marked = match behind.strip_prefix(&marked) {
        // Only a process that was woken before may have written more.
        Some(more) if more.is_empty() || facts.tries > 0 => true,
        None if behind.is_empty() => false,
        // The machine died while we wrote the mark.
        None if marked.starts_with(behind) => {
            replace(path, &text[..text.len() - behind.len()]).map_err(failed)?;
            false
        }
        _ => return Err(Unwakeable::Changed(path.clone())),
    };
    if is_marked && is_settled(behind) {
        return Err(Unwakeable::Settled(path.clone()));
    }
    if !is_marked {
        let mut options = File::options();
        let mut file = options.append(true).custom_flags(NO_LINK).open(path).map_err(failed)?;
        file.write_all(marked.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
    }
    Ok(())
}

/// Whether a text is an older transcript of the conversation: the shipped one begins with it.
fn is_older(facts: &ParkedFacts, text: &str, shipped: &str) -> bool {
    !is_as_parked(facts, text) && shipped.starts_with(text)
}

/// Checks, and changes nothing: whether a shipped transcript is what was parked, and can lie at
/// this path.
pub(crate) fn can_lie_at(
    path: &Path,
    facts: &ParkedFacts,
    shipped: &str,
) -> Result<(), Unwakeable> {
    if shipped.len() as u64 != facts.bytes || !is_as_parked(facts, shipped) {
        return Err(Unwakeable::NotStored);
    }
    match read(path) {
        Ok(text) if is_as_parked(facts, &text) || is_older(facts, &text, shipped) => Ok(()),
        Ok(_) => Err(Unwakeable::Changed(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Unwakeable::Io { path: path.to_owned(), source }),
    }
}

fn is_as_parked(facts: &ParkedFacts, text: &str) -> bool {
    let bytes = usize::try_from(facts.bytes).unwrap_or(usize::MAX);
    text.is_char_boundary(bytes)
        && text.as_bytes().get(..bytes).is_some_and(|parked| digest(parked) == facts.digest)
}

/// Puts a file in the place of another, whole and durable.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("plexus-new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::WakeMark;

    const PARKED: &str = "{\"a\":1}\n";
    const MARKED: &str = "{\"a\":1}\n{\"mark\":1}\n";

    fn facts(dir: &Path, tries: u32) -> ParkedFacts {
        ParkedFacts {
            conversation: "c".to_owned(),
            mark: WakeMark { line: "{\"mark\":1}".to_owned() },
            transcript: dir.join("t.jsonl"),
            bytes: PARKED.len() as u64,
            digest: digest(PARKED.as_bytes()),
            directory: None,
            server: None,
            contents: None,
            tries,
        }
    }

    /// Marks a transcript that holds `text`, and returns what it holds then.
    fn marked(text: &str, tries: u32) -> Result<String, Unwakeable> {
        let dir = tempfile::tempdir().unwrap();
        let facts = facts(dir.path(), tries);
        std::fs::write(&facts.transcript, text).unwrap();
        // As the drivers judge: what holds no mark has nothing open.
        let is_settled = |text: &str| !text.contains("mark") || text.contains("result");
        mark(&facts, dir.path(), ApprovalId::generate(), None, is_settled)?;
        Ok(std::fs::read_to_string(&facts.transcript).unwrap())
    }

    #[test]
    fn a_transcript_is_marked_once() {
        assert_eq!(marked(PARKED, 0).unwrap(), MARKED);
        assert_eq!(marked(MARKED, 0).unwrap(), MARKED);
        // A torn mark is written anew.
        assert_eq!(marked("{\"a\":1}\n{\"ma", 0).unwrap(), MARKED);
        assert_eq!(marked("{\"a\":1}\n{\"mark\":1}", 0).unwrap(), MARKED);
    }

    #[test]
    fn a_transcript_that_was_changed_is_not_marked() {
        for text in ["", "{\"a\":2}\n", "{\"a\"", "{\"a\":1}\n{\"more\":1}\n", "ü{\"a\":1}\n"] {
            assert!(matches!(marked(text, 0), Err(Unwakeable::Changed(_))), "{text}");
        }
        let more = format!("{MARKED}{{\"more\":1}}\n");
        assert!(matches!(marked(&more, 0), Err(Unwakeable::Changed(_))));
        // A process that was woken before has written more.
        assert_eq!(marked(&more, 1).unwrap(), more);
        let settled = format!("{MARKED}{{\"result\":1}}\n");
        assert!(matches!(marked(&settled, 1), Err(Unwakeable::Settled(_))));
    }

    #[test]
    fn a_link_in_place_of_a_transcript_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, PARKED).unwrap();
        let facts = facts(dir.path(), 0);
        std::os::unix::fs::symlink(&elsewhere, &facts.transcript).unwrap();
        assert!(mark(&facts, dir.path(), ApprovalId::generate(), None, |_| false).is_err());
        let folder = dir.path().join("projects").join("folder");
        std::fs::create_dir_all(&folder).unwrap();
        let place =
            TranscriptPlace { root: dir.path().join("projects"), name: "t.jsonl".to_owned() };
        std::os::unix::fs::symlink(&elsewhere, folder.join("t.jsonl")).unwrap();
        assert_eq!(find(&place), None);
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), PARKED);
    }

    #[test]
    fn a_pipe_in_place_of_a_transcript_holds_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let facts = facts(dir.path(), 0);
        let (pipe, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &facts.transcript, pipe, mode, 0).unwrap();
        let marked = mark(&facts, dir.path(), ApprovalId::generate(), None, |_| false);
        assert!(matches!(marked, Err(Unwakeable::Changed(_))), "{marked:?}");
    }

    #[test]
    fn a_shipped_transcript_takes_the_place_of_an_older_one_and_of_no_other() {
        for (there, is_taken) in [
            (None, true),
            (Some(""), true),
            (Some("{\"a\""), true),
            (Some(PARKED), true),
            (Some("{\"b\":1}\n"), false),
            (Some("{\"a\":1}\n{\"more\":1}\n"), false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let facts = facts(dir.path(), 0);
            if let Some(there) = there {
                std::fs::write(&facts.transcript, there).unwrap();
            }
            let id = ApprovalId::generate();
            let marked = mark(&facts, dir.path(), id, Some(PARKED), |_| false);
            assert_eq!(marked.is_ok(), is_taken, "{there:?}: {marked:?}");
            if is_taken {
                assert_eq!(std::fs::read_to_string(&facts.transcript).unwrap(), MARKED);
            } else {
                assert_eq!(std::fs::read_to_string(&facts.transcript).ok().as_deref(), there);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let facts = facts(dir.path(), 0);
        assert!(can_lie_at(&facts.transcript, &facts, PARKED).is_ok());
        let damaged = can_lie_at(&facts.transcript, &facts, "{\"a\":2}\n");
        assert!(matches!(damaged, Err(Unwakeable::NotStored)));
        std::fs::write(&facts.transcript, "another").unwrap();
        let other = can_lie_at(&facts.transcript, &facts, PARKED);
        assert!(matches!(other, Err(Unwakeable::Changed(_))));
    }

    #[test]
    fn a_missing_transcript_is_put_back_from_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (id, not) = (ApprovalId::generate(), |_: &str| false);
        let mut facts = facts(dir.path(), 0);
        assert!(matches!(mark(&facts, dir.path(), id, None, not), Err(Unwakeable::Gone(_))));
        std::fs::write(&facts.transcript, PARKED).unwrap();
        keep(&facts.transcript, PARKED, dir.path(), id).unwrap();
        facts.transcript = dir.path().join("swept").join("t.jsonl");
        mark(&facts, dir.path(), id, None, not).unwrap();
        assert_eq!(std::fs::read_to_string(&facts.transcript).unwrap(), MARKED);
        std::fs::write(copy_path(dir.path(), id), "another").unwrap();
        std::fs::remove_file(&facts.transcript).unwrap();
        assert!(matches!(mark(&facts, dir.path(), id, None, not), Err(Unwakeable::Changed(_))));
    }
}

//! The inbox: messages from the server for the child's stdin.
//!
//! Each message is a file `00000001.json`, `00000002.json`, … that appears by rename and holds one
//! JSON object on one line. The shim sends messages in the order of their numbers; one that appears
//! after a higher one was sent is sent late, not lost. When a message is fully written to the pipe
//! its file is removed, and the highest that was sent stays as `<number>.sent`. The shim remembers
//! what it sent and drops a number that comes again, so **putting a message is idempotent**: a
//! server that does not know whether a message went out before it was killed puts it again. A file
//! that is not a message becomes `<number>.bad` and is never sent. When the child has gone,
//! messages that it did not get stay as `.json`.
//!
//! An empty file `close` asks for the end of stdin once everything before it is sent; it is removed
//! when that is done.
//!
//! The shim learns of new files through inotify. Where the kernel refuses that (a user has 128
//! instances by default), it creates a named pipe `.wake` here, and a writer rings it after it puts
//! a file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use super::{LayoutError, RunDir, files};

/// The largest message: a prompt of 10 MiB or a request body of 16 MiB, with room for escaping.
pub const MAX_INBOX_BYTES: usize = 64 * 1024 * 1024;

/// The name of the file that closes stdin.
const CLOSE: &str = "close";

/// The number of a message, from 1 on; as text it is the file's name, `00000001.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxSeq(pub u64);

impl InboxSeq {
    /// The first message of every run.
    pub const FIRST: Self = Self(1);

    /// Returns the number that comes after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for InboxSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08}.json", self.0)
    }
}

/// What an inbox holds, for a server that comes back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxState {
    /// The highest message that was written to the child's stdin.
    pub last_sent: Option<InboxSeq>,
    /// Messages that wait, in order.
    pub waiting: Vec<InboxSeq>,
    /// Files that were set aside because they are not messages, in order.
    pub bad: Vec<InboxSeq>,
    /// Whether stdin is to be closed and still is open.
    pub close_waiting: bool,
}

impl InboxState {
    /// Returns the first number that was never used.
    pub fn next_seq(&self) -> InboxSeq {
        let used = [self.last_sent, self.waiting.last().copied(), self.bad.last().copied()];
        used.into_iter().flatten().max().map_or(InboxSeq::FIRST, InboxSeq::next)
    }
}

/// What a file's name means in an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InboxName {
    Message(InboxSeq),
    Sent(InboxSeq),
    Bad(InboxSeq),
    Close,
}

/// Reads a file's name; `None` for temporary and foreign ones.
fn parse_name(name: &str) -> Option<InboxName> {
    if name == CLOSE {
        return Some(InboxName::Close);
    }
    let (digits, kind) = name.split_once('.')?;
    let seq = InboxSeq(digits.parse().ok()?);
    if seq.0 == 0 || digits != format!("{:08}", seq.0) {
        return None;
    }
    match kind {
        "json" => Some(InboxName::Message(seq)),
        "sent" => Some(InboxName::Sent(seq)),
        "bad" => Some(InboxName::Bad(seq)),
        _ => None,
    }
}

/// Checks that `message` is one JSON object on one line, with or without its newline, and returns
/// it without.
pub fn check_message(message: &[u8]) -> Result<&[u8], LayoutError> {
    let line = message.strip_suffix(b"\n").unwrap_or(message);
    if line.len() > MAX_INBOX_BYTES {
        return Err(LayoutError::BadMessage("it is too long"));
    }
    if line.iter().any(|&byte| byte == b'\n' || byte == b'\r') {
        return Err(LayoutError::BadMessage("it is more than one line"));
    }
    if line.first() != Some(&b'{') {
        return Err(LayoutError::BadMessage("it does not begin as a JSON object"));
    }
    let text = std::str::from_utf8(line).map_err(|_| LayoutError::BadMessage("it is not UTF-8"))?;
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|_| LayoutError::BadMessage("it is not valid JSON"))?;
    Ok(line)
}

impl RunDir {
    /// Puts a message for the child's stdin into the inbox, whole or not at all. A number that is
    /// put twice is sent once.
    pub fn put_inbox(&self, seq: InboxSeq, message: &[u8]) -> Result<(), LayoutError> {
        let line = check_message(message)?;
        self.put(&self.inbox_message(seq), line)
    }

    /// Asks for the end of the child's stdin after all messages that were put earlier.
    pub fn put_close(&self) -> Result<(), LayoutError> {
        self.put(&self.inbox_close(), b"")
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), LayoutError> {
        files::write_by_rename(path, bytes)
            .map_err(|source| LayoutError::io("write", path, source))?;
        self.wake_shim();
        Ok(())
    }

    /// Rings the shim's bell, if it has one. A shim with a bell also polls, so a failure here costs
    /// one second.
    pub(super) fn wake_shim(&self) {
        drop(files::ring(&self.inbox_wake()));
    }

    /// Lists the inbox.
    pub fn inbox_state(&self) -> Result<InboxState, LayoutError> {
        let inbox = self.inbox();
        let failed = |source| LayoutError::io("list", &inbox, source);
        let mut state = InboxState::default();
        let entries = match std::fs::read_dir(&inbox) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(state),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            match entry.map_err(failed)?.file_name().to_str().and_then(parse_name) {
                Some(InboxName::Message(seq)) => state.waiting.push(seq),
                Some(InboxName::Sent(seq)) => state.last_sent = state.last_sent.max(Some(seq)),
                Some(InboxName::Bad(seq)) => state.bad.push(seq),
                Some(InboxName::Close) => state.close_waiting = true,
                None => {}
            }
        }
        state.waiting.sort_unstable();
        state.bad.sort_unstable();
        Ok(state)
    }

    /// Returns the path of a message that waits.
    pub fn inbox_message(&self, seq: InboxSeq) -> PathBuf {
        self.inbox().join(seq.to_string())
    }

    pub(crate) fn inbox_sent(&self, seq: InboxSeq) -> PathBuf {
        self.inbox().join(format!("{:08}.sent", seq.0))
    }

    pub(crate) fn inbox_bad(&self, seq: InboxSeq) -> PathBuf {
        self.inbox().join(format!("{:08}.bad", seq.0))
    }

    pub(crate) fn inbox_wake(&self) -> PathBuf {
        self.inbox().join(".wake")
    }

    pub(crate) fn inbox_close(&self) -> PathBuf {
        self.inbox().join(CLOSE)
    }
}

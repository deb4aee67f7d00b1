//! Forwards the inbox to the child's stdin, one message at a time, without ever waiting for the
//! child.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ChildStdin;

use rustix::fs::OFlags;

use crate::layout::{InboxSeq, LayoutError, MAX_INBOX_BYTES, RunDir, check_message};

/// How many steps (a message loaded, a piece written) are taken before signals and output get their
/// turn: a writer may fill the inbox as fast as we empty it.
const STEPS_PER_TURN: u32 = 256;

/// Why forwarding stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing is left to do until something changes.
    Done,
    /// More is left to do, but other work gets its turn first.
    MoreToDo,
}

/// Feeds one child's stdin.
#[derive(Debug)]
pub(crate) struct Stdin {
    run: RunDir,
    /// The pipe; `None` once it is closed, by us or by the child.
    pipe: Option<ChildStdin>,
    /// The message being written.
    sending: Option<Sending>,
    /// Messages of the last listing that were not sent yet, in order.
    waiting: VecDeque<InboxSeq>,
    sent: SentNumbers,
}

/// A message that is being sent: the line and how much of it the pipe took.
#[derive(Debug)]
struct Sending {
    seq: InboxSeq,
    line: Vec<u8>,
    done: usize,
}

/// The numbers of the messages that were sent. They arrive nearly in order, so one bound and a
/// small set of numbers above it are enough.
#[derive(Debug, Default)]
struct SentNumbers {
    /// Every number up to this one was sent.
    all_up_to: u64,
    /// Sent numbers above a gap.
    above: BTreeSet<u64>,
}

impl SentNumbers {
    fn contains(&self, seq: InboxSeq) -> bool {
        seq.0 <= self.all_up_to || self.above.contains(&seq.0)
    }

    fn highest(&self) -> Option<InboxSeq> {
        let highest = self.above.last().copied().unwrap_or(self.all_up_to);
        (highest > 0).then_some(InboxSeq(highest))
    }

    fn insert(&mut self, seq: InboxSeq) {
        self.above.insert(seq.0);
        while self.above.remove(&self.all_up_to.saturating_add(1)) {
            self.all_up_to += 1;
        }
    }
}

/// What to do with a file that is named like a message.
enum Loaded {
    Message(Vec<u8>),
    NotAMessage,
}

impl Stdin {
    /// Takes over a non-blocking pipe, so that a child that does not read delays nobody.
    pub(crate) fn new(run: RunDir, pipe: ChildStdin) -> Self {
        Self {
            run,
            pipe: Some(pipe),
            sending: None,
            waiting: VecDeque::new(),
            sent: SentNumbers::default(),
        }
    }

    /// Returns the pipe to wait for, while a message waits for room in it.
    pub(crate) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.sending.as_ref().and(self.pipe.as_ref()).map(|pipe| pipe.as_fd())
    }

    /// Returns whether anything can still be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Closes stdin now. What was not sent stays in the inbox.
    pub(crate) fn close(&mut self) {
        self.pipe = None;
        self.sending = None;
    }

    /// Sends the inbox's messages until the pipe is full, nothing is left, or other work gets its
    /// turn. An error concerns one of the inbox's files; they are unchanged, and trying again is
    /// safe.
    pub(crate) fn forward(&mut self) -> Result<Turn, LayoutError> {
        for _ in 0..STEPS_PER_TURN {
            if self.pipe.is_none() {
                return Ok(Turn::Done);
            }
            if self.sending.is_some() {
                if !self.write_some()? {
                    return Ok(Turn::Done);
                }
            } else if let Some(seq) = self.waiting.pop_front() {
                self.load(seq)?;
            } else if !self.list()? {
                return Ok(Turn::Done);
            }
        }
        Ok(Turn::MoreToDo)
    }

    /// Makes a message the one to send, unless it was sent before or is not a message.
    fn load(&mut self, seq: InboxSeq) -> Result<(), LayoutError> {
        let path = self.run.inbox_message(seq);
        if self.sent.contains(seq) {
            return std::fs::remove_file(&path)
                .map_err(|source| LayoutError::io("remove", &path, source));
        }
        match read_message(&path).map_err(|source| LayoutError::io("read", &path, source))? {
            Loaded::Message(line) => {
                self.sending = Some(Sending { seq, line, done: 0 });
                Ok(())
            }
            Loaded::NotAMessage => std::fs::rename(&path, self.run.inbox_bad(seq))
                .map_err(|source| LayoutError::io("set aside", &path, source)),
        }
    }

    /// Lists the inbox, and closes stdin when that is asked for and nothing is left to send.
    /// Returns whether any message waits.
    fn list(&mut self) -> Result<bool, LayoutError> {
        let mut state = self.run.inbox_state()?;
        if state.close_waiting && state.waiting.is_empty() {
            // A listing that runs while files appear may show a later one and miss an earlier one.
            // All messages put before `close` exist by now, so a second listing shows them.
            state = self.run.inbox_state()?;
        }
        self.waiting = state.waiting.into();
        if state.close_waiting && self.waiting.is_empty() {
            let close = self.run.inbox_close();
            self.close();
            std::fs::remove_file(&close)
                .map_err(|source| LayoutError::io("remove", &close, source))?;
        }
        Ok(!self.waiting.is_empty())
    }

    /// Continues to write the current message; returns `false` when the pipe is full.
    fn write_some(&mut self) -> Result<bool, LayoutError> {
        let (Some(pipe), Some(sending)) = (&mut self.pipe, &mut self.sending) else {
            return Ok(true);
        };
        plexus_fault::point!("shim.stdin.before", when sending.done == 0);
        plexus_fault::point!("shim.stdin.between", when sending.done > 0);
        let rest = sending.line.get(sending.done..).unwrap_or_default();
        match pipe.write(plexus_fault::cut!("shim.stdin.between", rest)) {
            Ok(count) => sending.done += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            // The child closed its end, or is gone. Messages that it did not get stay in the inbox,
            // where the server sees them.
            Err(_) => self.close(),
        }
        match self.sending.take_if(|sending| sending.done == sending.line.len()) {
            Some(sent) => {
                plexus_fault::point!("shim.stdin.after");
                self.mark_sent(sent.seq).map(|()| true)
            }
            None => Ok(true),
        }
    }

    /// Records in the inbox that a message was sent: the highest one stays, as `<number>.sent`.
    fn mark_sent(&mut self, seq: InboxSeq) -> Result<(), LayoutError> {
        let before = self.sent.highest();
        // Recorded in memory first: even if the disk refuses, this message is not sent again.
        self.sent.insert(seq);
        let from = self.run.inbox_message(seq);
        let done = if before > Some(seq) {
            std::fs::remove_file(&from)
        } else {
            let marked = std::fs::rename(&from, self.run.inbox_sent(seq));
            marked.and_then(|()| {
                before.map_or(Ok(()), |before| std::fs::remove_file(self.run.inbox_sent(before)))
            })
        };
        done.map_err(|source| LayoutError::io("mark as sent", &from, source))
    }
}

/// Reads a message with its newline. Only a plain file of bounded size is read: a link is not
/// followed and a pipe is not waited for.
fn read_message(path: &Path) -> io::Result<Loaded> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file: File = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::LOOP) => {
            return Ok(Loaded::NotAMessage);
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(Loaded::NotAMessage);
    }
    let mut bytes = Vec::new();
    file.take(MAX_INBOX_BYTES as u64 + 2).read_to_end(&mut bytes)?;
    match check_message(&bytes).map(<[u8]>::len) {
        Ok(length) => {
            bytes.truncate(length);
            bytes.push(b'\n');
            Ok(Loaded::Message(bytes))
        }
        Err(_) => Ok(Loaded::NotAMessage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_remembered_in_any_order() {
        let mut sent = SentNumbers::default();
        assert_eq!(sent.highest(), None);
        for (number, highest, kept) in
            [(1, 1, 0), (2, 2, 0), (5, 5, 1), (4, 5, 2), (3, 5, 0), (9, 9, 1)]
        {
            assert!(!sent.contains(InboxSeq(number)));
            sent.insert(InboxSeq(number));
            assert!(sent.contains(InboxSeq(number)));
            assert_eq!(
                (sent.highest(), sent.above.len()),
                (Some(InboxSeq(highest)), kept),
                "after {number}"
            );
        }
        assert!(!sent.contains(InboxSeq(6)));
    }
}

//! From the inbox into the child's stdin, one message at a time, without ever waiting for the child.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ChildStdin;

use rustix::fs::OFlags;

use crate::layout::{InboxSeq, LayoutError, MAX_INBOX_BYTES, RunDir, check_message};

/// Feeds one child's stdin.
#[derive(Debug)]
pub(crate) struct Stdin {
    run: RunDir,
    /// The pipe; `None` once it is closed, by us or by the child.
    pipe: Option<ChildStdin>,
    /// The message being written.
    sending: Option<Sending>,
    last_sent: Option<InboxSeq>,
}

/// A message on its way: the line and how much of it the pipe took.
#[derive(Debug)]
struct Sending {
    seq: InboxSeq,
    line: Vec<u8>,
    done: usize,
}

/// What to do with a file that claims to be a message.
enum Loaded {
    Message(Vec<u8>),
    NotAMessage,
}

impl Stdin {
    /// Takes the pipe over. It must not block, so that a child that does not read delays nobody.
    pub(crate) fn new(run: RunDir, pipe: ChildStdin) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { run, pipe: Some(pipe), sending: None, last_sent: None })
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

    /// Sends what the inbox holds, until the pipe is full or nothing is left. An error is one of the inbox's directory.
    pub(crate) fn forward(&mut self) -> Result<(), LayoutError> {
        while self.pipe.is_some() {
            if self.sending.is_none() && !self.load_next()? {
                return Ok(());
            }
            if !self.write_some()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes the next message the one to send; `false` when there is none.
    fn load_next(&mut self) -> Result<bool, LayoutError> {
        let mut state = self.run.inbox_state()?;
        if state.close_waiting && state.waiting.is_empty() {
            // A listing that runs while files appear may show the later and miss the earlier. Whatever was put before
            // `close` is there by now, so a second one shows it.
            state = self.run.inbox_state()?;
        }
        for seq in state.waiting {
            let path = self.run.inbox_message(seq);
            if self.last_sent.is_some_and(|last| seq <= last) {
                std::fs::remove_file(&path).map_err(|source| LayoutError::io("remove", &path, source))?;
                continue;
            }
            match load(&path).map_err(|source| LayoutError::io("read", &path, source))? {
                Loaded::Message(line) => {
                    self.sending = Some(Sending { seq, line, done: 0 });
                    return Ok(true);
                }
                Loaded::NotAMessage => {
                    let bad = self.run.inbox_bad(seq);
                    std::fs::rename(&path, &bad).map_err(|source| LayoutError::io("set aside", &path, source))?;
                }
            }
        }
        if state.close_waiting {
            let close = self.run.inbox_close();
            self.close();
            std::fs::remove_file(&close).map_err(|source| LayoutError::io("remove", &close, source))?;
        }
        Ok(false)
    }

    /// Writes on at the current message; `false` when the pipe is full.
    fn write_some(&mut self) -> Result<bool, LayoutError> {
        let (Some(pipe), Some(sending)) = (&mut self.pipe, &mut self.sending) else { return Ok(true) };
        match pipe.write(sending.line.get(sending.done..).unwrap_or_default()) {
            Ok(count) => sending.done += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            // The child closed its end, or is gone. What it did not get stays in the inbox, where the server sees it.
            Err(_) => self.close(),
        }
        if let Some(sent) = self.sending.take_if(|sending| sending.done == sending.line.len()) {
            let before = self.last_sent.replace(sent.seq);
            let (from, to) = (self.run.inbox_message(sent.seq), self.run.inbox_sent(sent.seq));
            std::fs::rename(&from, &to).map_err(|source| LayoutError::io("mark as sent", &from, source))?;
            if let Some(before) = before {
                let path = self.run.inbox_sent(before);
                std::fs::remove_file(&path).map_err(|source| LayoutError::io("remove", &path, source))?;
            }
        }
        Ok(true)
    }
}

/// Reads a message with its newline. Only a plain file of bounded size is read: a link is not followed and a pipe is not
/// waited for.
fn load(path: &std::path::Path) -> io::Result<Loaded> {
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

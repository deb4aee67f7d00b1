//! Reads lines from the terminal key by key, and can stop reading: a question may be answered
//! elsewhere, and an editor wants the keyboard for itself.
//!
//! The terminal neither echoes nor edits meanwhile: the reader decides where typed text is shown,
//! so that it is never in the middle of what an agent says.

use std::collections::VecDeque;
use std::io::{IsTerminal, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;

use super::line::{Line, Typed};

/// How many bytes one read takes.
const READ_BYTES: usize = 4096;

/// How many reads may wait for the reader of lines; a person types less.
const MAX_READS: usize = 64;

/// Says whether a person sits at both ends.
pub(super) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Discards what was typed before the question was there: it was not meant as its answer.
pub(super) fn forget_typed_ahead() {
    let stdin = std::io::stdin();
    if let Err(error) = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush) {
        tracing::debug!(%error, "could not throw away what was typed ahead");
    }
}

/// Hands each key over as it is pressed, and restores the terminal when dropped.
#[derive(Debug)]
struct KeyByKey(rustix::termios::Termios);

impl KeyByKey {
    fn start() -> std::io::Result<Self> {
        use rustix::termios::{
            LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr,
        };
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        // Ctrl-C stays a signal.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Ctrl-Z leaves the agent at work, instead of stopping the one who watches it.
        raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for KeyByKey {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Err(error) = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0) {
            tracing::debug!(%error, "could not restore the terminal");
        }
    }
}

/// Lines that are being typed. Dropping it stops the reading and restores the terminal.
#[derive(Debug)]
pub(super) struct Reading {
    reads: mpsc::Receiver<std::io::Result<Vec<u8>>>,
    /// Bytes that were read and not looked at.
    ahead: VecDeque<u8>,
    line: Line,
    /// Closed by dropping, which ends the thread.
    _keep_reading: PipeWriter,
    _key_by_key: KeyByKey,
}

impl Reading {
    /// Starts to read.
    pub(super) fn start() -> std::io::Result<Self> {
        let key_by_key = KeyByKey::start()?;
        let (stop, keep_reading) = std::io::pipe()?;
        let (sender, reads) = mpsc::channel(MAX_READS);
        std::thread::Builder::new().name("keyboard".into()).spawn(move || {
            read_all(std::io::stdin().as_fd(), stop.as_fd(), &sender);
        })?;
        Ok(Self {
            reads,
            ahead: VecDeque::new(),
            line: Line::default(),
            _keep_reading: keep_reading,
            _key_by_key: key_by_key,
        })
    }

    /// Waits for the next thing that typing means. Nothing is lost when this is dropped.
    pub(super) async fn next(&mut self) -> std::io::Result<Typed> {
        loop {
            while let Some(byte) = self.ahead.pop_front() {
                if let Some(typed) = self.line.take(byte) {
                    return Ok(typed);
                }
            }
            match self.reads.recv().await {
                Some(read) => self.ahead.extend(read?),
                None => return Ok(Typed::End),
            }
        }
    }

    /// Waits for a whole line; `show` shows what is typed meanwhile.
    pub(super) async fn line(
        &mut self,
        mut show: impl FnMut(&str) -> std::io::Result<()>,
    ) -> std::io::Result<Typed> {
        loop {
            match self.next().await? {
                Typed::Shown(text) => show(&text)?,
                whole @ (Typed::Line(_) | Typed::End | Typed::Leave) => return Ok(whole),
            }
        }
    }

    /// Whether nothing is typed on the line.
    pub(super) fn is_blank(&self) -> bool {
        self.line.is_blank()
    }

    /// Forgets the line as far as it is typed.
    pub(super) fn forget(&mut self) {
        self.line = Line::default();
        self.ahead.clear();
        while self.reads.try_recv().is_ok() {}
    }
}

/// Reads until `stop` is closed, the terminal has gone or nobody listens.
fn read_all(
    stdin: BorrowedFd<'_>,
    stop: BorrowedFd<'_>,
    sender: &mpsc::Sender<std::io::Result<Vec<u8>>>,
) {
    let mut buffer = [0_u8; READ_BYTES];
    loop {
        let mut both = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
        let read = match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => Err(error.into()),
            Ok(_) if !both[1].revents().is_empty() => return,
            Ok(_) => match rustix::io::read(stdin, &mut buffer) {
                // The terminal has gone.
                Ok(0) | Err(rustix::io::Errno::IO) => return,
                Ok(count) => Ok(buffer[..count].to_vec()),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            },
        };
        let is_last = read.is_err();
        if sender.blocking_send(read).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn all(input: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> Vec<u8> {
        let (sender, mut reads) = mpsc::channel(MAX_READS);
        read_all(input, stop, &sender);
        drop(sender);
        let mut all = Vec::new();
        while let Some(read) = reads.blocking_recv() {
            all.extend(read.unwrap());
        }
        all
    }

    #[test]
    fn reading_ends_with_the_terminal() {
        let (input, mut keys) = std::io::pipe().unwrap();
        let (stop, _keep) = std::io::pipe().unwrap();
        keys.write_all(b"yes\nmore").unwrap();
        drop(keys);
        assert_eq!(all(input.as_fd(), stop.as_fd()), b"yes\nmore");
    }

    #[test]
    fn closing_the_other_end_stops_the_reading() {
        let (input, _keys) = std::io::pipe().unwrap();
        let (stop, keep) = std::io::pipe().unwrap();
        drop(keep);
        assert_eq!(all(input.as_fd(), stop.as_fd()), b"");
    }
}

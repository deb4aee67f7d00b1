//! Reads lines from the terminal, and can stop reading: a question may be answered elsewhere, and
//! an editor wants the keyboard for itself.

use std::io::{IsTerminal, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::oneshot;

/// The longest line; a person types less.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// What came from the keyboard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-D, or the terminal has gone.
    End,
}

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

/// Whether the terminal shows what is typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Echo {
    On,
    Off,
}

impl Echo {
    /// Hides a secret.
    pub(super) fn for_secret(is_secret: bool) -> Self {
        if is_secret { Self::Off } else { Self::On }
    }
}

/// Switches the terminal's echo off, and on again when dropped.
#[derive(Debug)]
struct Hidden(rustix::termios::Termios);

impl Hidden {
    fn start() -> std::io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut without = before.clone();
        without.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Now, &without)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Err(error) = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0) {
            tracing::debug!(%error, "could not switch the echo on again");
        }
    }
}

/// One line that is being read. Dropping it stops the reading.
#[derive(Debug)]
pub(super) struct Reading {
    typed: oneshot::Receiver<std::io::Result<Typed>>,
    /// Closed by dropping, which ends the thread.
    _keep_reading: PipeWriter,
    _hidden: Option<Hidden>,
}

impl Reading {
    /// Starts to read a line.
    pub(super) fn start(echo: Echo) -> std::io::Result<Self> {
        let hidden = match echo {
            Echo::On => None,
            Echo::Off => Some(Hidden::start()?),
        };
        let (stop, keep_reading) = std::io::pipe()?;
        let (sender, typed) = oneshot::channel();
        std::thread::Builder::new().name("keyboard".into()).spawn(move || {
            if let Some(outcome) = read_line(std::io::stdin().as_fd(), stop.as_fd()).transpose() {
                // Nobody waits for it when the question was withdrawn in this very moment.
                let _withdrawn = sender.send(outcome);
            }
        })?;
        Ok(Self { typed, _keep_reading: keep_reading, _hidden: hidden })
    }

    /// Waits for the line.
    pub(super) async fn line(&mut self) -> std::io::Result<Typed> {
        (&mut self.typed).await.unwrap_or(Ok(Typed::End))
    }
}

/// Reads a line, or returns `None` once `stop` is closed.
fn read_line(stdin: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> std::io::Result<Option<Typed>> {
    let mut line = Vec::new();
    let mut byte = [0_u8; 1];
    loop {
        let mut both = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !both[1].revents().is_empty() {
            return Ok(None);
        }
        // One byte at a time: what follows the line end belongs to the next reader.
        match rustix::io::read(stdin, &mut byte) {
            Ok(0) => return Ok(Some(Typed::End)),
            Ok(_) if byte[0] == b'\n' => {
                return Ok(Some(Typed::Line(String::from_utf8_lossy(&line).trim().to_owned())));
            }
            Ok(_) if line.len() < MAX_LINE_BYTES => line.push(byte[0]),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // The terminal has gone.
            Err(rustix::io::Errno::IO) => return Ok(Some(Typed::End)),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_is_read_and_the_rest_is_left() {
        let (input, mut keys) = std::io::pipe().unwrap();
        let (stop, _keep) = std::io::pipe().unwrap();
        keys.write_all(b" yes \nmore").unwrap();
        assert_eq!(
            read_line(input.as_fd(), stop.as_fd()).unwrap(),
            Some(Typed::Line("yes".into()))
        );
        drop(keys);
        assert_eq!(read_line(input.as_fd(), stop.as_fd()).unwrap(), Some(Typed::End));
    }

    #[test]
    fn closing_the_other_end_stops_the_reading() {
        let (input, _keys) = std::io::pipe().unwrap();
        let (stop, keep) = std::io::pipe().unwrap();
        drop(keep);
        assert_eq!(read_line(input.as_fd(), stop.as_fd()).unwrap(), None);
    }
}

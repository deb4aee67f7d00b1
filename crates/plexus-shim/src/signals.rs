//! Signals as readable descriptors, so that the loop waits for them as for anything else.
//!
//! Signals are handled rather than ignored: an ignored signal stays ignored in the child, a handled
//! one returns to its default there.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// The signals that mean something to the shim.
#[derive(Debug)]
pub(crate) struct Signals {
    /// SIGTERM and SIGINT: end the child.
    end: UnixStream,
    /// SIGCHLD: a child waits to be reaped.
    child: UnixStream,
}

impl Signals {
    /// Installs the handlers. It must run before there is a child whose end could be missed.
    pub(crate) fn register() -> io::Result<Self> {
        let (end, end_writer) = UnixStream::pair()?;
        let (child, child_writer) = UnixStream::pair()?;
        pipe::register(SIGINT, end_writer.try_clone()?)?;
        pipe::register(SIGTERM, end_writer)?;
        pipe::register(SIGCHLD, child_writer)?;
        // The shim outlives the server's terminal. The flag is never read.
        signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
        end.set_nonblocking(true)?;
        child.set_nonblocking(true)?;
        Ok(Self { end, child })
    }

    pub(crate) fn end_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    pub(crate) fn child_fd(&self) -> BorrowedFd<'_> {
        self.child.as_fd()
    }

    /// Returns how many requests to end came since the last call. Two signals in quick succession
    /// may count as one.
    pub(crate) fn take_end_requests(&mut self) -> usize {
        drain(&mut self.end)
    }

    /// Empties the pipe that SIGCHLD fills. The caller reaps afterwards, so that it misses no exit.
    pub(crate) fn clear_child(&mut self) {
        drain(&mut self.child);
    }
}

fn drain(stream: &mut UnixStream) -> usize {
    let mut total = 0;
    let mut buffer = [0; 64];
    // Anything but data means that the pipe is empty for now: both its ends are in this process.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        total += count;
    }
    total
}

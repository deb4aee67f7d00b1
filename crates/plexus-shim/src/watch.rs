//! Tells when the server put something into the inbox or took a segment from the journal.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::layout::RunDir;

/// How often to look into the inbox when the kernel gives us no watch: their number is limited for each user. An answer to
/// the child is then late by half of this on average.
const LOOK_WITHOUT_WATCH: Duration = Duration::from_millis(100);

/// A watch on the run directory's inbox and journal.
#[derive(Debug)]
pub(crate) struct Watch {
    fd: Option<OwnedFd>,
}

impl Watch {
    /// Begins to watch; without a watch of the kernel's the caller has to [look](Self::look_every).
    pub(crate) fn new(run: &RunDir) -> Self {
        Self { fd: watch(run).ok() }
    }

    /// Returns what to wait for.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(|fd| fd.as_fd())
    }

    /// Returns how often to look by oneself; `None` when the kernel tells us.
    pub(crate) fn look_every(&self) -> Option<Duration> {
        self.fd.is_none().then_some(LOOK_WITHOUT_WATCH)
    }

    /// Takes what the kernel told and returns whether the inbox may hold something new.
    pub(crate) fn take_inbox_changed(&mut self) -> bool {
        let Some(fd) = &self.fd else { return true };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(fd, &mut buffer);
        let mut changed = false;
        while let Ok(event) = events.next() {
            // Temporary names and our own renames are no news. An event without a name is a lost or general one: look.
            let is_news = event.file_name().is_none_or(|name| {
                let name = name.to_bytes();
                !name.starts_with(b".") && !name.ends_with(b".sent") && !name.ends_with(b".bad")
            });
            changed |= is_news;
        }
        changed
    }
}

fn watch(run: &RunDir) -> rustix::io::Result<OwnedFd> {
    let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&fd, run.inbox(), WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE)?;
    // A segment that goes is room; waking is enough, the loop looks by itself.
    inotify::add_watch(&fd, run.journal(), WatchFlags::DELETE | WatchFlags::MOVED_FROM)?;
    Ok(fd)
}

//! Reports when the server put something into the inbox or took a segment from the journal.

use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::layout::{RunDir, make_bell};

/// How often to look into the inbox when the kernel does not report every file: a process that puts
/// one without [`RunDir::put_inbox`] does not ring.
const LOOK_BY_ONESELF: Duration = Duration::from_secs(1);

/// How the shim learns of new files.
#[derive(Debug)]
pub(crate) enum Watch {
    /// Through inotify.
    Inotify(OwnedFd),
    /// Through a named pipe that writers ring: the kernel had no inotify instance left for this
    /// user.
    Bell(File),
    /// By polling: neither of the others could be had.
    Nothing,
}

impl Watch {
    /// Starts to watch in the best way available.
    pub(crate) fn new(run: &RunDir) -> Self {
        // The reason of the failure is of no use: the next way does the same job.
        watch(run).map_or_else(|_| Self::with_bell(run), Self::Inotify)
    }

    fn with_bell(run: &RunDir) -> Self {
        make_bell(&run.inbox_wake()).map_or(Self::Nothing, Self::Bell)
    }

    /// Returns the descriptor to wait for.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Inotify(fd) => Some(fd.as_fd()),
            Self::Bell(bell) => Some(bell.as_fd()),
            Self::Nothing => None,
        }
    }

    /// Returns how often to poll; `None` when the kernel reports every file.
    pub(crate) fn look_every(&self) -> Option<Duration> {
        match self {
            Self::Inotify(_) => None,
            Self::Bell(_) | Self::Nothing => Some(LOOK_BY_ONESELF),
        }
    }

    /// Takes the pending notifications and returns whether the inbox may hold something new.
    pub(crate) fn take_inbox_changed(&mut self) -> bool {
        match self {
            Self::Inotify(fd) => take_events(fd),
            Self::Bell(bell) => {
                let mut rings = [0; 256];
                while let Ok(1..) = bell.read(&mut rings) {}
                true
            }
            Self::Nothing => true,
        }
    }
}

fn take_events(fd: &OwnedFd) -> bool {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(fd, &mut buffer);
    let mut changed = false;
    while let Ok(event) = events.next() {
        // Temporary names and our own renames do not count. An event without a name may stand for
        // lost events, so it counts.
        let is_news = event.file_name().is_none_or(|name| {
            let name = name.to_bytes();
            !name.starts_with(b".") && !name.ends_with(b".sent") && !name.ends_with(b".bad")
        });
        changed |= is_news;
    }
    changed
}

fn watch(run: &RunDir) -> rustix::io::Result<OwnedFd> {
    let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&fd, run.inbox(), WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE)?;
    // A removed segment makes room. Waking is enough: the loop looks by itself.
    inotify::add_watch(&fd, run.journal(), WatchFlags::DELETE | WatchFlags::MOVED_FROM)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::layout::InboxSeq;

    fn is_woken(watch: &Watch) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(watch.fd().unwrap(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn putting_a_message_wakes_either_kind_of_watch_once() {
        for make in [Watch::new, Watch::with_bell] {
            let temp = tempfile::tempdir().unwrap();
            let run = RunDir::new(temp.path().join("run"));
            run.create().unwrap();
            let mut watch = make(&run);
            assert!(!is_woken(&watch), "{watch:?}");
            run.put_inbox(InboxSeq::FIRST, b"{}").unwrap();
            run.put_close().unwrap();
            assert!(is_woken(&watch), "{watch:?}");
            assert!(watch.take_inbox_changed());
            assert!(!is_woken(&watch), "{watch:?}");
        }
    }

    #[test]
    fn the_shims_own_changes_to_the_inbox_are_ignored() {
        let temp = tempfile::tempdir().unwrap();
        let run = RunDir::new(temp.path().join("run"));
        run.create().unwrap();
        run.put_inbox(InboxSeq::FIRST, b"{}").unwrap();
        let mut watch = Watch::new(&run);
        std::fs::rename(run.inbox_message(InboxSeq::FIRST), run.inbox_sent(InboxSeq::FIRST))
            .unwrap();
        assert!(!watch.take_inbox_changed());
    }
}

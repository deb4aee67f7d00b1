//! The end of a run: everybody gone, the journal complete, `exit.json` last.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Chunk, Hold};
use crate::clock::Moment;
use crate::layout::{ExitFile, FORMAT_VERSION, now_ms};
use crate::lease::Lapse;
use crate::start::{EXIT_HELD, EXIT_NOT_STARTED};

/// How much is read from each pipe after everybody is gone: more than any pipe holds. Only a
/// process outside that was handed the pipe can still write into it, and it gets no say in how long
/// we stay.
const LAST_READS: usize = 1_024;

/// How long to wait before what could not be written is tried again; a request to end wakes us
/// earlier.
const TRY_AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Whether what the disk refuses is worth waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    GoOn,
    GiveUp,
}

impl Hold {
    /// Ends everybody, completes the journal and writes `exit.json`. Returns the shim's exit code.
    pub(super) fn finish(mut self) -> u8 {
        if let Some(stdin) = &mut self.stdin {
            stdin.close();
        }
        let left = self.kill_all();
        let mut reasons: Vec<String> = self.reason.map(str::to_owned).into_iter().collect();
        if left > 0 {
            reasons.push(format!("{left} descendants could not be ended"));
        }
        if self.complete_journal() == Patience::GiveUp {
            let why =
                self.journal.last_error().map_or_else(String::new, |error| format!(": {error}"));
            reasons.push(format!("the end of the journal could not be written{why}"));
        }
        let status = self.family.child_status;
        let exit = ExitFile {
            format_version: FORMAT_VERSION,
            code: status.and_then(|status| status.exit_status()),
            signal: status.and_then(|status| status.terminating_signal()),
            at_ms: now_ms(),
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        };
        plexus_fault::point!("shim.exit.before");
        while self.run.write_exit(&exit).is_err() {
            if self.wait_for_room() == Patience::GiveUp {
                return EXIT_NOT_STARTED;
            }
        }
        plexus_fault::point!("shim.exit.after");
        EXIT_HELD
    }

    /// Reads what the pipes still hold and writes everything. A server that is behind does not hold
    /// this up, a full disk does.
    fn complete_journal(&mut self) -> Patience {
        if self.flush_all() == Patience::GiveUp {
            return Patience::GiveUp;
        }
        // Stdout first: when its last line is open, nothing of stderr may come before the end of
        // that.
        for read in [Self::read_stdout, Self::read_stderr] {
            for _ in 0..LAST_READS {
                match read(self, Moment::now()) {
                    Chunk::Data(_) if self.flush_all() == Patience::GiveUp => {
                        return Patience::GiveUp;
                    }
                    Chunk::Data(_) => {}
                    Chunk::Nothing | Chunk::End => break,
                }
            }
            self.stdout_lines.finish(self.journal.queue());
        }
        self.stderr_lines.finish(self.journal.queue());
        self.flush_all()
    }

    /// Waits until the journal took everything.
    fn flush_all(&mut self) -> Patience {
        loop {
            self.journal.flush(Moment::now());
            if self.journal.is_flushed() {
                return Patience::GoOn;
            }
            if self.wait_for_room() == Patience::GiveUp {
                return Patience::GiveUp;
            }
        }
    }

    /// Waits a little for the disk. A request to end, or nobody left who could read, is the end of
    /// our patience.
    fn wait_for_room(&mut self) -> Patience {
        let mut requests = [PollFd::from_borrowed_fd(self.signals.end_fd(), PollFlags::IN)];
        // An interrupted wait only means that we try earlier.
        let _ = poll(&mut requests, Some(&TRY_AGAIN));
        if self.signals.take_end_requests() > 0 {
            return Patience::GiveUp;
        }
        match self.lease.look(Moment::now(), self.heard_at) {
            Some(Lapse::DirectoryGone | Lapse::Orphaned) => Patience::GiveUp,
            // Everybody is gone already, so what these ask for is done.
            Some(Lapse::Idle | Lapse::Leash) | None => Patience::GoOn,
        }
    }
}

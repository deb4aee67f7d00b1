//! The end of a run: kills all descendants, completes the journal and writes `exit.json` last.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Chunk, Hold};
use crate::clock::Moment;
use crate::layout::{ExitFile, FORMAT_VERSION, now_ms};
use crate::lease::Lapse;
use crate::start::{EXIT_HELD, EXIT_NOT_STARTED};

/// How many times each pipe is read after all descendants are gone: enough for more than any pipe
/// holds. Only a process outside that was handed the pipe can still write into it, and it must not
/// delay our end.
const LAST_READS: usize = 1_024;

/// How long to wait before a failed write is tried again; a request to end wakes us earlier.
const TRY_AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Whether a failed write is worth another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    GoOn,
    GiveUp,
}

impl Hold {
    /// Kills all descendants, completes the journal and writes `exit.json`. Returns the shim's exit
    /// code.
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

    /// Reads what the pipes still hold and writes everything. A server that lags does not delay
    /// this; a full disk does.
    fn complete_journal(&mut self) -> Patience {
        if self.flush_all() == Patience::GiveUp {
            return Patience::GiveUp;
        }
        // Stdout comes first: while its last line is incomplete in the journal, no line of stderr
        // may be written.
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

    /// Waits until the journal has written everything, or until waiting is no longer worth it.
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

    /// Waits a little for the disk. Gives up on a request to end, or when nobody is left who could
    /// read.
    fn wait_for_room(&mut self) -> Patience {
        let mut requests = [PollFd::from_borrowed_fd(self.signals.end_fd(), PollFlags::IN)];
        // An interrupted wait only means that we try earlier.
        let _ = poll(&mut requests, Some(&TRY_AGAIN));
        if self.signals.take_end_requests() > 0 {
            return Patience::GiveUp;
        }
        match self.lease.look(Moment::now(), self.heard_at) {
            Some(Lapse::DirectoryGone | Lapse::Orphaned) => Patience::GiveUp,
            // All processes are gone already, so nothing is left to end.
            Some(Lapse::Idle | Lapse::Leash) | None => Patience::GoOn,
        }
    }
}

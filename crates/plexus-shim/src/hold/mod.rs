//! The loop that holds one child, and how a run comes to its end.
//!
//! One `poll` waits for everything: signals, the two output pipes, room in stdin, files in the
//! inbox, segments that the server took, and the nearest deadline. A run is ended in steps, each
//! with its grace:
//!
//! ```text
//! close stdin ──► SIGTERM ──► SIGKILL for all ──► drain ──► exit.json
//!  (no server)   (SIGTERM to   (second SIGTERM,
//!                 the shim)     leash)
//! ```

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdout};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

use crate::args::Options;
use crate::clock::Moment;
use crate::descendants::Family;
use crate::journal::Journal;
use crate::layout::RunDir;
use crate::lease::{Lapse, Lease};
use crate::lines::{StderrLines, StdoutLines, push_note};
use crate::signals::Signals;
use crate::stdin::{Stdin, Turn};
use crate::watch::Watch;

mod end;

/// How long a process that holds the child's output open can delay the end after the child itself
/// has ended. Bytes in the pipes at that moment are read in any case.
pub const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// How much is read at once: as much as a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// How often to look for room while the server lags, and at an inbox that could not be read.
/// Changes wake us earlier.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// One held child.
#[derive(Debug)]
pub(crate) struct Hold {
    run: RunDir,
    grace: Duration,
    family: Family,
    stdin: Option<Stdin>,
    /// The child's output; `None` after its end.
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    stdout_lines: StdoutLines,
    stderr_lines: StderrLines,
    journal: Journal,
    lease: Lease,
    signals: Signals,
    watch: Watch,
    stage: Stage,
    /// Why we end the child, when we do.
    reason: Option<&'static str>,
    /// When the child last said something.
    heard_at: Moment,
    /// When to look into the inbox without being woken: after it could not be read, or when the
    /// kernel does not report every file.
    inbox_look_at: Option<Moment>,
    buffer: Vec<u8>,
}

/// How far the run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The child lives, and nothing asks it to end.
    Running,
    /// Stdin is closed, which a well-behaved child takes as a request to end.
    StdinClosed { until: Moment },
    /// The child was asked to end.
    Terminating { until: Moment },
    /// The child has ended by itself; its pipes may still hold output.
    Draining { until: Moment },
    /// The loop is over.
    Over,
}

/// What the loop waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    EndRequest,
    ChildExit,
    Files,
    Stdout,
    Stderr,
    Stdin,
}

impl Hold {
    /// Takes over a child that was just started, with pipes that do not block.
    pub(crate) fn new(
        options: &Options,
        run: &RunDir,
        mut child: Child,
        journal: Journal,
        signals: Signals,
    ) -> Self {
        let now = Moment::now();
        Self {
            run: run.clone(),
            grace: options.grace,
            family: Family::of(Pid::from_child(&child)),
            stdin: child.stdin.take().map(|pipe| Stdin::new(run.clone(), pipe)),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            stdout_lines: StdoutLines::default(),
            stderr_lines: StderrLines::default(),
            journal,
            lease: Lease::new(run.clone(), options, now),
            signals,
            watch: Watch::new(run),
            stage: Stage::Running,
            reason: None,
            heard_at: now,
            inbox_look_at: None,
            buffer: vec![0; READ_BYTES],
        }
    }

    /// Holds the child until it and all its descendants are gone, and returns the shim's exit code.
    pub(crate) fn until_the_end(mut self) -> u8 {
        // Files that were put before the watch began wake nobody.
        self.forward_inbox(Moment::now());
        while self.stage != Stage::Over {
            let ready = self.wait();
            let now = Moment::now();
            for source in ready {
                self.attend(source, now);
            }
            self.keep_time(now);
        }
        self.finish()
    }

    /// Kills the child and everything it started; returns how many could not be ended.
    pub(crate) fn kill_all(&mut self) -> usize {
        self.family.end_all(&mut self.signals)
    }

    /// Writes a remark of the shim into the journal.
    pub(crate) fn note(&mut self, text: &str) {
        push_note(text, self.journal.queue());
    }

    /// Waits until something is ready or the nearest deadline has come.
    fn wait(&self) -> Vec<Source> {
        let timeout = self.next_deadline().since(Moment::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let sources = self.sources();
        let mut fds: Vec<PollFd<'_>> =
            sources.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(_) => Vec::new(),
            Ok(_) => {
                let ready = sources.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
                ready.map(|((source, _, _), _)| *source).collect()
            }
        }
    }

    /// Returns what to wait for now. A pipe that we do not want to read is left out altogether: if
    /// its other end is closed, it would wake us again and again.
    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut sources = vec![
            (Source::EndRequest, self.signals.end_fd(), PollFlags::IN),
            (Source::ChildExit, self.signals.child_fd(), PollFlags::IN),
        ];
        sources.extend(self.watch.fd().map(|fd| (Source::Files, fd, PollFlags::IN)));
        if self.may_read() {
            sources.extend(
                self.stdout.as_ref().map(|pipe| (Source::Stdout, pipe.as_fd(), PollFlags::IN)),
            );
            // No line of stderr may be written in the middle of a line of stdout.
            if !self.stdout_lines.in_pieces() {
                sources.extend(
                    self.stderr.as_ref().map(|pipe| (Source::Stderr, pipe.as_fd(), PollFlags::IN)),
                );
            }
        }
        sources.extend(
            self.stdin
                .as_ref()
                .and_then(Stdin::waits_for)
                .map(|fd| (Source::Stdin, fd, PollFlags::OUT)),
        );
        sources
    }

    fn may_read(&self) -> bool {
        self.journal.is_flushed() && !self.journal.is_backlogged()
    }

    fn next_deadline(&self) -> Moment {
        let stage = match self.stage {
            Stage::Running | Stage::Over => None,
            Stage::StdinClosed { until }
            | Stage::Terminating { until }
            | Stage::Draining { until } => Some(until),
        };
        let room = self.journal.is_backlogged().then(|| Moment::now().plus(LOOK_AGAIN));
        [stage, self.journal.retry_at(), room, self.inbox_look_at]
            .into_iter()
            .flatten()
            .fold(self.lease.next_look(), Ord::min)
    }

    fn attend(&mut self, source: Source, now: Moment) {
        match source {
            Source::EndRequest => {
                for _ in 0..self.signals.take_end_requests() {
                    self.end_requested(now);
                }
            }
            Source::ChildExit => {
                self.signals.clear_child();
                self.family.reap();
                if self.family.child_status.is_some()
                    && !matches!(self.stage, Stage::Draining { .. } | Stage::Over)
                {
                    self.stage = Stage::Draining { until: now.plus(DRAIN_GRACE) };
                }
            }
            Source::Files => {
                if self.watch.take_inbox_changed() {
                    self.forward_inbox(now);
                }
            }
            // At its end, a pipe is no longer waited for. Nothing else has to be done.
            Source::Stdout => drop(self.read_stdout(now)),
            Source::Stderr => drop(self.read_stderr(now)),
            Source::Stdin => self.forward_inbox(now),
        }
    }

    /// Does what is due by the clock, and ends the loop when no more output can come.
    fn keep_time(&mut self, now: Moment) {
        self.journal.flush(now);
        if self.journal.is_backlogged() {
            self.journal.look_for_room();
        }
        if self.inbox_look_at.is_some_and(|at| now >= at) {
            self.forward_inbox(now);
        }
        if now >= self.lease.next_look()
            && let Some(lapse) = self.lease.look(now, self.heard_at)
        {
            self.lapsed(lapse, now);
        }
        match self.stage {
            Stage::StdinClosed { until } if now >= until => self.terminate(now),
            Stage::Terminating { until } if now >= until => self.stage = Stage::Over,
            Stage::Draining { until }
                if now >= until || (self.stdout.is_none() && self.stderr.is_none()) =>
            {
                self.stage = Stage::Over;
            }
            _ => {}
        }
    }

    /// Handles a request to end the child: with SIGTERM the first time, at once the second.
    fn end_requested(&mut self, now: Moment) {
        self.reason.get_or_insert("ended by a signal to the shim");
        match self.stage {
            Stage::Running | Stage::StdinClosed { .. } => self.terminate(now),
            Stage::Terminating { .. } | Stage::Draining { .. } | Stage::Over => {
                self.stage = Stage::Over
            }
        }
    }

    fn lapsed(&mut self, lapse: Lapse, now: Moment) {
        let has_begun = self.stage != Stage::Running;
        match lapse {
            Lapse::Leash => {
                self.reason = Some("no server renewed the leash");
                self.stage = Stage::Over;
            }
            _ if has_begun => {}
            Lapse::Idle => self.close_stdin("idle, and no server came", now),
            Lapse::Orphaned => self.close_stdin("no server and no output for too long", now),
            Lapse::DirectoryGone => {
                self.reason = Some("the run directory was removed");
                self.terminate(now);
            }
        }
    }

    fn close_stdin(&mut self, reason: &'static str, now: Moment) {
        self.reason = Some(reason);
        match &mut self.stdin {
            Some(stdin) if stdin.is_open() => {
                stdin.close();
                self.stage = Stage::StdinClosed { until: now.plus(self.grace) };
            }
            _ => self.terminate(now),
        }
    }

    fn terminate(&mut self, now: Moment) {
        self.stage = match self.family.signal_child(Signal::TERM) {
            Ok(()) => Stage::Terminating { until: now.plus(self.grace) },
            // A child that cannot be signalled cannot be asked again either.
            Err(_) => Stage::Over,
        };
    }

    fn forward_inbox(&mut self, now: Moment) {
        let Some(stdin) = &mut self.stdin else { return };
        let pause = match stdin.forward() {
            Ok(Turn::Done) => self.watch.look_every(),
            Ok(Turn::MoreToDo) => Some(Duration::ZERO),
            // The messages are still in their files, so an inbox that cannot be used now is tried
            // again.
            Err(_) => Some(LOOK_AGAIN),
        };
        self.inbox_look_at = pause.filter(|_| stdin.is_open()).map(|pause| now.plus(pause));
    }

    fn read_stdout(&mut self, now: Moment) -> Chunk {
        let chunk = read_chunk(&mut self.stdout, &mut self.buffer);
        if let Chunk::Data(length) = chunk {
            self.stdout_lines
                .push(self.buffer.get(..length).unwrap_or_default(), self.journal.queue());
            self.heard(now);
        }
        chunk
    }

    fn read_stderr(&mut self, now: Moment) -> Chunk {
        let chunk = read_chunk(&mut self.stderr, &mut self.buffer);
        if let Chunk::Data(length) = chunk {
            self.stderr_lines
                .push(self.buffer.get(..length).unwrap_or_default(), self.journal.queue());
            self.heard(now);
        }
        chunk
    }

    fn heard(&mut self, now: Moment) {
        self.heard_at = now;
        self.journal.flush(now);
    }
}

/// The result of one read from a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Data(usize),
    /// Nothing for now.
    Nothing,
    /// Nothing ever again; the pipe is closed.
    End,
}

/// Reads once, and drops the pipe at its end.
fn read_chunk<P: Read>(pipe: &mut Option<P>, buffer: &mut [u8]) -> Chunk {
    while let Some(open) = pipe {
        match open.read(buffer) {
            Ok(length @ 1..) => return Chunk::Data(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Chunk::Nothing,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The end, or an error that a pipe never gives: nothing more can be read from it.
            Ok(_) | Err(_) => *pipe = None,
        }
    }
    Chunk::End
}

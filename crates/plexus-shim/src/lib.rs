//! The small process that holds one child: its stdin, its output files, its exit code, its
//! descendants.
//!
//! The server starts one shim for each child and may then come and go as it likes. The two talk
//! through files in the run directory only. The shim knows nothing of what the lines mean; it has
//! one thread, no runtime, and waits in one `poll`.
//!
//! In reading order:
//! - [`layout`]: the run directory's format, which the server shares;
//! - `args`: the command line, as [`Options`];
//! - `start`: becomes a process of its own and starts the child;
//! - `hold`: the loop that holds the child until it has ended, and the order in which a run comes
//!   to its end;
//! - `journal`: output into segments, with a full disk and back-pressure; `lines`: bytes into whole
//!   lines;
//! - `stdin`: inbox into the child's stdin; `watch`: tells when there is something in it;
//! - `lease`: how long no server has been seen, and what follows; `clock`: the time that counts for
//!   it;
//! - `descendants`: ends everything that the child left; `signals`: signals as readable
//!   descriptors.
//!
//! # What a hostile child can do
//! The child is the same user, so it can write into the run directory, forge the files there, and
//! kill the shim. None of this is defended until children are sandboxed; what is defended is that
//! the shim and the machine stay well:
//! - **Endless lines** are held up to [`WHOLE_LINE_BYTES`], passed on in pieces up to
//!   [`MAX_LINE_BYTES`], and then left out until the next newline, with a line that says so.
//! - **Floods** stop at [`Options::backlog_bytes`] of journal that the server has not taken: the
//!   shim stops reading and the child waits in its write.
//! - **Closing stdout and living on** is allowed; the shim waits for the exit, not for the end of
//!   the output.
//! - **Handing stdout to a grandchild** delays the end by [`DRAIN_GRACE`] and no more.
//! - **Leaving the process group, `setsid`, double forks**: everything without a parent becomes a
//!   child of the shim, and the shim ends only when the kernel says that it has no child left.
//! - **Forking between look and kill**: all are stopped before the first is killed, and a stopped
//!   process cannot fork.
//! - **Links and pipes in the run directory** are neither followed nor waited for: what the shim
//!   creates must not exist, and what it reads must be a plain file.
//! - **Not reading stdin** blocks nobody: that pipe is never waited for alone.
//! - **A process of another user** (a setuid program) cannot be killed by us: the shim says so in
//!   `exit.json` and goes.

mod args;
mod clock;
mod descendants;
mod hold;
mod journal;
pub mod layout;
mod lease;
mod lines;
mod signals;
mod start;
mod stdin;
mod watch;

pub use args::{Options, StdinSource, UsageError};
pub use hold::DRAIN_GRACE;
pub use lines::{MAX_LINE_BYTES, MAX_STDERR_LINE_BYTES, WHOLE_LINE_BYTES, stderr_text};
pub use start::{EXIT_HELD, EXIT_NOT_STARTED, EXIT_USAGE, run};

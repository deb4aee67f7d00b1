//! The small process that holds one child: its stdin, its output files, its exit code, its
//! descendants.
//!
//! The server starts one shim for each child, and may stop and restart at any time. The two talk
//! only through files in the run directory. The shim does not interpret the lines; it has one
//! thread, no runtime, and waits in one `poll`.
//!
//! In reading order:
//! - [`layout`]: the run directory's format, which the server shares;
//! - `args`: the command line, as [`Options`];
//! - `start`: becomes a process of its own and starts the child;
//! - `hold`: the loop that holds the child until it has ended, and the order in which a run ends;
//! - `journal`: writes output into segments, waits out a full disk and applies back-pressure;
//!   `lines`: splits bytes into whole lines;
//! - `stdin`: forwards the inbox to the child's stdin; `watch`: reports new files in the inbox;
//! - `lease`: how long no server has been seen, and what follows; `clock`: the clock that it uses;
//! - `descendants`: ends every process that the child left; `signals`: signals as readable
//!   descriptors.
//!
//! # What a hostile child can do
//! The child runs as the same user, so it can write into the run directory, forge the files there,
//! and kill the shim. Nothing defends against that until children are sandboxed. The shim and the
//! machine are protected against:
//! - **Endless lines**: they are held up to [`WHOLE_LINE_BYTES`], passed on in pieces up to
//!   [`MAX_LINE_BYTES`], and then dropped until the next newline, with a line that says so.
//! - **Floods**: at [`Options::backlog_bytes`] of journal that the server has not taken, the shim
//!   stops reading and the child blocks in its write.
//! - **Closing stdout and living on**: this is allowed; the shim waits for the exit, not for the
//!   end of the output.
//! - **Handing stdout to a grandchild**: it delays the end by at most [`DRAIN_GRACE`].
//! - **Leaving the process group, `setsid`, double forks**: every orphan becomes a child of the
//!   shim, and the shim ends only when the kernel says that it has no child left.
//! - **Forking between the scan and the kill**: all are stopped before the first is killed, and a
//!   stopped process cannot fork.
//! - **Links and pipes in the run directory**: a file that the shim creates must not exist yet, and
//!   a file that it reads must be a plain file, so it neither follows links nor waits for pipes.
//! - **Not reading stdin**: this blocks nobody, because the shim never waits for that pipe alone.
//! - **A process of another user** (a setuid program): the shim cannot kill it, says so in
//!   `exit.json` and exits.

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

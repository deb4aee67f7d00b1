//! A wall around a program: it reads and writes the listed files, and reaches the listed hosts.
//!
//! A caller describes a [`Wall`] as plain data. [`plan`] turns it into a [`Plan`] for this machine,
//! or says why this machine cannot build it. The plan goes to a file, and the *stage*, a fresh
//! process with one thread, reads it, restricts itself and becomes the program with `exec`: same
//! pid, same pipes, same process group. Nothing runs without a wall that was asked for: every step
//! that fails ends the stage with [`EXIT_NOT_CONFINED`].
//!
//! In reading order:
//! - [`wall`]: what a caller asks for, and why a child's wall is never looser than its parent's;
//! - [`profile`]: the lists of paths; [`guard`]: files that later run outside; [`git`]: where a
//!   repository keeps its data;
//! - [`machine`]: the tiers, and what this machine can enforce; [`probe`]: finds out by trying;
//! - [`mod@plan`]: a wall for this machine; [`environment`]: the variables and files it brings;
//! - [`stage`]: the order of restricting oneself; [`root`]: a file system of its own;
//!   [`mounts`]: the calls for it; [`network`]: a network of its own; [`rights`]: capabilities and
//!   descriptors; [`files`]: Landlock; [`calls`]: seccomp;
//! - [`ring`]: a second wall around each command of a confined agent; [`apart`]: what it hides
//!   below a directory that is open as a whole;
//! - [`egress`]: the process outside that is the program's only network;
//! - [`dry_run`]: runs a program over a copy and lists what it would change; [`run_dir`]: where the
//!   files of such a run are.
//!
//! Linux only, no `unsafe` of ours. [docs/confine.md](../../../docs/confine.md) has the table of
//! attacks and the gaps.

mod apart;
mod calls;
pub mod dry_run;
pub mod egress;
mod environment;
mod files;
mod git;
pub mod guard;
mod machine;
mod mounts;
mod network;
mod plan;
mod probe;
mod profile;
mod rights;
mod ring;
mod root;
mod run_dir;
mod stage;
#[cfg(test)]
mod testing;
mod wall;

pub use machine::{CannotBuild, Machine, Tier};
pub use plan::{Plan, PlanError, plan};
pub use probe::{NotProbed, StageProgram, probe};
pub use ring::{SHELL_NAME, is_shell, shell_main};
pub use run_dir::{RunDir, sweep};
pub use stage::{EXIT_NOT_CONFINED, StageError, main, run};
pub use wall::{Doors, LooserThanParent, Profile, Wall};

//! Drives a whole server with simulated children and prints the measures of the design.
//!
//! Every figure stands beside its limit, or beside a rival that was measured in the same run. In
//! reading order:
//!
//! - [`sizes`]: how much each mode (`--tiny`, `--quick`, full) does.
//! - [`figure`]: a figure with its rounds, its aim and its rivals; [`stats`]: percentiles and
//!   medians.
//! - [`measure`]: what a measure is, and how all of them are run.
//! - [`measures`]: the measures, one file each.
//! - [`server`]: a real `plexus serve` with simulated children, and the calls that measures make.
//! - [`prepared`]: stores that are filled directly, where children would take too long.
//! - [`journal`]: what a child has written, read from its run directory.
//! - [`soak`]: no measure but a proof: many children for a long time, and whatever can be killed
//!   is.
//! - [`report`]: the table for people and the object for programs.

pub mod figure;
pub mod journal;
pub mod measure;
pub mod measures;
pub mod prepared;
pub mod report;
pub mod server;
pub mod sizes;
#[cfg(target_os = "linux")]
pub mod soak;
pub mod stats;

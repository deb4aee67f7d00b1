//! Drives a whole server with simulated children and prints the measures of the design.
//!
//! Every figure comes with its limit, or with a rival that was measured in the same run. In reading
//! order:
//!
//! - [`sizes`]: how much each mode (`--tiny`, `--quick`, full) does.
//! - [`figure`]: a figure with its rounds, its aim and its rivals; [`stats`]: percentiles and
//!   medians.
//! - [`measure`]: the trait of a measure, and the loop that runs all of them.
//! - [`measures`]: the measures, one file each.
//! - [`server`]: a real `plexus serve` with simulated children, and the calls that measures make.
//! - [`prepared`]: stores that are filled directly, where children would take too long.
//! - [`journal`]: a child's output, read from its run directory.
//! - [`soak`]: not a measure but a long test: many children, and random kills of every process.
//! - [`thousand`]: not a measure either: a thousand agents that wait through a restart.
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
#[cfg(target_os = "linux")]
pub mod thousand;

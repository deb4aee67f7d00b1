//! Whoever belongs to a run, found without its shim.
//!
//! A shim ends everything that its child has started, wherever that moved. One that is killed ends nobody, and then parents tell nothing either: an
//! orphan's parent is init. What a process inherits is its environment, so the child is given the name of its run there, and whoever carries that
//! name belongs to it. A process that clears its environment is not found this way; while its parents live, they still show it.

use std::os::unix::ffi::OsStrExt as _;

use super::{RunDir, Stat};

/// The variable that names the run directory in the environment of the child and of whatever it starts.
pub const RUN_VARIABLE: &str = "PLEXUS_RUN";

impl RunDir {
    /// Returns pid and start time of every living process that carries the name of this run.
    pub fn members(&self) -> Vec<(i32, u64)> {
        let mut entry = RUN_VARIABLE.as_bytes().to_vec();
        entry.push(b'=');
        entry.extend_from_slice(self.path().as_os_str().as_bytes());
        // No `/proc` means nobody to find.
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids =
            processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            // Read before the environment: a number that changes hands in between has another start time, and is not signalled.
            let stat = Stat::read(pid).filter(Stat::lives)?;
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == entry)
                .then_some((pid, stat.start))
        })
        .collect()
    }
}

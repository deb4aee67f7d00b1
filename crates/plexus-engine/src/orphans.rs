//! What a killed shim leaves: found by its parents, and by the name of the run in its environment,
//! and ended.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use plexus_shim::layout::{Delivery, RunDir, process_identity, signal_process};
use rustix::process::Signal;

/// How many processes are followed; a machine with more descendants of one child is lost in other
/// ways.
const MAX_FOLLOWED: usize = 10_000;

/// How often we look for those who were started while we ended the others.
const ROUNDS: usize = 16;

/// How many looks in a row must find nobody new, and how long after one the next comes.
const QUIET_LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Ends these processes, each known by pid and start time.
pub(crate) fn end(processes: impl IntoIterator<Item = (i32, u64)>) {
    for (pid, start) in processes {
        match signal_process(pid, start, Signal::KILL) {
            Ok(Delivery::Sent | Delivery::Gone) => {}
            Err(error) => tracing::warn!(pid, %error, "could not end a process of a child"),
        }
    }
}

/// Ends every process that carries the name of this run, until two searches in a row find none.
///
/// A process that is just becoming another program has no environment to be read for a moment: that
/// is why one look is not enough. It pauses between looks, so call it on a thread that may block.
pub(crate) fn end_members(dir: &RunDir) {
    let mut ended = HashSet::new();
    let mut quiet_looks = 0;
    for _ in 0..ROUNDS {
        let newcomers: Vec<_> =
            dir.members().into_iter().filter(|member| ended.insert(*member)).collect();
        if newcomers.is_empty() {
            quiet_looks += 1;
            if quiet_looks == QUIET_LOOKS {
                return;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        } else {
            quiet_looks = 0;
            end(newcomers);
        }
    }
}

/// Returns pid and start time of everything that descends from `root`, parents before children.
/// What starts meanwhile is missed.
pub(crate) fn descendants(root: i32) -> Vec<(i32, u64)> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for pid in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
    {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.extend(process_identity(child).map(|start| (child, start)));
            open.push(child);
        }
        if found.len() > MAX_FOLLOWED {
            break;
        }
    }
    found
}

/// Field 4 of `/proc/PID/stat`, counted from the last parenthesis: a program's name may hold
/// anything.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

//! The descendants of a process, for the rare case that its shim was killed and cannot end them itself.

use std::collections::HashMap;

use plexus_shim::layout::process_identity;

/// How many processes are followed; a machine with more descendants of one child is lost in other ways.
const MAX_FOLLOWED: usize = 10_000;

/// Returns pid and start time of everything that descends from `root`, parents before children. What starts meanwhile is missed.
pub(crate) fn descendants(root: i32) -> Vec<(i32, u64)> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for pid in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
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

/// Field 4 of `/proc/PID/stat`, counted from the last parenthesis: a program's name may hold anything.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

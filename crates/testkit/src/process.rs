//! The children, open files and memory of a process, read from `/proc`; and proof that no process
//! was left behind.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::eventually;

/// One line of the process table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The process that started it, or the one that adopted it.
    pub parent: u32,
    /// The state letter of the kernel: `R`, `S`, `D`, `Z`, …
    pub state: char,
    /// The arguments joined by spaces; the name in brackets when there are none.
    pub command: String,
}

impl Process {
    /// Tells whether the process has ended and only waits to be reaped.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Returns all processes, including zombies. A process that ends meanwhile may be missing.
pub fn all() -> Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("could not list /proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok())
            && let Some(process) = one(pid)
        {
            found.push(process);
        }
    }
    Ok(found)
}

/// Returns one process, or `None` when it is gone. A zombie still counts.
#[must_use]
pub fn one(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may itself contain parentheses and spaces: the last one closes
    // it.
    let (head, tail) = stat.rsplit_once(')')?;
    let mut fields = tail.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&arguments).replace('\0', " ").trim().to_owned();
    let command = if command.is_empty() {
        format!("[{}]", head.split_once('(').map_or("", |(_, name)| name))
    } else {
        command
    };
    Some(Process { pid, parent, state, command })
}

/// Tells whether a process is running; a zombie is not.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    one(pid).is_some_and(|process| !process.is_zombie())
}

/// Returns all descendants of `root`, without `root` itself.
///
/// A process whose parent has died belongs to the process that adopted it, so call this before the
/// parent ends.
pub fn descendants(root: u32) -> Result<Vec<Process>> {
    let table = all()?;
    let mut family = vec![root];
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        next += 1;
        for process in table.iter().filter(|process| process.parent == parent) {
            // The table is not a snapshot: a recycled pid could otherwise close a cycle.
            if !family.contains(&process.pid) {
                family.push(process.pid);
                found.push(process.clone());
            }
        }
    }
    Ok(found)
}

/// Counts the file descriptors that a process has open.
pub fn open_fds(pid: u32) -> Result<usize> {
    let path = format!("/proc/{pid}/fd");
    Ok(fs::read_dir(&path).with_context(|| format!("could not list {path}"))?.count())
}

/// Returns the resident memory of a process in bytes.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    status_kib(pid, "VmRSS:")
}

/// Returns the largest resident memory that a process has had, in bytes.
pub fn peak_resident_bytes(pid: u32) -> Result<u64> {
    status_kib(pid, "VmHWM:")
}

fn status_kib(pid: u32, key: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .with_context(|| format!("no {key} in {path}"))?;
    let kib: u64 = line
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .with_context(|| format!("odd {key} in {path}"))?;
    Ok(kib * 1024)
}

/// Returns the living processes, except this one, that have `marker` in an argument or in their
/// initial environment.
///
/// Put a unique marker into the environment of a process that a test starts, and all its
/// descendants can be found, even after another process has adopted them.
pub fn marked(marker: &str) -> Result<Vec<Process>> {
    let own = std::process::id();
    let mut found = all()?;
    found.retain(|process| {
        process.pid != own && !process.is_zombie() && carries(process.pid, marker)
    });
    Ok(found)
}

fn carries(pid: u32, marker: &str) -> bool {
    ["cmdline", "environ"].iter().any(|part| {
        let bytes = fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default();
        bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
    })
}

/// Waits until no living process has `marker`.
///
/// # Panics
///
/// When one still lives after `deadline`: the message names them all, and they are killed so that
/// they disturb no other test.
#[track_caller]
pub fn assert_none_marked(marker: &str, deadline: Duration) {
    let started = std::time::Instant::now();
    loop {
        let left = marked(marker).unwrap_or_default();
        if left.is_empty() {
            return;
        }
        if started.elapsed() >= deadline {
            left.iter().for_each(|process| kill(process.pid));
            panic!("these were left behind after {deadline:?}: {left:#?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process is gone or a zombie.
///
/// # Panics
///
/// When it still lives after `deadline`.
#[track_caller]
pub fn wait_until_gone(pid: u32, deadline: Duration) {
    eventually(&format!("the end of process {pid}"), deadline, || (!is_alive(pid)).then_some(()));
}

/// Writes a program. A separate process does the writing: if this process had the file open, a
/// child that another thread starts at that moment would inherit the descriptor, and a file that is
/// open for writing cannot be run.
///
/// # Panics
///
/// When it cannot be written.
#[track_caller]
pub fn executable(path: &Path, script: &str) {
    let line = "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let status = Command::new("sh").args(["-c", line, "sh"]).arg(path).arg(script).status();
    assert!(status.is_ok_and(|status| status.success()), "could not write {}", path.display());
}

/// Kills a process with `SIGKILL`; it may be gone already.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Sends a signal to a process; it may be gone already.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // For a process of our own this fails only when the process has ended, which is what
        // callers want.
        let _gone = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
    use crate::wait::PATIENCE;

    #[test]
    fn a_grandchild_is_a_descendant_and_a_marker_finds_it() {
        let marker = format!("testkit-marker-{}", uuid::Uuid::new_v4());
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .env("TESTKIT_MARKER", &marker)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let sleep = eventually("the grandchild", PATIENCE, || {
            descendants(std::process::id())
                .unwrap()
                .into_iter()
                .find(|p| p.parent == shell.id() && p.command == "sleep 60")
        });
        assert!(is_alive(sleep.pid));
        assert_eq!(marked(&marker).unwrap().len(), 2);
        assert!(open_fds(sleep.pid).unwrap() >= 3);
        assert!(resident_bytes(sleep.pid).unwrap() > 0);

        shell.kill().unwrap();
        shell.wait().unwrap();
        assert_eq!(
            marked(&marker).unwrap().len(),
            1,
            "the orphan must still be found by its marker"
        );
        kill(sleep.pid);
        assert_none_marked(&marker, PATIENCE);
    }

    #[test]
    fn a_leftover_process_is_named_and_killed() {
        let marker = format!("testkit-marker-{}", uuid::Uuid::new_v4());
        let mut sleep =
            Command::new("sleep").arg("60").env("TESTKIT_MARKER", &marker).spawn().unwrap();
        // Until then it is a copy of this process.
        eventually("its program", PATIENCE, || {
            marked(&marker).unwrap().iter().any(|it| it.command == "sleep 60").then_some(())
        });
        let panicked =
            std::panic::catch_unwind(|| assert_none_marked(&marker, Duration::ZERO)).unwrap_err();
        assert!(panicked.downcast_ref::<String>().unwrap().contains("sleep 60"));
        sleep.wait().unwrap();
        assert!(!is_alive(sleep.id()));
    }
}

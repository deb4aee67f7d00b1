//! Identifies processes by `/proc/PID/stat`, and sends signals that cannot reach another process
//! with the same pid.

use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Returns the start time of the living process `pid` (field 22 of `/proc/PID/stat`, clock ticks
/// since the system started). `None` when there is none; a process that has ended and only waits to
/// be reaped counts as gone.
pub fn process_identity(pid: i32) -> Option<u64> {
    let stat = Stat::read(pid)?;
    stat.lives().then_some(stat.start)
}

/// Returns the parent of the process `pid`.
pub fn parent_of(pid: i32) -> Option<i32> {
    Some(Stat::read(pid)?.parent)
}

/// Returns the kernel's random id of this boot.
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The outcome of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The intended process got it.
    Sent,
    /// That process is gone; no process got it.
    Gone,
}

/// Sends `signal` to the process `pid` that started at `start`, and to no later process with the
/// same pid: a descriptor pins the process before its start time is compared.
pub fn signal_process(pid: i32, start: u64, signal: Signal) -> io::Result<Delivery> {
    let Some(raw) = Pid::from_raw(pid) else { return Ok(Delivery::Gone) };
    let held = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(held) => held,
        Err(rustix::io::Errno::SRCH) => return Ok(Delivery::Gone),
        Err(error) => return Err(error.into()),
    };
    if Stat::read(pid).is_none_or(|stat| stat.start != start) {
        return Ok(Delivery::Gone);
    }
    match pidfd_send_signal(&held, signal) {
        Ok(()) => Ok(Delivery::Sent),
        Err(rustix::io::Errno::SRCH) => Ok(Delivery::Gone),
        Err(error) => Err(error.into()),
    }
}

/// The fields of `/proc/PID/stat` that we need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) parent: i32,
    /// Its process group; 0 when the group has no number in this pid namespace, as in a container
    /// that was entered from outside.
    pub(crate) group: i32,
    pub(crate) threads: u64,
    pub(crate) start: u64,
}

impl Stat {
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses the line. The second field is the program's name in parentheses and may hold
    /// anything, spaces, newlines and parentheses too, so fields are counted from its last `)`.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let after_name = line.iter().rposition(|&byte| byte == b')')? + 1;
        let rest = std::str::from_utf8(line.get(after_name..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?; // Field 3.
        let parent = fields.next()?.parse().ok()?; // Field 4.
        let group = fields.next()?.parse().ok()?; // Field 5.
        let threads = fields.nth(14)?.parse().ok()?; // Field 20.
        let start = fields.nth(1)?.parse().ok()?; // Field 22.
        Some(Self { state, parent, group, threads, start })
    }

    /// Returns whether this process can still do anything. One whose first thread has ended looks
    /// like a zombie while its other threads run on.
    pub(crate) fn lives(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x') || self.threads > 1
    }
}

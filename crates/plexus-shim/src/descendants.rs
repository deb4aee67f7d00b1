//! Finds, stops, kills and reaps everything the child started, wherever it moved, until the kernel
//! says that none is left.
//!
//! The shim is the subreaper of its descendants: a process whose parent ends becomes a child of the
//! shim, whatever session or process group it put itself into. So the shim has a descendant exactly
//! as long as it has a child. "No child" is the one answer of the kernel that holds for all
//! descendants at a single moment; walking `/proc` only finds processes to signal.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, wait};

use crate::clock::Moment;
use crate::layout::{Stat, signal_process};
use crate::signals::Signals;

/// How long to wait for killed descendants to be gone. A process in an uninterruptible call takes
/// its time; one of another user cannot be killed by us.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// How often we look for new processes before the first kill of a round. Each look stops all that
/// it finds, so the next one finds only those forked in between.
const STOP_ROUNDS: u32 = 16;

/// How long to wait for killed processes to be gone before looking again; their exits wake us
/// earlier.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The children of this process, as the kernel knows them.
#[derive(Debug)]
pub(crate) struct Family {
    child: Pid,
    /// How the child ended, once it has.
    pub(crate) child_status: Option<WaitStatus>,
    /// Whether any child is left.
    pub(crate) has_members: bool,
}

impl Family {
    /// Starts with the one child that was just spawned.
    pub(crate) fn of(child: Pid) -> Self {
        Self { child, child_status: None, has_members: true }
    }

    /// Sends a signal to the child itself. Until we reap it, no other process can have its pid.
    pub(crate) fn signal_child(&self, signal: Signal) -> rustix::io::Result<()> {
        match self.child_status {
            Some(_) => Ok(()),
            None => rustix::process::kill_process(self.child, signal),
        }
    }

    /// Reaps every child that has ended.
    pub(crate) fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.child => self.child_status = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return,
                // ECHILD, the only other answer there is: no child is left.
                Err(_) => {
                    self.has_members = false;
                    return;
                }
            }
        }
    }

    /// Kills the child and all its descendants and reaps them. Returns how many are left after
    /// [`KILL_PATIENCE`].
    pub(crate) fn end_all(&mut self, signals: &mut Signals) -> usize {
        // The deadline counts from the first kill: if it counted from the stop, a machine that
        // sleeps between the two would make us leave them stopped and alive.
        let mut deadline = None;
        loop {
            signals.clear_child();
            self.reap();
            if !self.has_members {
                return 0;
            }
            let living = stop_all();
            plexus_fault::point!("shim.killing");
            if deadline.is_some_and(|deadline| Moment::now() >= deadline) {
                return living.len();
            }
            for (pid, start) in living {
                // A process that cannot be signalled is found again by the next look, and counted
                // after the deadline.
                drop(signal_process(pid, start, Signal::KILL));
            }
            deadline.get_or_insert_with(|| Moment::now().plus(KILL_PATIENCE));
            let mut exits = [PollFd::from_borrowed_fd(signals.child_fd(), PollFlags::IN)];
            // An interrupted wait only means that we look earlier.
            let _ = poll(&mut exits, Some(&LOOK_AGAIN));
        }
    }
}

/// Stops every living descendant and returns them. A stopped process cannot fork, so this ends even
/// when they fork faster than we could kill them.
fn stop_all() -> HashSet<(i32, u64)> {
    let mut stopped = HashSet::new();
    for _ in 0..STOP_ROUNDS {
        let newcomers: Vec<_> =
            living_descendants().into_iter().filter(|member| !stopped.contains(member)).collect();
        if newcomers.is_empty() {
            break;
        }
        for (pid, start) in newcomers {
            drop(signal_process(pid, start, Signal::STOP));
            stopped.insert((pid, start));
        }
    }
    stopped
}

/// Returns pid and start time of every living process below this one, as one walk of `/proc` shows
/// them.
fn living_descendants() -> Vec<(i32, u64)> {
    // Without `/proc` none can be found; the caller still sees from `wait` that a child is left.
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut children: HashMap<i32, Vec<(i32, Stat)>> = HashMap::new();
    for entry in entries.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((pid, stat)) = pid.and_then(|pid| Some((pid, Stat::read(pid)?))) {
            children.entry(stat.parent).or_default().push((pid, stat));
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw_pid()];
    while let Some(parent) = parents.pop() {
        // Removing the entry keeps a walk over a tree that changes from going in circles.
        for (pid, stat) in children.remove(&parent).unwrap_or_default() {
            parents.push(pid);
            if stat.lives() {
                found.push((pid, stat.start));
            }
        }
    }
    found
}

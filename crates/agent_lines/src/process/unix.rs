//! Ends a child's process group, on Unix systems other than Linux.
//!
//! A tool in a session of its own is out of reach here. An agent ends its tools itself when it is
//! asked to end, so it is always asked first.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};

/// A child that leads a process group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    leader: Option<Pid>,
}

/// Makes the child the leader of a group of its own.
pub(super) fn prepare(command: &mut Command) {
    command.process_group(0);
}

impl Group {
    pub(super) fn of(child: &Child, _mark: String) -> Self {
        Self { leader: child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) }
    }

    pub(super) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills the rest of the group and returns whether it was there.
    pub(super) fn kill_leftovers(&self) -> bool {
        let is_left = self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok());
        if is_left {
            self.signal(Signal::KILL);
        }
        is_left
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // The group may have ended meanwhile.
            let _ = kill_process_group(leader, signal);
        }
    }
}

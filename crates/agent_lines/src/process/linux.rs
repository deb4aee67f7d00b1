//! Finds a child's descendants in `/proc` and kills them, but never another process that has reused
//! a pid.

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};

/// A child that leads a process group, and the mark in its environment.
#[derive(Debug, Clone)]
pub(super) struct Group {
    leader: Option<Pid>,
    /// When the leader started. Nothing that it started is older.
    since: u64,
    mark: String,
}

/// Makes the child the leader of a group of its own.
pub(super) fn prepare(command: &mut Command) {
    command.process_group(0);
}

impl Group {
    pub(super) fn of(child: &Child, mark: String) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        // Not waited for yet, so the pid is still its own.
        let process = leader.and_then(|leader| Process::read(leader.as_raw_pid()));
        Self { leader, since: process.map_or(0, |process| process.start_time), mark }
    }

    pub(super) fn ask_to_end(&self) {
        if let Some(leader) = self.leader {
            // The group may have ended meanwhile.
            let _ = kill_process_group(leader, Signal::TERM);
        }
    }

    pub(super) fn kill(&self) {
        let Some(leader) = self.leader else { return };
        // The search comes before the kill: afterwards the parent is gone and the tree has no root.
        let (descendants, _) = self.find(Look::Descendants);
        let _ = kill_process_group(leader, Signal::KILL);
        descendants.iter().for_each(Process::kill);
    }

    /// Kills the remaining processes and returns whether there may be more.
    pub(super) fn kill_leftovers(&self) -> bool {
        let (found, is_unsure) = self.find(Look::Leftovers);
        found.iter().for_each(Process::kill);
        !found.is_empty() || is_unsure
    }

    /// Returns our living processes, and whether there is one that may be ours.
    fn find(&self, look: Look) -> (Vec<Process>, bool) {
        let Some(leader) = self.leader.map(Pid::as_raw_pid) else { return (Vec::new(), false) };
        let processes = list(self.since);
        // The kernel does not reuse the number of a group while a process is in it. So a group
        // without its leader is still ours. After our child was reaped, a process with its number
        // is a stranger.
        let has_leader = processes.iter().any(|process| process.pid == leader);
        let owns_group = look == Look::Descendants || !has_leader;
        let mut ours = HashSet::new();
        // They have no environment. While a process loads its program, that is so for a moment.
        let mut unknown = Vec::new();
        for process in &processes {
            let is_leader = look == Look::Descendants && process.pid == leader;
            if is_leader || (owns_group && process.group == leader) {
                ours.insert(process.pid);
                continue;
            }
            let environment = process.environment();
            if environment.windows(self.mark.len()).any(|part| part == self.mark.as_bytes()) {
                ours.insert(process.pid);
            } else if environment.is_empty() && !process.is_dead {
                unknown.push(process.pid);
            }
        }
        // Children of our processes are ours, even those that removed the mark.
        loop {
            let before = ours.len();
            for process in &processes {
                if ours.contains(&process.parent) {
                    ours.insert(process.pid);
                }
            }
            if ours.len() == before {
                break;
            }
        }
        let is_unsure = unknown.iter().any(|pid| !ours.contains(pid));
        let found = processes
            .into_iter()
            .filter(|process| ours.contains(&process.pid) && !process.is_dead)
            .collect();
        (found, is_unsure)
    }
}

/// Which processes are searched for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The child, not yet reaped, and its descendants.
    Descendants,
    /// The descendants of a child that was reaped.
    Leftovers,
}

/// One line of the process table.
#[derive(Debug)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// Together with the pid, identifies a process for ever.
    start_time: u64,
    /// A zombie: it only waits to be reaped by its parent.
    is_dead: bool,
    /// A thread of the kernel, which has no environment.
    is_kernel: bool,
}

/// The flag of a kernel thread in `/proc/PID/stat`, which the kernel calls `PF_KTHREAD`.
const KERNEL_THREAD: u32 = 0x0020_0000;

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may contain anything, parentheses too.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
            is_dead: matches!(fields.first(), Some(&("Z" | "X"))),
            is_kernel: fields.get(6)?.parse::<u32>().ok()? & KERNEL_THREAD != 0,
        })
    }

    /// Returns the environment that its program was started with.
    fn environment(&self) -> Vec<u8> {
        // Another user's environment cannot be read, and another user's process is not ours.
        fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_else(|_| b"unreadable".to_vec())
    }

    /// Kills exactly this process. It opens the descriptor first, and only then checks that the pid
    /// still belongs to the process that was found.
    fn kill(&self) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if Self::read(self.pid).is_some_and(|now| now.start_time == self.start_time) {
            // The process may have ended by itself.
            let _ = pidfd_send_signal(&descriptor, Signal::KILL);
        }
    }
}

/// Returns all processes of programs, except this one, that started then or later. To read the
/// environment of every process of a machine takes milliseconds, and most of them are older than
/// any child.
fn list(since: u64) -> Vec<Process> {
    let own = rustix::process::getpid().as_raw_pid();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .filter_map(Process::read)
        .filter(|process| process.start_time >= since && !process.is_kernel)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_without_an_environment_may_be_ours() {
        let mut child = Command::new("true").spawn().unwrap();
        let group = Group::of(&child, "a mark".to_owned());
        child.wait().await.unwrap();
        let mut bare =
            Command::new("sleep").arg("3600").env_clear().kill_on_drop(true).spawn().unwrap();
        let id = i32::try_from(bare.id().unwrap()).unwrap();
        // Before it runs its program, it has the environment of this process.
        while !Process::read(id).unwrap().environment().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let (found, is_unsure) = group.find(Look::Leftovers);
        assert_eq!((found.len(), is_unsure), (0, true));
        bare.kill().await.unwrap();
    }

    #[tokio::test]
    async fn a_search_lists_the_child_and_nothing_older() {
        let mut earlier = Command::new("sleep").arg("3600").kill_on_drop(true).spawn().unwrap();
        let earlier_id = i32::try_from(earlier.id().unwrap()).unwrap();
        let before = Process::read(earlier_id).unwrap().start_time;
        // Start times are counted in ticks of the clock: the next process must be of a later one.
        let mut child = loop {
            let mut child = Command::new("sleep").arg("3600").kill_on_drop(true).spawn().unwrap();
            let id = i32::try_from(child.id().unwrap()).unwrap();
            if Process::read(id).unwrap().start_time > before {
                break child;
            }
            child.kill().await.unwrap();
        };
        let group = Group::of(&child, "a mark".to_owned());
        let found: Vec<i32> = list(group.since).iter().map(|process| process.pid).collect();
        assert!(found.contains(&i32::try_from(child.id().unwrap()).unwrap()));
        assert!(!found.contains(&earlier_id));
        child.kill().await.unwrap();
        earlier.kill().await.unwrap();
    }
}

//! A child with everything it starts, ended as one.
//!
//! Agents give each tool a session of its own, so a signal to the child's process group misses the
//! tools, and they outlive a killed agent. Finding them depends on the system, with one module for
//! each: [`linux`](self) walks `/proc`, other Unix systems use the process group, and Windows a job
//! object.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod platform;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "unix.rs"]
mod platform;
#[cfg(windows)]
#[path = "windows.rs"]
mod platform;

use std::io;
use std::time::Duration;

use tokio::process::{Child, Command};
use uuid::Uuid;

/// The environment variable that marks a child. Its descendants inherit it, and so are found when
/// their parents are gone. A run inside a run appends to it.
const MARK_VARIABLE: &str = "AGENT_LINES_RUN_MARK";

/// How often to search for leftovers, because a process that forks while it is being killed needs
/// another search.
const LOOKS: u32 = 40;

/// How long to wait for killed processes to disappear before the next search.
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// A child and its descendants. Kills them all if it is dropped before
/// [`ProcessTree::end_leftovers`].
#[derive(Debug)]
pub struct ProcessTree {
    group: platform::Group,
    is_over: bool,
}

impl ProcessTree {
    /// Starts `command` as the root of a tree.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        let mark = Uuid::new_v4().to_string();
        let marks = match std::env::var(MARK_VARIABLE) {
            Ok(outer) if !outer.is_empty() => format!("{outer}:{mark}"),
            _ => mark.clone(),
        };
        command.env(MARK_VARIABLE, marks).kill_on_drop(true);
        platform::prepare(command);
        let child = command.spawn()?;
        let group = platform::Group::of(&child, mark);
        Ok((child, Self { group, is_over: false }))
    }

    /// Asks the child to end, with a termination signal. An interrupt would not do: Claude Code
    /// answers it with exit code 0, which looks like success, and Codex leaves the children of its
    /// tools running.
    pub fn ask_to_end(&self) {
        self.group.ask_to_end();
    }

    /// Kills the child and its descendants. Call it only before the child was waited for.
    pub fn kill(&self) {
        self.group.kill();
    }

    /// Kills the processes that the child left behind, and searches again until there are none.
    /// Call it after the child was waited for.
    pub async fn end_leftovers(mut self) {
        self.is_over = true;
        for _ in 0..LOOKS {
            let group = self.group.clone();
            // The search reads hundreds of small files.
            let may_be_more = tokio::task::spawn_blocking(move || group.kill_leftovers()).await;
            if matches!(may_be_more, Ok(false) | Err(_)) {
                return;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        // The runtime is shutting down and nothing can wait any more, so the processes are killed
        // without being asked.
        if !self.is_over {
            self.group.kill();
            self.group.kill_leftovers();
        }
    }
}

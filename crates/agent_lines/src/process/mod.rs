//! A child with everything it starts, ended as one.
//!
//! Agents give each tool a session of its own, so a signal to the child's process group misses
//! them, and a killed agent leaves them running. What finds them depends on the system and is in
//! one module for each: [`linux`](self) walks `/proc`, other Unix systems have the process group,
//! Windows the tree of processes.

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

/// Every child gets this variable, and what it starts inherits it: the mark by which they are found
/// when their parents are gone. Runs inside runs add to it.
const MARK_VARIABLE: &str = "AGENT_LINES_RUN_MARK";

/// A process that forks while it is being killed needs another look.
const LOOKS: u32 = 40;

/// How long a killed process may take to disappear before the next look.
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// A child and its descendants. Dropped before [`ProcessTree::end_leftovers`], it kills them all.
#[derive(Debug)]
pub struct ProcessTree {
    group: platform::Group,
    is_over: bool,
}

impl ProcessTree {
    /// Starts `command` as the head of a tree.
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

    /// Asks the child to end. Not an interrupt: Claude Code answers that with exit code 0, which
    /// looks like success, and Codex leaves the children of its tools.
    pub fn ask_to_end(&self) {
        self.group.ask_to_end();
    }

    /// Kills the child and its descendants. Only while the child has not been waited for.
    pub fn kill(&self) {
        self.group.kill();
    }

    /// Kills what the child has left behind, and looks again until there is nothing. For after the
    /// child was waited for.
    pub async fn end_leftovers(mut self) {
        self.is_over = true;
        for _ in 0..LOOKS {
            let group = self.group.clone();
            // Looking reads hundreds of small files.
            let found = tokio::task::spawn_blocking(move || group.kill_leftovers()).await;
            if matches!(found, Ok(0) | Err(_)) {
                return;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        // The runtime was shut down around us: nobody can wait any more, so nobody is asked.
        if !self.is_over {
            self.group.kill();
            self.group.kill_leftovers();
        }
    }
}

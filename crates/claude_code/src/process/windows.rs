//! Ends a child's tree of processes on Windows, with the system's own `taskkill`.
//!
//! There is no polite request that a console program without a window would hear, so asking is killing.

use std::process::{Command as StdCommand, Stdio};

use tokio::process::{Child, Command};

/// A child, by its number.
#[derive(Debug, Clone)]
pub(super) struct Group {
    child: Option<u32>,
}

/// Nothing needs to be prepared.
pub(super) fn prepare(_command: &mut Command) {}

impl Group {
    pub(super) fn of(child: &Child, _mark: String) -> Self {
        Self { child: child.id() }
    }

    pub(super) fn ask_to_end(&self) {
        self.kill();
    }

    pub(super) fn kill(&self) {
        if let Some(child) = self.child {
            // It may have ended meanwhile, which taskkill reports as a failure.
            let _ = StdCommand::new("taskkill")
                .args(["/T", "/F", "/PID", &child.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }

    /// After the child's exit its tree has no root to start from.
    pub(super) fn kill_leftovers(&self) -> usize {
        0
    }
}

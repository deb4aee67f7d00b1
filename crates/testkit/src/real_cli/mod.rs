//! Finds the real CLI of an agent, and runs suites that need it.
//!
//! - [`RealCli`]: where a CLI is, or how to install it.
//! - [`suite`]: a test program that reports *ignored* where the CLI, or the network namespace it
//!   needs, is not available.

#[cfg(target_os = "linux")]
pub mod suite;

use std::path::PathBuf;

use crate::fixtures::workspace_root;

/// The real CLI of an agent.
#[derive(Debug, Clone, Copy)]
pub struct RealCli {
    /// The variable that names the CLI to use instead of the one in the project's cache.
    pub variable: &'static str,
    /// The variable that, set to 1, turns a missing CLI from *ignored* into a failure, so that a
    /// skip cannot count as success.
    pub require_variable: &'static str,
    /// Where the script installs it, relative to the root of the workspace.
    pub cached: &'static str,
    /// The script that installs it.
    pub script: &'static str,
}

impl RealCli {
    /// Returns the path of the CLI, or says what is missing and how to install it.
    pub fn find(&self) -> Result<PathBuf, String> {
        if let Some(path) = std::env::var_os(self.variable).filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            return if path.is_file() {
                Ok(path)
            } else {
                Err(format!("{} names {}, which is not a file", self.variable, path.display()))
            };
        }
        let cached = workspace_root().join(self.cached);
        if cached.is_file() {
            Ok(cached)
        } else {
            Err(format!("no {}: run {} or set {}", self.cached, self.script, self.variable))
        }
    }

    /// Tells whether a missing CLI must fail the suite.
    #[must_use]
    pub fn is_required(&self) -> bool {
        std::env::var(self.require_variable).is_ok_and(|value| value == "1")
    }
}

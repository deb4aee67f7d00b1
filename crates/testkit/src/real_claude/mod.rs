//! Finds the real Claude Code CLI, gives it a sandbox, and runs suites that need it.
//!
//! - [`find`]: where the CLI is, or what to do about its absence.
//! - [`Sandbox`]: a home, a working directory and the environment that keep a run away from everything real.
//! - [`suite`]: a test program that reports *ignored* where the CLI, or the network namespace it needs, cannot be had.

mod sandbox;
#[cfg(target_os = "linux")]
pub mod suite;

use std::path::{Path, PathBuf};

pub use sandbox::Sandbox;

use crate::fixtures::workspace_root;

/// Names the CLI to use instead of the one in the project's cache.
pub const CLI_VARIABLE: &str = "PLEXUS_REAL_CLAUDE";

/// Set to 1, turns a missing CLI from *ignored* into a failure, so that a skip cannot pass for success.
pub const REQUIRE_VARIABLE: &str = "PLEXUS_REQUIRE_REAL_CLAUDE";

/// Where `scripts/install-claude-cli.sh` puts the CLI, below the root of the workspace.
const CACHED_CLI: &str = ".cache/claude-cli/node_modules/.bin/claude";

/// Returns the path of the real CLI, or says what is missing and what to do.
pub fn find() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(CLI_VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("{CLI_VARIABLE} names {}, which is not a file", path.display()))
        };
    }
    let cached = workspace_root().join(CACHED_CLI);
    if cached.is_file() {
        Ok(cached)
    } else {
        let script = Path::new("scripts").join("install-claude-cli.sh");
        Err(format!("no {CACHED_CLI}: run {} or set {CLI_VARIABLE}", script.display()))
    }
}

/// Tells whether a missing CLI must fail the suite.
#[must_use]
pub fn is_required() -> bool {
    std::env::var(REQUIRE_VARIABLE).is_ok_and(|value| value == "1")
}

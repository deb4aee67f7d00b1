//! The real Claude Code CLI: where it is, a sandbox for it, and suites that need it.
//!
//! - [`CLI`]: where it is, or how to install it.
//! - [`Sandbox`]: a home, a working directory and an environment that isolate a run from the real
//!   ones.
//! - [`suite`]: a test program that reports *ignored* where the CLI is not available.

mod sandbox;

#[cfg(target_os = "linux")]
pub use crate::real_cli::suite;
pub use sandbox::Sandbox;

use crate::real_cli::RealCli;

/// The Claude Code CLI.
pub const CLI: RealCli = RealCli {
    variable: "PLEXUS_REAL_CLAUDE",
    require_variable: "PLEXUS_REQUIRE_REAL_CLAUDE",
    cached: ".cache/claude-cli/node_modules/.bin/claude",
    script: "scripts/install-claude-cli.sh",
};

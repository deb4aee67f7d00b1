//! The real Codex CLI: where it is, and a sandbox for it.

#[cfg(target_os = "linux")]
mod managed;
mod sandbox;

#[cfg(target_os = "linux")]
pub use managed::ManagedCli;
pub use sandbox::Sandbox;

use crate::real_cli::RealCli;

/// The Codex CLI: the package's static binary, without its Node.js wrapper script.
pub const CLI: RealCli = RealCli {
    variable: "PLEXUS_REAL_CODEX",
    require_variable: "PLEXUS_REQUIRE_REAL_CODEX",
    cached: ".cache/codex-cli/codex",
    script: "scripts/install-codex-cli.sh",
};

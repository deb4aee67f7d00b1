//! The settings that the configurations of backends share.

use crate::{AgentWrapperCapabilities, capabilities as ids};

/// The environment that a run inherits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentEnvironment {
    /// Everything that this process has.
    #[default]
    Inherit,
    /// Nothing.
    Clear,
}

/// Whether the settings, hooks and MCP servers in the working directory apply.
#[cfg(any(feature = "claude_code", feature = "codex"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectSettings {
    /// None apply: a directory that somebody else wrote cannot run anything unasked.
    #[default]
    Ignore,
    /// All apply, as if the user had started the agent there.
    Trust,
}

/// The first message of a run without the agent's own checks.
pub(crate) const SANDBOX_WARNING: &str =
    "warning: the agent's permission checks are off (external sandbox); the host alone isolates it";

/// Returns the capabilities of a backend that supports the whole contract, and its own mark. The
/// configuration decides about an external sandbox.
pub(crate) fn capabilities_of(
    mark: &'static str,
    allow_external_sandbox_exec: bool,
) -> AgentWrapperCapabilities {
    let always = [
        ids::RUN,
        ids::EVENTS,
        ids::EVENTS_LIVE,
        ids::CONTROL_CANCEL,
        ids::TOOLS_STRUCTURED,
        ids::TOOLS_RESULTS,
        ids::FINAL_TEXT,
        ids::SESSION_HANDLE,
        ids::SESSION_RESUME,
        ids::SESSION_FORK,
        ids::CONFIG_MODEL,
        ids::EXEC_ADD_DIRS,
        ids::EXEC_NON_INTERACTIVE,
        mark,
    ];
    let sandbox = allow_external_sandbox_exec.then_some(ids::EXEC_EXTERNAL_SANDBOX);
    always.into_iter().chain(sandbox).collect()
}

//! What the configurations of backends decide alike.

use crate::{AgentWrapperCapabilities, capabilities as ids};

/// What a run finds in its environment beside what it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentEnvironment {
    /// Everything that this process has.
    #[default]
    Inherit,
    /// Nothing.
    Clear,
}

/// What counts of the settings, hooks and MCP servers that lie in the working directory.
#[cfg(any(feature = "claude_code", feature = "codex"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectSettings {
    /// None of it: a directory that somebody else wrote cannot run anything unasked.
    #[default]
    Ignore,
    /// All of it, as if the user had started the agent there.
    Trust,
}

/// What a run without the agent's own checks says before everything else.
pub(crate) const SANDBOX_WARNING: &str =
    "warning: the agent's permission checks are off (external sandbox); the host alone isolates it";

/// The capabilities of a backend that does everything in the contract, with the mark of its own. An
/// external sandbox is the configuration's to allow.
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

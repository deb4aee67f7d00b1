//! What the configurations of backends decide alike.

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

//! What a program decides for all runs of the backend.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

pub use crate::backends::shared::config::{
    AgentEnvironment as CodexEnvironment, ProjectSettings as CodexProjectSettings,
};

/// Defaults of the backend. A request overrides what it names; the default of all of it is what an
/// installed CLI needs. Login, provider and models are those of `CODEX_HOME`.
#[derive(Clone, Default)]
pub struct CodexBackendConfig {
    /// The program; `codex` from the search path without it.
    pub binary: Option<PathBuf>,
    /// Where a run works whose request does not say.
    pub default_working_dir: Option<PathBuf>,
    /// How long a run may take whose request does not say; without it, as long as it takes.
    pub default_timeout: Option<Duration>,
    /// Environment of every run, laid over what it inherits; a request's is laid over this.
    pub env: BTreeMap<String, String>,
    /// What a run inherits.
    pub environment: CodexEnvironment,
    /// Whether a request may turn sandbox and questions off with
    /// `agent_api.exec.external_sandbox.v1`.
    pub allow_external_sandbox_exec: bool,
    /// What counts of the settings that lie in the working directory.
    pub project_settings: CodexProjectSettings,
    /// How long an agent that is asked to end may take before it is killed.
    pub termination_grace: Option<Duration>,
}

/// Shows the names of the environment and not its values.
impl fmt::Debug for CodexBackendConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodexBackendConfig")
            .field("binary", &self.binary)
            .field("default_working_dir", &self.default_working_dir)
            .field("default_timeout", &self.default_timeout)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("environment", &self.environment)
            .field("allow_external_sandbox_exec", &self.allow_external_sandbox_exec)
            .field("project_settings", &self.project_settings)
            .field("termination_grace", &self.termination_grace)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_value() {
        let env = [("TOKEN".to_owned(), "hunter2".to_owned())].into();
        let shown = format!("{:?}", CodexBackendConfig { env, ..Default::default() });
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
    }
}

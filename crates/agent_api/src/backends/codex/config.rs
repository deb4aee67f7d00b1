//! The settings for all runs of the backend.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

pub use crate::backends::shared::config::{
    AgentEnvironment as CodexEnvironment, ProjectSettings as CodexProjectSettings,
};

/// Defaults of the backend. A request overrides the defaults that it names. Without any settings,
/// an installed CLI works. Login, provider and models are those of `CODEX_HOME`.
#[derive(Clone, Default)]
pub struct CodexBackendConfig {
    /// The program; without it, `codex` from the search path.
    pub binary: Option<PathBuf>,
    /// The working directory of a run whose request names none.
    pub default_working_dir: Option<PathBuf>,
    /// The time limit of a run whose request names none; without it, there is no limit.
    pub default_timeout: Option<Duration>,
    /// Environment variables of every run. They override inherited ones, and a request's override
    /// these.
    pub env: BTreeMap<String, String>,
    /// The environment that a run inherits.
    pub environment: CodexEnvironment,
    /// Whether a request may turn sandbox and approvals off with
    /// `agent_api.exec.external_sandbox.v1`.
    pub allow_external_sandbox_exec: bool,
    /// Whether the settings in the working directory apply.
    pub project_settings: CodexProjectSettings,
    /// How long an agent may take to end after it was asked, before it is killed.
    pub termination_grace: Option<Duration>,
}

/// Shows the names of the environment variables without their values.
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

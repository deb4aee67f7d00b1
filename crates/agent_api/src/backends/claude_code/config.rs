//! The settings for all runs of the backend.

use std::{
    collections::BTreeMap, env, ffi::OsString, fmt, path::PathBuf, sync::Arc, time::Duration,
};

use super::sessions::{ClaudeCodeSessionLookup, ClaudeCodeTranscripts};
use crate::AgentWrapperRunRequest;
pub use crate::backends::shared::config::{
    AgentEnvironment as ClaudeCodeEnvironment, ProjectSettings as ClaudeCodeProjectSettings,
};

/// Defaults of the backend. A request overrides the defaults that it names. Without any settings,
/// an installed CLI works.
#[derive(Clone)]
pub struct ClaudeCodeBackendConfig {
    /// The program; without it, `claude` from the search path.
    pub binary: Option<PathBuf>,
    /// The working directory of a run whose request names none.
    pub default_working_dir: Option<PathBuf>,
    /// The time limit of a run whose request names none; without it, there is no limit.
    pub default_timeout: Option<Duration>,
    /// Environment variables of every run. They override inherited ones, and a request's override
    /// these.
    pub env: BTreeMap<String, String>,
    /// The environment that a run inherits.
    pub environment: ClaudeCodeEnvironment,
    /// Whether a request may turn the CLI's permission checks off with
    /// `agent_api.exec.external_sandbox.v1`.
    pub allow_external_sandbox_exec: bool,
    /// Whether the settings in the working directory apply.
    pub project_settings: ClaudeCodeProjectSettings,
    /// How long an agent may take to end after it was asked, before it is killed.
    pub termination_grace: Option<Duration>,
    /// Finds the session for `{"selector":"last"}`.
    pub sessions: Arc<dyn ClaudeCodeSessionLookup>,
}

impl Default for ClaudeCodeBackendConfig {
    fn default() -> Self {
        Self {
            binary: None,
            default_working_dir: None,
            default_timeout: None,
            env: BTreeMap::new(),
            environment: ClaudeCodeEnvironment::default(),
            allow_external_sandbox_exec: false,
            project_settings: ClaudeCodeProjectSettings::default(),
            termination_grace: None,
            sessions: Arc::new(ClaudeCodeTranscripts),
        }
    }
}

impl ClaudeCodeBackendConfig {
    /// Returns the directory in which the CLI of this run keeps its data.
    pub(super) fn cli_config_dir(&self, request: &AgentWrapperRunRequest) -> Option<PathBuf> {
        if let Some(dir) = self.variable(request, "CLAUDE_CONFIG_DIR") {
            return Some(dir.into());
        }
        let home = self.variable(request, if cfg!(windows) { "USERPROFILE" } else { "HOME" })?;
        Some(PathBuf::from(home).join(".claude"))
    }

    /// Returns an environment variable as the run will see it; an empty one counts as unset.
    fn variable(&self, request: &AgentWrapperRunRequest, name: &str) -> Option<OsString> {
        let given = request.env.get(name).or_else(|| self.env.get(name)).map(OsString::from);
        let inherited = || match self.environment {
            ClaudeCodeEnvironment::Inherit => env::var_os(name),
            ClaudeCodeEnvironment::Clear => None,
        };
        given.or_else(inherited).filter(|value| !value.is_empty())
    }
}

/// Shows the names of the environment variables without their values.
impl fmt::Debug for ClaudeCodeBackendConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaudeCodeBackendConfig")
            .field("binary", &self.binary)
            .field("default_working_dir", &self.default_working_dir)
            .field("default_timeout", &self.default_timeout)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("environment", &self.environment)
            .field("allow_external_sandbox_exec", &self.allow_external_sandbox_exec)
            .field("project_settings", &self.project_settings)
            .field("termination_grace", &self.termination_grace)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_env(name: &str, value: &str) -> BTreeMap<String, String> {
        [(name.to_owned(), value.to_owned())].into()
    }

    #[test]
    fn the_request_says_first_where_the_cli_keeps_its_sessions() {
        let mut config = ClaudeCodeBackendConfig {
            environment: ClaudeCodeEnvironment::Clear,
            ..ClaudeCodeBackendConfig::default()
        };
        let mut request = AgentWrapperRunRequest::new("p");
        assert_eq!(config.cli_config_dir(&request), None);
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        config.env = with_env(home, "home");
        assert_eq!(config.cli_config_dir(&request), Some(PathBuf::from("home").join(".claude")));
        config.env.extend(with_env("CLAUDE_CONFIG_DIR", "of config"));
        assert_eq!(config.cli_config_dir(&request), Some("of config".into()));
        request.env = with_env("CLAUDE_CONFIG_DIR", "of request");
        assert_eq!(config.cli_config_dir(&request), Some("of request".into()));
    }

    #[test]
    fn debug_shows_no_value() {
        let config =
            ClaudeCodeBackendConfig { env: with_env("TOKEN", "hunter2"), ..Default::default() };
        let shown = format!("{config:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
    }
}

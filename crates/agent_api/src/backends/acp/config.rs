//! What a program decides for all runs of the backend.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use serde_json::{Map, Value};

pub use crate::backends::shared::config::AgentEnvironment as AcpEnvironment;

/// Which agent is run, and how. A request overrides what it names.
#[derive(Clone)]
pub struct AcpBackendConfig {
    /// The program.
    pub program: PathBuf,
    /// The arguments that make it speak the protocol on its standard input and output.
    pub arguments: Vec<String>,
    /// What the request that opens a session carries as `_meta`, for agents that take settings
    /// there.
    pub session_meta: Map<String, Value>,
    /// The mode in which sessions must open and stay: an agent that opens in another one gets no
    /// prompt, and one that moves to another is ended. Without it every mode is taken.
    pub expected_mode: Option<String>,
    /// What requests may ask of the agent. Nothing of it is advertised unless it is here.
    pub offers: BTreeSet<AcpOffer>,
    /// Where a run works whose request does not say.
    pub default_working_dir: Option<PathBuf>,
    /// How long a run may take whose request does not say; without it, as long as it takes.
    pub default_timeout: Option<Duration>,
    /// Environment of every run, laid over what it inherits; a request's is laid over this.
    pub env: BTreeMap<String, String>,
    /// What a run inherits.
    pub environment: AcpEnvironment,
    /// Whether a request may have every question answered with yes, with
    /// `agent_api.exec.external_sandbox.v1`.
    pub allow_external_sandbox_exec: bool,
    /// How long an agent that is asked to end may take before it is killed.
    pub termination_grace: Option<Duration>,
}

/// What an agent can do that not every agent can. The protocol has agents say it when they are
/// started, which is too late to refuse a request; so the configuration says it, and a run with an
/// agent that does not keep it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AcpOffer {
    /// Lists sessions and continues them: `session/list`, and `session/resume` or `session/load`
    /// with the history before the answer.
    Resume,
    /// Lists sessions and copies them: `session/list`, `session/fork`.
    Fork,
    /// Has an option of the category `model`.
    Model,
    /// Takes more directories for a session.
    AddDirs,
}

impl AcpBackendConfig {
    /// Runs `program` with these arguments; everything else is at its default.
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            session_meta: Map::new(),
            expected_mode: None,
            offers: BTreeSet::new(),
            default_working_dir: None,
            default_timeout: None,
            env: BTreeMap::new(),
            environment: AcpEnvironment::default(),
            allow_external_sandbox_exec: false,
            termination_grace: None,
        }
    }
}

/// Shows the names of the environment and of the session's settings, and not their values.
impl fmt::Debug for AcpBackendConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcpBackendConfig")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("session_meta", &self.session_meta.keys().collect::<Vec<_>>())
            .field("expected_mode", &self.expected_mode)
            .field("offers", &self.offers)
            .field("default_working_dir", &self.default_working_dir)
            .field("default_timeout", &self.default_timeout)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("environment", &self.environment)
            .field("allow_external_sandbox_exec", &self.allow_external_sandbox_exec)
            .field("termination_grace", &self.termination_grace)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_value() {
        let mut config = AcpBackendConfig::new("agent", ["acp"]);
        config.env.insert("TOKEN".to_owned(), "hunter2".to_owned());
        config.session_meta.insert("key".to_owned(), "hunter2".into());
        let shown = format!("{config:?}");
        assert!(shown.contains("TOKEN") && shown.contains("key"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

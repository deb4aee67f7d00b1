//! The settings for all runs of the backend.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use serde_json::{Map, Value};

pub use crate::backends::shared::config::AgentEnvironment as AcpEnvironment;

/// Which agent is run, and how. A request overrides the defaults that it names.
#[derive(Clone)]
pub struct AcpBackendConfig {
    /// The program.
    pub program: PathBuf,
    /// The arguments that make it speak the protocol on its standard input and output.
    pub arguments: Vec<String>,
    /// The `_meta` of the request that opens a session, for agents that take settings there.
    pub session_meta: Map<String, Value>,
    /// The mode in which sessions must open and stay. An agent that opens in another one gets no
    /// prompt, and one that changes to another is ended. Without it every mode is accepted.
    pub expected_mode: Option<String>,
    /// The capabilities that requests may use. A capability that is not listed here is not
    /// advertised.
    pub offers: BTreeSet<AcpOffer>,
    /// The working directory of a run whose request names none.
    pub default_working_dir: Option<PathBuf>,
    /// The time limit of a run whose request names none; without it, there is no limit.
    pub default_timeout: Option<Duration>,
    /// Environment variables of every run. They override inherited ones, and a request's override
    /// these.
    pub env: BTreeMap<String, String>,
    /// The environment that a run inherits.
    pub environment: AcpEnvironment,
    /// Whether a request may use `agent_api.exec.external_sandbox.v1`, which answers every question
    /// with yes.
    pub allow_external_sandbox_exec: bool,
    /// How long an agent may take to end after it was asked, before it is killed.
    pub termination_grace: Option<Duration>,
}

/// A capability that only some agents have. In the protocol an agent declares its capabilities when
/// it is started, which is too late to refuse a request. So the configuration declares them, and a
/// run fails if its agent lacks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AcpOffer {
    /// Lists sessions and continues them: `session/list`, and `session/resume` or `session/load`,
    /// which sends the history before the answer.
    Resume,
    /// Lists sessions and copies them: `session/list`, `session/fork`.
    Fork,
    /// Has an option of the category `model`.
    Model,
    /// Accepts additional directories for a session.
    AddDirs,
}

impl AcpBackendConfig {
    /// Creates a configuration that runs `program` with these arguments; everything else has its
    /// default.
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

/// Shows the names of the environment variables and of the session's settings, without their
/// values.
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

//! What can go wrong before and during a run, by what the caller can do about it.

use crate::AgentWrapperKind;

/// An error of the gateway or of a backend.
///
/// Messages are our own words. Neither they nor their `Debug` form hold what the agent printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentWrapperError {
    /// No backend is registered under this kind.
    #[error("no backend is registered for agent kind `{agent_kind}`")]
    UnknownBackend {
        /// The kind that was asked for.
        agent_kind: String,
    },
    /// The request needs something that the backend does not advertise.
    #[error("agent kind `{agent_kind}` does not support `{capability}`")]
    UnsupportedCapability {
        /// The kind that was asked.
        agent_kind: String,
        /// The id that is not among its capabilities.
        capability: String,
    },
    /// The text is not a name of an agent kind.
    #[error("invalid agent kind: {message}")]
    InvalidAgentKind {
        /// What a kind looks like.
        message: String,
    },
    /// The request contradicts its own rules; nothing was started.
    #[error("invalid request: {message}")]
    InvalidRequest {
        /// Which rule, and where.
        message: String,
    },
    /// The backend could not start the run, or the run did not come to an end of its own.
    #[error("{message}")]
    Backend {
        /// What happened: `cancelled`, `timed out`, or why the agent could not be started.
        message: String,
    },
}

/// The message of the error that a cancelled run ends with.
pub const CANCELLED: &str = "cancelled";
/// The message of the error that a run over its time limit ends with.
pub const TIMED_OUT: &str = "timed out";
/// The reason of a run that was to continue the latest session where there is none.
pub const NO_SESSION_FOUND: &str = "no session found";
/// The reason of a run that was to continue a session that its agent does not know.
pub const SESSION_NOT_FOUND: &str = "session not found";

impl AgentWrapperError {
    /// Makes the error of a request that breaks a rule.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::InvalidRequest { message: message.into() }
    }

    /// Makes the error of a run that did not come to an end of its own.
    pub fn backend(message: impl Into<String>) -> Self {
        Self::Backend { message: message.into() }
    }

    /// Makes the error of a request that needs what `agent_kind` does not advertise.
    pub fn unsupported(agent_kind: &AgentWrapperKind, capability: impl Into<String>) -> Self {
        Self::UnsupportedCapability {
            agent_kind: agent_kind.as_str().to_owned(),
            capability: capability.into(),
        }
    }
}

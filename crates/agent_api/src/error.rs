//! The errors before and during a run, grouped by what the caller can do about them.

use crate::AgentWrapperKind;

/// An error of the gateway or of a backend.
///
/// Messages are our own words. Neither they nor their `Debug` form contain output of the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentWrapperError {
    /// No backend is registered under this kind.
    #[error("no backend is registered for agent kind `{agent_kind}`")]
    UnknownBackend {
        /// The requested kind.
        agent_kind: String,
    },
    /// The request needs something that the backend does not advertise.
    #[error("agent kind `{agent_kind}` does not support `{capability}`")]
    UnsupportedCapability {
        /// The requested kind.
        agent_kind: String,
        /// The id that is not among its capabilities.
        capability: String,
    },
    /// The text is not a valid name of an agent kind.
    #[error("invalid agent kind: {message}")]
    InvalidAgentKind {
        /// The rule for names.
        message: String,
    },
    /// The request breaks a rule; nothing was started.
    #[error("invalid request: {message}")]
    InvalidRequest {
        /// The rule, and where it is broken.
        message: String,
    },
    /// The backend could not start the run, or the run did not end by itself.
    #[error("{message}")]
    Backend {
        /// The cause: `cancelled`, `timed out`, or why the agent could not be started.
        message: String,
    },
}

/// The message of the error that a cancelled run ends with.
pub const CANCELLED: &str = "cancelled";
/// The message of the error that a run beyond its time limit ends with.
pub const TIMED_OUT: &str = "timed out";
/// The reason of a failed run that should continue the last session when there is none.
pub const NO_SESSION_FOUND: &str = "no session found";
/// The reason of a failed run that should continue a session which its agent does not know.
pub const SESSION_NOT_FOUND: &str = "session not found";

impl AgentWrapperError {
    /// Creates the error for a request that breaks a rule.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::InvalidRequest { message: message.into() }
    }

    /// Creates the error for a run that could not be started or did not end by itself.
    pub fn backend(message: impl Into<String>) -> Self {
        Self::Backend { message: message.into() }
    }

    /// Creates the error for a request that needs a capability which `agent_kind` does not
    /// advertise.
    pub fn unsupported(agent_kind: &AgentWrapperKind, capability: impl Into<String>) -> Self {
        Self::UnsupportedCapability {
            agent_kind: agent_kind.as_str().to_owned(),
            capability: capability.into(),
        }
    }
}

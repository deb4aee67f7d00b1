//! The ids of capabilities: a backend advertises them, and a request uses them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The backend accepts a prompt and runs it to an end.
pub const RUN: &str = "agent_api.run";
/// The run yields events.
pub const EVENTS: &str = "agent_api.events";
/// Events arrive while the agent works, not after it.
pub const EVENTS_LIVE: &str = "agent_api.events.live";
/// [`run_control`](crate::AgentWrapperBackend::run_control) returns a handle that cancels the run.
pub const CONTROL_CANCEL: &str = "agent_api.control.cancel.v1";
/// Tool events carry the facet of this name.
pub const TOOLS_STRUCTURED: &str = "agent_api.tools.structured.v1";
/// Each result of a tool is an event.
pub const TOOLS_RESULTS: &str = "agent_api.tools.results.v1";
/// The completion carries the text of the last message.
pub const FINAL_TEXT: &str = "agent_api.artifacts.final_text.v1";
/// The run reports its session's id in the facet of this name.
pub const SESSION_HANDLE: &str = "agent_api.session.handle.v1";
/// A request may continue a session.
pub const SESSION_RESUME: &str = "agent_api.session.resume.v1";
/// A request may continue a copy of a session.
pub const SESSION_FORK: &str = "agent_api.session.fork.v1";
/// A request may name its model.
pub const CONFIG_MODEL: &str = "agent_api.config.model.v1";
/// A request may name additional directories for the agent.
pub const EXEC_ADD_DIRS: &str = "agent_api.exec.add_dirs.v1";
/// A request may say that nobody is there to answer.
pub const EXEC_NON_INTERACTIVE: &str = "agent_api.exec.non_interactive";
/// A request may turn the agent's own checks off, because the host isolates it.
pub const EXEC_EXTERNAL_SANDBOX: &str = "agent_api.exec.external_sandbox.v1";

/// The capabilities of a backend, as ids. Each one listed is supported; a request for any other is
/// refused before anything starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentWrapperCapabilities {
    /// The ids, in order.
    pub ids: BTreeSet<String>,
}

impl AgentWrapperCapabilities {
    /// Returns whether `id` is advertised.
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

impl<S: Into<String>> FromIterator<S> for AgentWrapperCapabilities {
    fn from_iter<I: IntoIterator<Item = S>>(ids: I) -> Self {
        Self { ids: ids.into_iter().map(Into::into).collect() }
    }
}

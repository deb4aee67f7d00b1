//! The ids by which a backend says what it can do, and by which a request asks for it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The backend takes a prompt and runs it to an end.
pub const RUN: &str = "agent_api.run";
/// The run yields events.
pub const EVENTS: &str = "agent_api.events";
/// Events arrive while the agent works, not after it.
pub const EVENTS_LIVE: &str = "agent_api.events.live";
/// [`run_control`](crate::AgentWrapperBackend::run_control) gives a handle that cancels the run.
pub const CONTROL_CANCEL: &str = "agent_api.control.cancel.v1";
/// Tool events carry the facet of this name.
pub const TOOLS_STRUCTURED: &str = "agent_api.tools.structured.v1";
/// Each result of a tool is an event.
pub const TOOLS_RESULTS: &str = "agent_api.tools.results.v1";
/// The completion carries the text of the last message.
pub const FINAL_TEXT: &str = "agent_api.artifacts.final_text.v1";
/// The run tells its session's id in the facet of this name.
pub const SESSION_HANDLE: &str = "agent_api.session.handle.v1";
/// A request may continue a session.
pub const SESSION_RESUME: &str = "agent_api.session.resume.v1";
/// A request may continue a copy of a session.
pub const SESSION_FORK: &str = "agent_api.session.fork.v1";
/// A request may name its model.
pub const CONFIG_MODEL: &str = "agent_api.config.model.v1";
/// A request may name more directories for the agent.
pub const EXEC_ADD_DIRS: &str = "agent_api.exec.add_dirs.v1";
/// A request may say that nobody is there to answer.
pub const EXEC_NON_INTERACTIVE: &str = "agent_api.exec.non_interactive";
/// A request may drop the agent's own checks, since the host isolates it.
pub const EXEC_EXTERNAL_SANDBOX: &str = "agent_api.exec.external_sandbox.v1";

/// What a backend can do, as ids. What is here is true; what is not here is refused before anything
/// starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentWrapperCapabilities {
    /// The ids, in order.
    pub ids: BTreeSet<String>,
}

impl AgentWrapperCapabilities {
    /// Says whether `id` is advertised.
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

impl<S: Into<String>> FromIterator<S> for AgentWrapperCapabilities {
    fn from_iter<I: IntoIterator<Item = S>>(ids: I) -> Self {
        Self { ids: ids.into_iter().map(Into::into).collect() }
    }
}

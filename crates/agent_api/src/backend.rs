//! The trait that an agent implements to be run through the gateway.

use futures::future::BoxFuture;

use crate::{
    AgentWrapperCapabilities, AgentWrapperError, AgentWrapperKind, AgentWrapperRunControl,
    AgentWrapperRunHandle, AgentWrapperRunRequest, capabilities::CONTROL_CANCEL,
};

/// One kind of agent.
///
/// [`validate::check`](crate::validate::check) and [`gate::open`](crate::gate::open) do the part
/// that is the same for all agents. The feature `conformance` tests an implementation against the
/// contract.
pub trait AgentWrapperBackend: Send + Sync {
    /// Returns the kind that this backend runs.
    fn kind(&self) -> AgentWrapperKind;

    /// Returns its capabilities. They are constant for the life of the backend.
    fn capabilities(&self) -> AgentWrapperCapabilities;

    /// Checks the request and starts the run.
    ///
    /// An invalid request is an error before anything is started.
    fn run(
        &self,
        request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunHandle, AgentWrapperError>>;

    /// Starts the run and returns it with a handle to cancel it. A backend that does not advertise
    /// `agent_api.control.cancel.v1` refuses.
    fn run_control(
        &self,
        _request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunControl, AgentWrapperError>> {
        let refusal = AgentWrapperError::unsupported(&self.kind(), CONTROL_CANCEL);
        Box::pin(std::future::ready(Err(refusal)))
    }
}

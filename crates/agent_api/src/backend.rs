//! What an agent must offer to be run through the gateway.

use futures::future::BoxFuture;

use crate::{
    AgentWrapperCapabilities, AgentWrapperError, AgentWrapperKind, AgentWrapperRunControl,
    AgentWrapperRunHandle, AgentWrapperRunRequest, capabilities::CONTROL_CANCEL,
};

/// One kind of agent.
///
/// [`validate::check`](crate::validate::check) and [`gate::open`](crate::gate::open) do the part
/// that is the same for all of them; the feature `conformance` holds an implementation to the
/// contract.
pub trait AgentWrapperBackend: Send + Sync {
    /// The kind this backend runs.
    fn kind(&self) -> AgentWrapperKind;

    /// What it can do. Constant for the life of the backend.
    fn capabilities(&self) -> AgentWrapperCapabilities;

    /// Checks the request and starts the run.
    ///
    /// Whatever is wrong with the request is an error before anything is started.
    fn run(
        &self,
        request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunHandle, AgentWrapperError>>;

    /// The same, with a handle to cancel it. Refused by a backend that does not advertise
    /// `agent_api.control.cancel.v1`.
    fn run_control(
        &self,
        _request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunControl, AgentWrapperError>> {
        let refusal = AgentWrapperError::unsupported(&self.kind(), CONTROL_CANCEL);
        Box::pin(std::future::ready(Err(refusal)))
    }
}

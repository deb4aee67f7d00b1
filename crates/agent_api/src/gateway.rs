//! The single entry point to all backends: finds the backend for a kind and starts the run.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{
    AgentWrapperBackend, AgentWrapperError, AgentWrapperKind, AgentWrapperRunControl,
    AgentWrapperRunHandle, AgentWrapperRunRequest, capabilities::CONTROL_CANCEL, validate,
};

/// The backends of a program, by kind.
#[derive(Clone, Default)]
pub struct AgentWrapperGateway {
    backends: BTreeMap<AgentWrapperKind, Arc<dyn AgentWrapperBackend>>,
}

impl AgentWrapperGateway {
    /// Creates a gateway without backends.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a backend. A second one for the same kind is refused, and the first one stays.
    pub fn register(
        &mut self,
        backend: Arc<dyn AgentWrapperBackend>,
    ) -> Result<(), AgentWrapperError> {
        let kind = backend.kind();
        if self.backends.contains_key(&kind) {
            return Err(AgentWrapperError::invalid_request(format!(
                "a backend for agent kind `{kind}` is already registered"
            )));
        }
        self.backends.insert(kind, backend);
        Ok(())
    }

    /// Returns the backend for `kind`.
    pub fn backend(&self, kind: &AgentWrapperKind) -> Option<Arc<dyn AgentWrapperBackend>> {
        self.backends.get(kind).cloned()
    }

    /// Starts a run.
    pub async fn run(
        &self,
        kind: &AgentWrapperKind,
        request: AgentWrapperRunRequest,
    ) -> Result<AgentWrapperRunHandle, AgentWrapperError> {
        self.checked(kind, &request)?.run(request).await
    }

    /// Starts a run that can be cancelled.
    pub async fn run_control(
        &self,
        kind: &AgentWrapperKind,
        request: AgentWrapperRunRequest,
    ) -> Result<AgentWrapperRunControl, AgentWrapperError> {
        let backend = self.checked(kind, &request)?;
        if !backend.capabilities().contains(CONTROL_CANCEL) {
            return Err(AgentWrapperError::unsupported(kind, CONTROL_CANCEL));
        }
        backend.run_control(request).await
    }

    /// Finds the backend and refuses requests that no backend may accept, so that the rule holds
    /// even for a careless backend.
    fn checked(
        &self,
        kind: &AgentWrapperKind,
        request: &AgentWrapperRunRequest,
    ) -> Result<&Arc<dyn AgentWrapperBackend>, AgentWrapperError> {
        let backend = self.backends.get(kind).ok_or_else(|| AgentWrapperError::UnknownBackend {
            agent_kind: kind.as_str().to_owned(),
        })?;
        validate::check_prompt(request)?;
        validate::check_keys(kind, &backend.capabilities(), request)?;
        Ok(backend)
    }
}

impl fmt::Debug for AgentWrapperGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentWrapperGateway")
            .field(&self.backends.keys().collect::<Vec<_>>())
            .finish()
    }
}

//! The backend that runs any agent of the Agent Client Protocol.
//!
//! A request becomes one process with one session and one turn (`launch`). One task (`drive`) talks
//! to it, opens its session (`session`), turns its lines into events (`translate`), answers its
//! questions and reports how it ended. The configuration names the program and its capabilities;
//! the project's `docs/acp.md` describes how known agents behave.
//!
//! The backend decides for its user:
//!
//! - Text arrives while the model writes it.
//! - The question whether a tool call may run is rejected, because nobody is there to answer; the
//!   turn continues. This holds whatever `agent_api.exec.non_interactive` says. Of the
//!   agent's answers we choose by kind one that rejects this call alone, never a standing one.
//! - A run in which something was rejected has [failed](crate::AgentWrapperOutcome::Failed), even
//!   if the model reports success: it could not do something that it considered necessary.
//! - The agent is offered neither files nor terminals; its requests for them are refused.
//! - The agent's arguments, environment and home decide which tools it asks about, and which
//!   settings in its working directory apply.
//! - With an [expected mode](AcpBackendConfig::expected_mode), an agent that opens in another one
//!   gets no prompt, and one that changes to another is ended.
//! - `agent_api.exec.external_sandbox.v1` answers every question with yes, and the first event says
//!   so.
//! - A tool that still runs when the turn is over is ended with the agent.

mod config;
mod drive;
mod launch;
mod session;
mod translate;
mod verdict;

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};

pub use config::{AcpBackendConfig, AcpEnvironment, AcpOffer};

use self::{drive::Run, launch::Plan, translate::Translator};
use crate::{
    AgentWrapperBackend, AgentWrapperCapabilities, AgentWrapperError, AgentWrapperEvent,
    AgentWrapperKind, AgentWrapperRunControl, AgentWrapperRunHandle, AgentWrapperRunRequest,
    backends::shared::{
        config::{SANDBOX_WARNING, capabilities_of},
        drive::takes_no_value,
    },
    capabilities as ids, gate, validate,
};

/// The kind of this backend, unless it is [given another](AcpBackend::of_kind).
pub const AGENT_KIND: &str = "acp";

/// Marks a run as one process of an agent of the Agent Client Protocol. It takes no value.
pub const STDIO: &str = "backend.acp.stdio";

/// Runs an agent of the Agent Client Protocol.
#[derive(Clone, Debug)]
pub struct AcpBackend {
    config: Arc<AcpBackendConfig>,
    kind: AgentWrapperKind,
}

impl AcpBackend {
    /// Creates the backend. It starts nothing and reads nothing before the first run.
    pub fn new(config: AcpBackendConfig) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the name is a constant of this file, and a test makes a backend with it"
        )]
        let kind = AgentWrapperKind::new(AGENT_KIND).expect("the name of this backend is a kind");
        Self::of_kind(kind, config)
    }

    /// Creates the backend under another kind, so that one gateway can serve several agents.
    pub fn of_kind(kind: AgentWrapperKind, config: AcpBackendConfig) -> Self {
        Self { config: Arc::new(config), kind }
    }

    fn start(
        &self,
        request: AgentWrapperRunRequest,
    ) -> Result<AgentWrapperRunControl, AgentWrapperError> {
        let config = &self.config;
        let checked = validate::check(
            &self.kind,
            &self.capabilities(),
            &request,
            config.default_working_dir.as_deref(),
        )?;
        takes_no_value(&request, STDIO)?;
        let is_unchecked = checked.external_sandbox;
        let plan = Plan::new(config, &request, checked)?;
        let agent = launch::start(config, request, &plan)?;
        let (control, sink) = gate::open(self.kind.clone());
        let run = Run {
            agent,
            plan,
            translator: Translator::new(self.kind.clone()),
            kind: self.kind.clone(),
            opening: is_unchecked.then(|| AgentWrapperEvent::status(&self.kind, SANDBOX_WARNING)),
        };
        tokio::spawn(run.drive(sink));
        Ok(control)
    }
}

impl AgentWrapperBackend for AcpBackend {
    fn kind(&self) -> AgentWrapperKind {
        self.kind.clone()
    }

    fn capabilities(&self) -> AgentWrapperCapabilities {
        let mut all = capabilities_of(STDIO, self.config.allow_external_sandbox_exec);
        for (offer, id) in [
            (AcpOffer::Resume, ids::SESSION_RESUME),
            (AcpOffer::Fork, ids::SESSION_FORK),
            (AcpOffer::Model, ids::CONFIG_MODEL),
            (AcpOffer::AddDirs, ids::EXEC_ADD_DIRS),
        ] {
            if !self.config.offers.contains(&offer) {
                all.ids.remove(id);
            }
        }
        all
    }

    fn run(
        &self,
        request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunHandle, AgentWrapperError>> {
        async move { Ok(self.start(request)?.handle) }.boxed()
    }

    fn run_control(
        &self,
        request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunControl, AgentWrapperError>> {
        async move { self.start(request) }.boxed()
    }
}

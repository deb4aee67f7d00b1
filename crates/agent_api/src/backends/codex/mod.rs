//! The backend that runs the Codex CLI as an app-server.
//!
//! A request becomes one server process with one thread and one turn (`launch`). One task (`drive`)
//! talks to it, turns its lines into events (`translate`), answers its questions (`answer`) and
//! reports how it ended. The server itself looks up sessions to resume or fork.
//!
//! The backend decides for its user:
//!
//! - Text arrives while the model writes it, and only once.
//! - Commands run in Codex's own sandbox: they write in the working directory and in the
//!   directories that the request adds, and have no network. A command that needs more asks; nobody
//!   is there to answer, so it is declined and the turn continues. This holds whatever
//!   `agent_api.exec.non_interactive` says.
//! - A run in which something was declined has [failed](crate::AgentWrapperOutcome::Failed), even
//!   if the model reports success: it could not do something that it considered necessary.
//! - The settings, rules, hooks, MCP servers and instructions of the working directory apply only
//!   if the configuration [trusts them](CodexProjectSettings::Trust).
//! - The policy, the sandbox and the reviewer that the server reports are compared with the
//!   requested ones; a server that reports others gets no prompt.
//! - `agent_api.exec.external_sandbox.v1` turns sandbox and approvals off, and the first event says
//!   so.
//! - A command that still runs when the turn is over is ended with the server.

mod answer;
mod config;
mod drive;
mod launch;
mod translate;
mod verdict;

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::Mutex;

pub use config::{CodexBackendConfig, CodexEnvironment, CodexProjectSettings};

use self::{drive::Run, launch::Plan, translate::Translator};
use crate::{
    AgentWrapperBackend, AgentWrapperCapabilities, AgentWrapperError, AgentWrapperEvent,
    AgentWrapperKind, AgentWrapperRunControl, AgentWrapperRunHandle, AgentWrapperRunRequest,
    backends::shared::{
        config::{SANDBOX_WARNING, capabilities_of},
        drive::takes_no_value,
    },
    gate, validate,
};

/// The kind of this backend.
pub const AGENT_KIND: &str = "codex";

/// Marks a run as one process of `codex app-server` with one turn. It takes no value.
pub const APP_SERVER: &str = "backend.codex.app_server";

/// Runs the Codex CLI.
#[derive(Clone, Debug)]
pub struct CodexBackend {
    config: Arc<CodexBackendConfig>,
    kind: AgentWrapperKind,
    /// Whether a server of this backend has ever answered. Servers that start at the same time in
    /// an unused home corrupt each other's database, so until then they start one by one.
    greeted: Arc<Mutex<bool>>,
}

impl CodexBackend {
    /// Creates the backend. It starts nothing and reads nothing before the first run.
    pub fn new(config: CodexBackendConfig) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the name is a constant of this file, and a test makes a backend with it"
        )]
        let kind = AgentWrapperKind::new(AGENT_KIND).expect("the name of this backend is a kind");
        Self { config: Arc::new(config), kind, greeted: Arc::new(Mutex::new(false)) }
    }

    async fn start(
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
        takes_no_value(&request, APP_SERVER)?;
        let is_unchecked = checked.external_sandbox;
        let first = Arc::clone(&self.greeted).lock_owned().await;
        let first = (!*first).then_some(first);
        let plan = Plan::new(config, &request, checked)?;
        let server = launch::start(config, request, &plan)?;
        let (control, sink) = gate::open(self.kind.clone());
        let run = Run {
            server,
            plan,
            first,
            translator: Translator::new(self.kind.clone()),
            kind: self.kind.clone(),
            opening: is_unchecked.then(|| AgentWrapperEvent::status(&self.kind, SANDBOX_WARNING)),
        };
        tokio::spawn(run.drive(sink));
        Ok(control)
    }
}

impl AgentWrapperBackend for CodexBackend {
    fn kind(&self) -> AgentWrapperKind {
        self.kind.clone()
    }

    fn capabilities(&self) -> AgentWrapperCapabilities {
        capabilities_of(APP_SERVER, self.config.allow_external_sandbox_exec)
    }

    fn run(
        &self,
        request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunHandle, AgentWrapperError>> {
        async move { Ok(self.start(request).await?.handle) }.boxed()
    }

    fn run_control(
        &self,
        request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunControl, AgentWrapperError>> {
        self.start(request).boxed()
    }
}

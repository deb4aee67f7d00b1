//! The backend that runs the Claude Code CLI in print mode.
//!
//! A request becomes one process (`launch`). One task (`drive`) reads its lines, turns them into
//! events (`translate`) and reports how it ended (`outcome`). Sessions to resume or fork are looked
//! up first (`sessions`), because the CLI itself starts a new one if there is none.
//!
//! The backend decides for its user:
//!
//! - Text arrives while the model writes it, and only once.
//! - Nobody is there to answer: the CLI refuses a tool that needs permission, and the run
//!   continues. This holds whatever `agent_api.exec.non_interactive` says, because print mode has
//!   nobody to ask.
//! - The settings, hooks and MCP servers of the working directory apply only if the configuration
//!   [trusts them](ClaudeCodeProjectSettings::Trust), because the CLI runs a repository's hooks
//!   without permission.
//! - `agent_api.exec.external_sandbox.v1` turns the CLI's permission checks off, and the first
//!   event says so.
//! - Text of a subagent is the output of a tool and not text of the agent; its tool calls are
//!   reported like any other.

mod config;
mod drive;
mod launch;
mod outcome;
mod sessions;
mod translate;

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};

pub use config::{ClaudeCodeBackendConfig, ClaudeCodeEnvironment, ClaudeCodeProjectSettings};
pub use sessions::{ClaudeCodeSessionLookup, ClaudeCodeTranscripts};

use self::{drive::Run, translate::Translator};
use crate::{
    AgentWrapperBackend, AgentWrapperCapabilities, AgentWrapperError, AgentWrapperEvent,
    AgentWrapperKind, AgentWrapperRunControl, AgentWrapperRunHandle, AgentWrapperRunRequest,
    backends::shared::{
        config::{SANDBOX_WARNING, capabilities_of},
        outcome::refuse,
    },
    gate, validate,
};

/// The kind of this backend.
pub const AGENT_KIND: &str = "claude_code";

/// Marks a run as one process of the CLI in print mode with stream-json output. It takes no value.
pub const PRINT_STREAM_JSON: &str = "backend.claude_code.print_stream_json";

/// Runs the Claude Code CLI.
#[derive(Clone, Debug)]
pub struct ClaudeCodeBackend {
    config: Arc<ClaudeCodeBackendConfig>,
    kind: AgentWrapperKind,
}

impl ClaudeCodeBackend {
    /// Creates the backend. It starts nothing and reads nothing before the first run.
    pub fn new(config: ClaudeCodeBackendConfig) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the name is a constant of this file, and a test makes a backend with it"
        )]
        let kind = AgentWrapperKind::new(AGENT_KIND).expect("the name of this backend is a kind");
        Self { config: Arc::new(config), kind }
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
        if request.extensions.contains_key(PRINT_STREAM_JSON) {
            return Err(AgentWrapperError::invalid_request(format!(
                "{PRINT_STREAM_JSON}: takes no value"
            )));
        }
        let session = match sessions::resolve(config, &request, &checked).await? {
            Ok(session) => session,
            Err(nothing_found) => {
                let (control, sink) = gate::open(self.kind.clone());
                tokio::spawn(refuse(nothing_found, self.kind.clone(), sink));
                return Ok(control);
            }
        };
        let is_unchecked = checked.external_sandbox;
        let process = launch::start(config, request, checked, session).await?;
        let (control, sink) = gate::open(self.kind.clone());
        let run = Run {
            process,
            kind: self.kind.clone(),
            translator: Translator::new(self.kind.clone()),
            opening: is_unchecked.then(|| AgentWrapperEvent::status(&self.kind, SANDBOX_WARNING)),
        };
        tokio::spawn(run.drive(sink));
        Ok(control)
    }
}

impl AgentWrapperBackend for ClaudeCodeBackend {
    fn kind(&self) -> AgentWrapperKind {
        self.kind.clone()
    }

    fn capabilities(&self) -> AgentWrapperCapabilities {
        capabilities_of(PRINT_STREAM_JSON, self.config.allow_external_sandbox_exec)
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

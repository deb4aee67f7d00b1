//! The real CLIs of a soak: stand-ins for their models, and what their server must know of them.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use serde_json::json;
use testkit::messages_api::MessagesApi;
use testkit::responses_api::ResponsesApi;
use testkit::{real_acp, real_claude, real_codex};

use super::roles::REAL_ACP;

/// Where the model of Codex listens: an address that agents reach through their proxy, because it
/// takes no other address for its model.
const CODEX_MODEL_HOST: &str = "127.0.0.2";

/// The stand-ins and the sandboxes of real agents. They go with this.
pub struct RealAgents {
    messages: MessagesApi,
    responses: ResponsesApi,
    claude: real_claude::Sandbox,
    codex: real_codex::Sandbox,
}

impl RealAgents {
    /// Starts the stand-ins.
    pub async fn start() -> Result<Self> {
        let messages = MessagesApi::start().await?;
        let responses = ResponsesApi::start_at(CODEX_MODEL_HOST).await?;
        let claude = real_claude::Sandbox::new(&messages)?;
        let codex = real_codex::Sandbox::new(&responses)?;
        Ok(Self { messages, responses, claude, codex })
    }

    /// Returns where the program of Claude Code is.
    pub fn claude_bin(&self) -> Result<PathBuf> {
        real_claude::CLI.find().map_err(|why| anyhow!(why))
    }

    /// Returns the arguments of the server: where Codex is and what it may reach.
    pub fn arguments(&self) -> Result<Vec<OsString>> {
        let codex = real_codex::CLI.find().map_err(|why| anyhow!(why))?;
        let model = self.responses.base_url();
        let sets = [
            format!("codex.home={}", self.codex.codex_home().display()),
            format!("confine.hosts={}", model.trim_start_matches("http://")),
        ];
        let sets = sets.into_iter().flat_map(|set| ["--set".into(), set.into()]);
        Ok([OsString::from("--codex-bin"), codex.into()].into_iter().chain(sets).collect())
    }

    /// Returns the configuration that names the agent of the Agent Client Protocol.
    pub fn config(&self) -> Result<String> {
        let program = real_acp::Agent::Claude.cli().find().map_err(|why| anyhow!(why))?;
        let program = program.to_str().context("a path that is no text")?.to_owned();
        Ok(format!("[agents.{REAL_ACP}]\nprogram = {}\n", json!(program)))
    }

    /// Returns the environment of the server.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let more = [("STAND_IN_KEY", "dummy-key-of-a-test"), ("CLAUDE_CODE_MAX_RETRIES", "1")];
        let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let own = |name: &str| ["PATH", "TMPDIR"].contains(&name);
        self.claude.env().into_iter().filter(|(name, _)| !own(name)).chain(more).collect()
    }

    /// Returns the variables of a session that the server does not hand on by itself.
    #[must_use]
    pub fn session_env(&self) -> Vec<(String, String)> {
        vec![("STAND_IN_KEY".to_owned(), "dummy-key-of-a-test".to_owned())]
    }

    /// Forgets what the models were asked.
    pub fn forget(&self) {
        self.messages.forget_requests();
        self.responses.forget_requests();
    }
}

//! What every story begins with: a server with an agent, the simulator or a real CLI against a
//! stand-in of its API, and an editor that has opened a session.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::messages_api::{self, MessagesApi};
use testkit::responses_api::{self, ResponsesApi};
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::PATIENCE;
use testkit::{real_claude, real_codex};

use crate::editor::{Editor, Library};

/// How often a story looks whether something has come.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Who plays the agent.
pub(crate) enum Agent {
    Simulator { folder: TempDir },
    Claude { _api: MessagesApi, sandbox: real_claude::Sandbox },
    Codex { _api: ResponsesApi, sandbox: real_codex::Sandbox },
}

impl Agent {
    fn work(&self) -> PathBuf {
        match self {
            Self::Simulator { folder } => folder.path().to_owned(),
            Self::Claude { sandbox, .. } => sandbox.work(),
            Self::Codex { sandbox, .. } => sandbox.work(),
        }
    }
}

/// A server and the agent behind it.
pub(crate) struct ServerWithAgent {
    pub(crate) server: TestServer,
    agent: Agent,
}

impl ServerWithAgent {
    /// Starts a server with the simulator.
    pub(crate) async fn simulated() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("acp-door-").tempdir()?;
        Self::with(Agent::Simulator { folder }, ServerOptions::default()).await
    }

    /// Starts a server with the real Codex.
    pub(crate) async fn codex(cli: PathBuf) -> Result<Self> {
        let api = ResponsesApi::start().await?;
        let sandbox = real_codex::Sandbox::new(&api)?;
        // A server hands on only the variables that agents are known to need, and the name of the
        // key is the stand-in's own: it takes requests without one.
        let settings = sandbox.codex_home().join("config.toml");
        let text = std::fs::read_to_string(&settings)?;
        std::fs::write(&settings, text.replace("env_key = \"STAND_IN_KEY\"\n", ""))?;
        let home = format!("codex.home={}", sandbox.codex_home().display());
        let options = ServerOptions {
            arguments: vec!["--codex-bin".into(), cli.into(), "--set".into(), home.into()],
            env: sandbox.env(),
            ..ServerOptions::default()
        };
        Self::with(Agent::Codex { _api: api, sandbox }, options).await
    }

    /// Starts a server with the real Claude Code.
    pub(crate) async fn claude(cli: PathBuf) -> Result<Self> {
        let api = MessagesApi::start().await?;
        let sandbox = real_claude::Sandbox::new(&api)?;
        let options =
            ServerOptions { claude_bin: Some(cli), env: sandbox.env(), ..ServerOptions::default() };
        Self::with(Agent::Claude { _api: api, sandbox }, options).await
    }

    async fn with(agent: Agent, options: ServerOptions) -> Result<Self> {
        let plexus_bin = Some(env!("CARGO_BIN_EXE_plexus").into());
        let server = TestServer::with(ServerOptions { plexus_bin, ..options }).await?;
        Ok(Self { server, agent })
    }

    /// Starts an editor.
    pub(crate) async fn editor(&self, library: Library) -> Result<Editor> {
        let words: &[&str] = match &self.agent {
            Agent::Simulator { .. } | Agent::Claude { .. } => &[],
            // Without the last, Codex changes files in its own sandbox unasked.
            Agent::Codex { .. } => &["--agent", "codex", "--supervise-all"],
        };
        Editor::start(library, &self.server.data_dir(), words).await
    }

    /// Starts an editor and opens a new session in it.
    pub(crate) async fn opened(&self, library: Library) -> Result<(Editor, String)> {
        let mut editor = self.editor(library).await?;
        let opened = editor.call("new", json!({"cwd": self.agent.work()})).await?;
        let session = opened["sessionId"].as_str().context("no session")?.to_owned();
        Ok((editor, session))
    }

    /// A prompt for which the agent says something, writes a file, and says something again.
    pub(crate) fn writes(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        let input = json!({"file_path": path, "content": content});
        match &self.agent {
            Agent::Simulator { .. } => {
                format!("sim:\nsay I will write.\ntool Write {input}\nsay All is done.")
            }
            Agent::Claude { .. } => {
                let mut first = messages_api::Step::tool("Write", input);
                first.text = Some("I will write.".to_owned());
                messages_api::prompt(&[first, messages_api::Step::text("All is done.")])
            }
            Agent::Codex { .. } => {
                let mut first = responses_api::Step::add_file(name, content.trim_end());
                first.texts.push("I will write.".to_owned());
                responses_api::prompt(&[first, responses_api::Step::text("All is done.")])
            }
        }
    }

    /// A prompt for which the agent only says something.
    pub(crate) fn says(&self, words: &str) -> String {
        match &self.agent {
            Agent::Simulator { .. } => format!("sim:\nsay {words}"),
            Agent::Claude { .. } => messages_api::prompt(&[messages_api::Step::text(words)]),
            Agent::Codex { .. } => responses_api::prompt(&[responses_api::Step::text(words)]),
        }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.agent.work()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.agent.work().join(name)
    }

    /// What a file holds; none while it does not exist.
    pub(crate) fn text_of(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// Creates a session below another one, with the same agent.
    pub(crate) async fn below(&self, session: &str) -> Result<String> {
        let mut params = json!({"name": "below", "working_dir": self.work(), "parent": session});
        if matches!(self.agent, Agent::Codex { .. }) {
            params["agent"] = json!("codex");
            params["supervise"] = json!("all");
        }
        let created = self.server.call("agents.create", params).await?;
        Ok(created["id"].as_str().context("no session")?.to_owned())
    }

    /// Decides the one request that waits, as the dashboard does.
    pub(crate) async fn decide(&self, approve: bool) -> Result<()> {
        self.decide_by(json!({}), approve).await
    }

    /// Decides the one request that waits in a session.
    pub(crate) async fn decide_in(&self, session: &str, approve: bool) -> Result<()> {
        self.decide_by(json!({"session_id": session}), approve).await
    }

    async fn decide_by(&self, which: Value, approve: bool) -> Result<()> {
        let pending = self.server.call("loopback.pending", which).await?;
        let approval = &pending["approvals"][0];
        let answer = json!({"approval_id": approval["id"], "approve": approve,
            "input_digest": approval["input_digest"], "message": "by the dashboard"});
        self.server.call("loopback.respond", answer).await.map(drop)
    }

    /// The decisions of a session, oldest first.
    pub(crate) async fn decisions(&self, session: &str) -> Result<Vec<Value>> {
        let history = self.server.call("loopback.history", json!({"session_id": session})).await?;
        let mut decisions = history["decisions"].as_array().cloned().context("no decisions")?;
        decisions.reverse();
        Ok(decisions)
    }

    /// Waits until a session is in this state.
    pub(crate) async fn status(&self, session: &str, status: &str) -> Result<()> {
        let look = async {
            loop {
                let got = self.server.call("agents.get", json!({"session_id": session})).await?;
                if got["session"]["status"] == status {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(found) => found,
            Err(_) => bail!("{session} did not become {status}\n{}", self.server.log()),
        }
    }
}

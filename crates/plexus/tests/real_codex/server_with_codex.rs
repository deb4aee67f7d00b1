//! What every case begins with: a stand-in for the Responses API, a sandbox for the CLI, and a real
//! server that can be killed and comes back where it was.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::real_codex::Sandbox;
use testkit::responses_api::{ResponsesApi, Step, prompt};
use testkit::server::{ServerOptions, TestServer, lasting_address};
use testkit::wait::{PATIENCE, eventually_async};

/// How long the server is away when it was killed.
const AWAY: Duration = Duration::from_secs(15);

/// A server whose Codex is the real CLI.
pub(crate) struct ServerWithCodex {
    pub(crate) api: ResponsesApi,
    pub(crate) sandbox: Sandbox,
    pub(crate) server: TestServer,
}

impl ServerWithCodex {
    pub(crate) async fn new(cli: &Path) -> Result<Self> {
        let api = ResponsesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        let set = |key: &str, value: PathBuf| format!("{key}={}", value.display()).into();
        let options = ServerOptions {
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            arguments: vec![
                "--codex-bin".into(),
                cli.into(),
                "--set".into(),
                set("codex.home", sandbox.codex_home()),
            ],
            env: sandbox.env(),
            listen: Some(lasting_address()?),
            ..ServerOptions::default()
        };
        let server = TestServer::with(options).await?;
        Ok(Self { api, sandbox, server })
    }

    /// Creates a session of Codex that asks about everything.
    pub(crate) async fn session(&self, more: Value) -> Result<String> {
        let mut params = json!({
            "name": "child", "agent": "codex", "supervise": "all",
            "working_dir": self.sandbox.work(), "loopback_timeout_secs": 0,
            "env": {"STAND_IN_KEY": "dummy-key-of-a-test"},
        });
        for (name, value) in more.as_object().cloned().unwrap_or_default() {
            params[name] = value;
        }
        let created = self.server.call("agents.create", params).await?;
        Ok(created["id"].as_str().context("a session has no id")?.to_owned())
    }

    pub(crate) async fn chat(&self, session: &str, steps: &[Step]) -> Result<()> {
        let params = json!({"session_id": session, "prompt": prompt(steps)});
        self.server.call("agents.chat_async", params).await.map(drop)
    }

    /// Waits for a question that is not among these.
    pub(crate) async fn asked(&self, before: &[Value]) -> Value {
        let look = async || {
            let found = self.server.call("loopback.pending", json!({})).await.ok()?;
            let found = found["approvals"].as_array()?;
            found.iter().find(|open| before.iter().all(|old| old["id"] != open["id"])).cloned()
        };
        eventually_async("a permission request", PATIENCE, look).await
    }

    pub(crate) async fn respond(&self, approval: &Value, approve: bool, why: &str) -> Result<()> {
        let answer = json!({"approval_id": approval["id"], "approve": approve, "message": why});
        self.server.call("loopback.respond", answer).await.map(drop)
    }

    /// Kills the server, leaves the child alone, and starts the server again.
    pub(crate) async fn outage(&mut self) -> Result<()> {
        self.server.kill_9()?;
        tokio::time::sleep(AWAY).await;
        self.server.start_again().await
    }

    /// Waits for the end of the session's chat, and returns how it ended and its events.
    pub(crate) async fn ended(&self, session: &str) -> Result<(String, Vec<Value>)> {
        let look = async || {
            let params = json!({"session_id": session, "from_seq": 0, "limit": 1000});
            let page = self.server.call("agents.poll", params).await.ok()?;
            let status = page["status"].as_str()?.to_owned();
            let events = page["events"].as_array()?.clone();
            (!["running", "awaiting_permission"].contains(&status.as_str()))
                .then_some((status, events))
        };
        Ok(eventually_async("the end of the chat", PATIENCE, look).await)
    }

    pub(crate) async fn completed(&self, session: &str) -> Result<()> {
        let (status, events) = self.ended(session).await?;
        ensure!(status == "complete", "it is {status}: {events:#?}\n{}", self.server.log());
        Ok(())
    }

    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.sandbox.work().join(name)).ok()
    }
}

//! What every case begins with: a stand-in for the API, a sandbox for the CLI, and a hub whose
//! agent is the real one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use plexus_agents::codex::Price;
use plexus_agents::{ClaudeCode, Codex, CodexOptions};
use plexus_engine::agents::Drivers;
use plexus_engine::{ProgramLine, Settings};
use plexus_wire::FIRST_AGENT;
use serde_json::{Map, Value, json};
use testkit::real_codex::Sandbox;
use testkit::responses_api::ResponsesApi;

use crate::common::SimulatedHub;

/// A hub with the real CLI.
pub(crate) struct HubWithCodex {
    pub(crate) hub: SimulatedHub,
    pub(crate) sandbox: Sandbox,
    pub(crate) api: ResponsesApi,
}

impl HubWithCodex {
    pub(crate) async fn new(cli: PathBuf, change: impl FnOnce(&mut Settings)) -> Result<Self> {
        let api = ResponsesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        // The stand-in counts 100 tokens in and 20 out for each call.
        let price = Price { input: 100.0, cached_input: 10.0, output: 1_000.0 };
        let codex = Codex::new(CodexOptions {
            home: sandbox.codex_home(),
            login: None,
            prices: [("gpt-5.5".to_owned(), price)].into(),
        });
        let drivers = Drivers::default()
            .with(FIRST_AGENT, Arc::new(ClaudeCode))
            .with("codex", Arc::new(codex));
        let hub = SimulatedHub::with_drivers(drivers, |settings| {
            settings.install("codex", ProgramLine { program: cli, leading: vec![] });
            settings.grace = Duration::from_secs(5);
            change(settings);
        })
        .await;
        Ok(Self { hub, sandbox, api })
    }

    /// Creates a session that asks about everything, whose child has the sandbox's environment and
    /// a mark by which the hub finds the processes that it left.
    pub(crate) async fn session(&self, name: &str) -> String {
        self.session_with(name, json!({})).await
    }

    /// The same with other parameters of `create`.
    pub(crate) async fn session_with(&self, name: &str, more: Value) -> String {
        let mut params = json!({
            "agent": "codex",
            "supervise": "all",
            "working_dir": self.sandbox.work(),
            "env": self.env(),
        });
        for (key, value) in more.as_object().cloned().unwrap_or_default() {
            params[key] = value;
        }
        self.hub.create(name, params).await
    }

    /// The environment of every child of this hub.
    pub(crate) fn env(&self) -> Map<String, Value> {
        let mut env: Map<String, Value> =
            self.sandbox.env().into_iter().map(|(name, value)| (name, json!(value))).collect();
        env.insert("PLEXUS_TEST_WORLD".into(), json!(self.hub.data()));
        // The simulator keeps the conversations of Claude Code there.
        env.insert("CLAUDE_CONFIG_DIR".into(), json!(self.sandbox.outside()));
        env
    }

    /// The same hub after a restart.
    pub(crate) async fn restart(self) -> Self {
        let Self { hub, sandbox, api } = self;
        let (hub, picked_up) = hub.restart().await;
        assert_eq!(picked_up, 1, "the child was not picked up");
        Self { hub, sandbox, api }
    }

    /// What is in a file of the working directory, if it is there.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.sandbox.work().join(name)).ok()
    }
}

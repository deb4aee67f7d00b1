//! What every case begins with: a stand-in for the API, a sandbox for the CLI, and a hub whose
//! agent is the real one.

use std::path::PathBuf;

use anyhow::Result;
use plexus_engine::Settings;
use serde_json::{Map, Value, json};
use testkit::messages_api::MessagesApi;
use testkit::real_claude::Sandbox;

use crate::common::SimulatedHub;

/// A hub with the real CLI.
pub(crate) struct HubWithClaude {
    pub(crate) hub: SimulatedHub,
    pub(crate) sandbox: Sandbox,
    pub(crate) api: MessagesApi,
}

impl HubWithClaude {
    pub(crate) async fn new(cli: PathBuf, change: impl FnOnce(&mut Settings)) -> Result<Self> {
        let api = MessagesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        let hub = SimulatedHub::with(|settings| {
            settings.install(
                plexus_wire::FIRST_AGENT,
                plexus_engine::ProgramLine { program: cli, leading: vec![] },
            );
            settings.grace = std::time::Duration::from_secs(5);
            change(settings);
        })
        .await;
        Ok(Self { hub, sandbox, api })
    }

    /// Creates a session whose child has the sandbox's environment, and a mark by which the hub
    /// finds what it left.
    pub(crate) async fn session(&self, name: &str) -> String {
        self.session_with(name, json!({})).await
    }

    /// The same with more parameters.
    pub(crate) async fn session_with(&self, name: &str, more: Value) -> String {
        let mut env: Map<String, Value> =
            self.sandbox.env().into_iter().map(|(name, value)| (name, json!(value))).collect();
        env.insert("CLAUDE_CODE_MAX_RETRIES".into(), json!("1"));
        env.insert("PLEXUS_TEST_WORLD".into(), json!(self.hub.data()));
        let mut params = json!({"working_dir": self.sandbox.work(), "env": env});
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        self.hub.create(name, params).await
    }

    /// The same hub after a restart.
    pub(crate) async fn restart(self) -> Self {
        let Self { hub, sandbox, api } = self;
        let (hub, picked_up) = hub.restart().await;
        assert_eq!(picked_up, 1, "the child was not picked up");
        Self { hub, sandbox, api }
    }
}

//! What every case begins with: a stand-in for the API, a sandbox for the agent, and a hub that has
//! the real one.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use plexus_agents::Acp;
use plexus_agents::acp::{Homes, Profile};
use plexus_engine::ProgramLine;
use plexus_engine::agents::Drivers;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use testkit::messages_api::{MessagesApi, Step, prompt};
use testkit::real_acp::{Agent, Sandbox};

use crate::common::SimulatedHub;

/// What a case needs beside a server: a stand-in, a sandbox, and the words of the agent.
pub(crate) struct Props {
    pub(crate) sandbox: Sandbox,
    pub(crate) api: MessagesApi,
    agent: Agent,
}

/// A hub with a real agent.
pub(crate) struct HubWithAgent {
    pub(crate) hub: SimulatedHub,
    pub(crate) props: Props,
    /// The home directory of the agent lies here.
    _home: TempDir,
}

/// The name by which a session has the agent.
pub(crate) fn name(agent: Agent) -> &'static str {
    match agent {
        Agent::OpenCode => "opencode",
        Agent::Goose => "goose",
        Agent::Claude => "claude_acp",
        Agent::Gemini => "gemini",
    }
}

impl Props {
    pub(crate) async fn new(agent: Agent) -> Result<Self> {
        let api = MessagesApi::start().await?;
        let sandbox = Sandbox::new(agent, &api)?;
        Ok(Self { sandbox, api, agent })
    }

    /// The parameters of a session whose child has the sandbox's environment. What makes the agent
    /// ask is the profile's, not the sandbox's.
    pub(crate) fn params(&self, more: Value) -> Value {
        let is_own = |name: &str| name == "GOOSE_MODE" || name.starts_with("OPENCODE_");
        let env = self.sandbox.env().into_iter().filter(|(name, _)| !is_own(name));
        let env: Map<String, Value> = env.map(|(name, value)| (name, json!(value))).collect();
        let mut params =
            json!({"agent": name(self.agent), "working_dir": self.sandbox.work(), "env": env});
        for (name, value) in more.as_object().into_iter().flatten() {
            match value.as_object().filter(|_| name == "env") {
                Some(env) => params["env"].as_object_mut().unwrap().extend(env.clone()),
                None => params[name] = value.clone(),
            }
        }
        params
    }

    /// A prompt after which the model runs these commands in one message, and then says this.
    pub(crate) fn shell(&self, commands: &[&str], then: &str) -> String {
        let tool = self.agent.shell_tool();
        let calls = commands.iter().fold(Step::default(), |step, command| {
            step.and_tool(tool, json!({"command": command, "description": "a step"}))
        });
        prompt(&[calls, Step::text(then)])
    }

    /// Waits until nothing lives that any process of the sandbox has started.
    pub(crate) async fn nothing_lives(&self) {
        let gone = || {
            let left = testkit::process::marked(self.sandbox.marker());
            std::future::ready(left.is_ok_and(|left| left.is_empty()).then_some(()))
        };
        testkit::eventually_async("the end of everything", testkit::wait::PATIENCE, gone).await;
    }
}

impl HubWithAgent {
    pub(crate) async fn new(agent: Agent, cli: PathBuf) -> Result<Self> {
        let props = Props::new(agent).await?;
        let home = TempDir::with_prefix("acp-home-")?;
        let known = Profile::known().into_iter().find(|(known, _)| *known == name(agent));
        let (_, profile) = known.expect("a profile of the agent");
        let user = props.sandbox.env().into_iter().find(|(name, _)| name == "HOME");
        let user = user.map(|(_, home)| home.into()).unwrap_or_default();
        let driver = Acp::new(profile, Homes { own: home.path().join("home"), user });
        let drivers = Drivers::default().with(name(agent), Arc::new(driver));
        let hub = SimulatedHub::with_drivers(drivers, |settings| {
            settings.install(name(agent), ProgramLine { program: cli, leading: Vec::new() });
            settings.grace = std::time::Duration::from_secs(5);
        })
        .await;
        Ok(Self { hub, props, _home: home })
    }

    /// The parameters of a session, with a mark by which the hub finds what its child left.
    pub(crate) fn params(&self, more: Value) -> Value {
        let mut params = self.props.params(more);
        params["env"]["PLEXUS_TEST_WORLD"] = json!(self.hub.data());
        params
    }

    pub(crate) async fn session(&self, session: &str) -> String {
        self.hub.create(session, self.params(json!({}))).await
    }

    /// As [`Props::shell`].
    pub(crate) fn shell(&self, commands: &[&str], then: &str) -> String {
        self.props.shell(commands, then)
    }

    /// A file of the working directory.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.props.sandbox.work().join(name)).ok()
    }

    /// Waits until a file is in the working directory.
    pub(crate) async fn wait_for_file(&self, name: &str) {
        let there = || std::future::ready(self.file(name));
        let what = format!("the file {name}");
        testkit::eventually_async(&what, testkit::wait::PATIENCE, there).await;
    }

    /// Ends every child, and waits until nothing lives that any of them has started.
    pub(crate) async fn nothing_lives(&self) {
        self.hub.end_children().await;
        self.props.nothing_lives().await;
    }

    /// What the model was asked last.
    pub(crate) fn heard(&self) -> String {
        self.props.api.main_requests().last().unwrap().body["messages"].to_string()
    }
}

//! A parent: the real CLI with Plexus as its MCP server, and a model that follows the server's
//! instructions.
//!
//! The model is a function of the conversation so far: it finds ids in the results of its own tool
//! uses, as a real one would.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testkit::messages_api::{MessagesApi, Recorded, Step};
use testkit::real_claude::Sandbox;
use testkit::server::{ServerOptions, TestServer};
use tokio::process::Command;

/// The words that distinguish the parent's conversation from its child's.
const TASK: &str = "Have a child do the task.";

/// How long a parent may take from its start to its end.
const PARENT_DEADLINE: Duration = Duration::from_secs(200);

/// How long each call waits. Short of what a client gives up on, and long enough that a slow child
/// costs few turns.
const WAIT_MS: u64 = 50_000;

/// Tool uses after which a parent gives up: a wait that does not wait must not go on for ever.
const MOST_TURNS: usize = 40;

/// What the parent does about its child.
#[derive(Clone)]
pub(crate) struct Plan {
    /// How the child's requests travel.
    pub(crate) channel: &'static str,
    /// What the child is told.
    pub(crate) prompt: String,
    /// The parent's decision, to which the id and the digest of the request are added.
    pub(crate) decision: Value,
}

/// A server, a stand-in for the Messages API, and a parent's identity at the server.
pub(crate) struct ServerWithParent {
    pub(crate) api: MessagesApi,
    pub(crate) sandbox: Sandbox,
    pub(crate) server: TestServer,
    pub(crate) parent: String,
    token: String,
}

impl ServerWithParent {
    pub(crate) async fn new(cli: &Path) -> Result<Self> {
        let api = MessagesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        let options = ServerOptions {
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            claude_bin: Some(cli.to_owned()),
            env: sandbox.env(),
            ..ServerOptions::default()
        };
        let server = TestServer::with(options).await?;
        let identity = server.call("identity.parent", json!({"name": "parent"})).await?;
        let text = |field: &str| {
            identity[field].as_str().map(str::to_owned).with_context(|| format!("no {field}"))
        };
        Ok(Self { parent: text("session_id")?, token: text("token")?, api, sandbox, server })
    }

    /// Runs a parent that follows `plan` to its end.
    pub(crate) async fn play(&self, cli: &Path, plan: Plan) -> Result<Output> {
        let work = self.sandbox.work().display().to_string();
        // Everything else (the child's requests) is left to the script in the prompt.
        self.api.respond_with(move |request| {
            is_parent(request).then(|| next_step(&plan, &work, request))
        });
        let config = self.sandbox.outside("mcp.json");
        let entry = json!({"type": "http", "url": format!("{}/mcp", self.server.url()?), "headers": {"Authorization": format!("Bearer {}", self.token)}});
        std::fs::write(&config, json!({"mcpServers": {"plexus": entry}}).to_string())?;
        let parent = Command::new(cli)
            .args([
                "--print",
                "--output-format",
                "json",
                "--strict-mcp-config",
                "--setting-sources",
                "user",
            ])
            .args(["--allowedTools", "mcp__plexus", "--mcp-config"])
            .arg(&config)
            .args(["--", TASK])
            .current_dir(self.sandbox.home())
            .env_clear()
            .envs(self.sandbox.env())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("could not start the parent")?;
        match tokio::time::timeout(PARENT_DEADLINE, parent.wait_with_output()).await {
            Ok(output) => Ok(output?),
            Err(_elapsed) => anyhow::bail!(
                "the parent did not end; its tools said {:#?}\n{}",
                self.api.tool_results(),
                self.server.log()
            ),
        }
    }

    /// Returns the requests of the parent's conversation.
    pub(crate) fn parent_requests(&self) -> Vec<Recorded> {
        let mut requests = self.api.main_requests();
        requests.retain(is_parent);
        requests
    }

    /// Returns what the parent's tools said, in order.
    pub(crate) fn parent_results(&self) -> Vec<Value> {
        let requests = self.parent_requests();
        let results = requests.last().map(Recorded::tool_results).unwrap_or_default();
        results
            .iter()
            .map(|result| serde_json::from_str(&result.text).unwrap_or_default())
            .collect()
    }

    /// Returns what the tools of the child said, with whether they failed.
    pub(crate) fn child_results(&self) -> Vec<(bool, String)> {
        let requests = self.api.main_requests();
        let last = requests.iter().rfind(|request| !is_parent(request));
        let results = last.map(Recorded::tool_results).unwrap_or_default();
        results.into_iter().map(|result| (result.is_error, result.text)).collect()
    }
}

fn is_parent(request: &Recorded) -> bool {
    request.texts_to_model().iter().any(|text| text.contains(TASK))
}

/// What a good parent does next: create, start, then wait and answer until the chat has ended.
fn next_step(plan: &Plan, work: &str, request: &Recorded) -> Step {
    let results = request.tool_results();
    if let Some(failed) = results.iter().find(|result| result.is_error) {
        return Step::text(&format!("It failed: {}", failed.text));
    }
    let said: Vec<Value> = results
        .iter()
        .map(|result| serde_json::from_str(&result.text).unwrap_or_default())
        .collect();
    let session = said.first().map(|created| created["id"].clone()).unwrap_or_default();
    match said.last() {
        None => tool(
            "agents_create",
            json!({"name": "child", "working_dir": work, "channel": plan.channel}),
        ),
        Some(last) if last["type"] == "created" => {
            tool("agents_chat_async", json!({"session_id": session, "prompt": plan.prompt}))
        }
        Some(last) => match (last["approvals"].get(0), last["ended"].get(0)) {
            (Some(asked), _) => tool("loopback_respond", decision(plan, asked)),
            (None, Some(ended)) if ended["status"] == "complete" => {
                let answer = ended["answer"]["text"].as_str().unwrap_or_default();
                Step::text(&format!("The child said: {answer}"))
            }
            (None, Some(_)) => Step::text(&format!("The child failed: {}", json!(said))),
            (None, None) if said.len() > MOST_TURNS => {
                Step::text(&format!("It takes too long: {last}"))
            }
            (None, None) => {
                // Each answer says from where on to wait; before the first there is none.
                let after = said.iter().filter_map(|answer| answer["after"].as_u64()).next_back();
                let wait = json!({"after": after.unwrap_or(0), "wait_ms": WAIT_MS});
                tool("loopback_wait_for_approval", wait)
            }
        },
    }
}

fn tool(name: &str, input: Value) -> Step {
    Step::tool(&format!("mcp__plexus__{name}"), input)
}

fn decision(plan: &Plan, asked: &Value) -> Value {
    let mut decision = plan.decision.clone();
    decision["approval_id"] = asked["id"].clone();
    decision["input_digest"] = asked["input_digest"].clone();
    decision
}

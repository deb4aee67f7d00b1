//! A real agent that is a parent: this server is its MCP server, and each call is asked about.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testkit::messages_api::Step;
use testkit::real_acp::Agent;

use crate::hub_with_agent::Props;
use crate::killed::{ended, question, server_with};

/// The tool's name without what the agent puts before it.
const CREATE: &str = "agents_create";

/// What Claude Code calls it. It lists tools of MCP servers only when its model searches for them.
const UNLISTED: &str = "mcp__plexus_hub__agents_create";

pub(crate) async fn an_agent_creates_a_child_of_its_own_once_it_is_allowed(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let props = Props::new(agent).await?;
    let work = props.sandbox.work();
    // What an agent calls a tool of an MCP server is read from what it offers to its model.
    props.api.respond_with(move |asked| {
        let calls = asked.tool_results().len();
        let name = ["refused", "allowed"].get(calls)?;
        let listed = asked.tool_names().into_iter().find(|tool| tool.ends_with(CREATE));
        let tool = listed.unwrap_or(UNLISTED);
        Some(Step::tool(tool, json!({"name": name, "working_dir": work})))
    });
    let server = server_with(agent, &cli, &props).await?;
    let mut params = props.params(json!({"name": "parent", "can_spawn": true}));
    params["env"]["PLEXUS_TEST_WORLD"] = json!(server.data_dir());
    let created = server.call("agents.create", params).await?;
    let session = created["id"].as_str().context("no session")?.to_owned();
    let chat = json!({"session_id": session, "prompt": "create two"});
    server.call("agents.chat_async", chat).await?;
    for (name, approve) in [("refused", false), ("allowed", true)] {
        let asked = question(&server, &session).await;
        ensure!(asked["tool_name"].as_str().is_some_and(|it| it.ends_with(CREATE)), "{asked:#}");
        ensure!(asked["input"]["name"] == name, "{asked:#}");
        let answer = json!({"approval_id": asked["id"], "approve": approve});
        server.call("loopback.respond", answer).await?;
    }
    let page = ended(&server, &session).await;
    ensure!(page["status"] == "complete", "{page:#}");
    let sessions = server.call("agents.list", json!({})).await?;
    let sessions = sessions["sessions"].as_array().context("no list")?.clone();
    let below: Vec<_> = sessions.iter().filter(|one| one["parent"] == session.as_str()).collect();
    ensure!(below.len() == 1 && below[0]["name"] == "allowed", "{sessions:#?}");
    drop(server);
    props.nothing_lives().await;
    Ok(())
}

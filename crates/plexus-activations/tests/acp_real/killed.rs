//! A real server that is killed while a real agent asks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::real_acp::Agent;
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::PATIENCE;

use crate::hub_with_agent::{Props, name};

/// How long the server is away: longer than the patience of most programs that ask.
const AWAY: Duration = Duration::from_secs(15);

pub(crate) async fn a_killed_server_answers_15_s_later_and_the_tool_runs_once(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let props = Props::new(agent).await?;
    let mut server = server_with(agent, &cli, &props).await?;
    let mut params = props.params(json!({"name": "away"}));
    params["env"]["PLEXUS_TEST_WORLD"] = json!(server.data_dir());
    let created = server.call("agents.create", params).await?;
    let session = created["id"].as_str().context("no session")?.to_owned();
    let prompt = props.shell(&["echo ran >> made"], "Done.");
    let chat = json!({"session_id": session, "prompt": prompt});
    server.call("agents.chat_async", chat).await?;
    let approval = question(&server, &session).await;

    server.kill_9()?;
    tokio::time::sleep(AWAY).await;
    server.start_again().await?;
    let still = question(&server, &session).await;
    ensure!(still["id"] == approval["id"], "it was asked again: {still:#}");
    server.call("loopback.respond", json!({"approval_id": still["id"], "approve": true})).await?;
    // Killed again right after the decision: it is sent once more if it was not taken.
    server.kill_9()?;
    server.start_again().await?;
    let page = ended(&server, &session).await;
    ensure!(page["status"] == "complete", "{page:#}");
    let asked = page["events"].as_array().into_iter().flatten();
    let asked = asked.filter(|event| event["event"]["type"] == "awaiting_approval").count();
    ensure!(asked == 1, "it was asked {asked} times");
    let made = std::fs::read_to_string(props.sandbox.work().join("made"))?;
    ensure!(made == "ran\n", "it ran once, and not so: {made:?}");
    drop(server);
    props.nothing_lives().await;
    Ok(())
}

/// Starts a server that has the agent.
pub(crate) async fn server_with(agent: Agent, cli: &Path, props: &Props) -> Result<TestServer> {
    let home = props.sandbox.env().into_iter().filter(|(name, _)| name == "HOME").collect();
    let mut server = TestServer::prepared(ServerOptions { env: home, ..Default::default() })?;
    std::fs::create_dir_all(server.data_dir())?;
    let program = format!("[agents.{}]\nprogram = {:?}\n", name(agent), cli.display().to_string());
    std::fs::write(server.data_dir().join("plexus.toml"), program)?;
    server.start_again().await?;
    Ok(server)
}

/// Waits for the end of the chat.
pub(crate) async fn ended(server: &TestServer, session: &str) -> Value {
    wait_for(server, session, "the end of the chat", |page| {
        !["running", "awaiting_permission"].contains(&page["status"].as_str().unwrap_or_default())
    })
    .await
}

pub(crate) async fn question(server: &TestServer, session: &str) -> Value {
    let page = wait_for(server, session, "a question", |page| {
        page["pending_approvals"].as_array().is_some_and(|open| !open.is_empty())
    });
    page.await["pending_approvals"][0].clone()
}

async fn wait_for(
    server: &TestServer,
    session: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let page = || async {
        let params = json!({"session_id": session, "from_seq": 0, "limit": 1000});
        let page = server.call("agents.poll", params).await;
        page.ok().filter(|page| wanted(page))
    };
    testkit::eventually_async(what, PATIENCE, page).await
}

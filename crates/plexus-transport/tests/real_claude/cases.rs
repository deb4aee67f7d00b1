//! The cases: each starts a server, a stand-in for the Messages API, and the real CLI between them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use plexus_transport::Limits;
use serde_json::{Map, Value, json};
use testkit::messages_api::{MessagesApi, Step, prompt};
use testkit::real_claude::Sandbox;
use testkit::wait::PATIENCE;
use tokio::process::{Child, Command};

use crate::support::{CHILD, HubState, PARENT, Server};

/// How long the server is away. A call that waits meanwhile must survive this (promise P5).
const AWAY: Duration = Duration::from_secs(10);

/// The client reconnects 15 s after it lost the connection; this is the deadline for that.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(180);

fn start(
    cli: &Path,
    sandbox: &Sandbox,
    server: &Server,
    token: &str,
    more: &[&str],
    script: &[Step],
) -> Result<Child> {
    let config = sandbox.outside("mcp.json");
    let entry = json!({"type": "http", "url": server.url("/mcp"), "headers": {"Authorization": format!("Bearer {token}")}, "timeout": 86_400_000});
    std::fs::write(&config, json!({"mcpServers": {"plexus": entry}}).to_string())?;
    let mut command = Command::new(cli);
    command
        .args([
            "--print",
            "--output-format",
            "stream-json",
            "--verbose",
            "--strict-mcp-config",
            "--setting-sources",
            "user",
        ])
        .arg("--mcp-config")
        .arg(&config)
        .args(more)
        .arg("--")
        .arg(prompt(script))
        .current_dir(sandbox.work())
        .env_clear()
        .envs(sandbox.env())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().context("could not start the CLI")
}

const PERMIT: [&str; 2] = ["--permission-prompt-tool", "mcp__plexus__test_permit"];

/// Waits until the child asks, and returns the id and the input of its request.
async fn asked(state: &HubState) -> (String, Map<String, Value>) {
    testkit::eventually_async("a permission request", PATIENCE, || {
        let first = state
            .permits
            .lock()
            .unwrap()
            .iter()
            .next()
            .map(|(id, input)| (id.clone(), input.clone()));
        std::future::ready(first)
    })
    .await
}

pub(crate) async fn a_permission_is_asked_for_and_the_edited_input_runs(
    cli: PathBuf,
) -> Result<()> {
    let (api, state) = (MessagesApi::start().await?, Arc::<HubState>::default());
    let (sandbox, server) = (Sandbox::new(&api)?, Server::start(&state).await);
    let script = [Step::bash("touch original"), Step::text("done")];
    let child = start(&cli, &sandbox, &server, CHILD, &PERMIT, &script)?;
    let (id, input) = asked(&state).await;
    assert_eq!(input["command"], "touch original");
    state.answer(
        &id,
        json!({"behavior": "allow", "updatedInput": {"command": "touch edited", "description": "edited"}}),
    );
    let output = child.wait_with_output().await?;
    assert!(output.status.success(), "{output:?}");
    assert!(sandbox.work().join("edited").exists() && !sandbox.work().join("original").exists());
    Ok(())
}

pub(crate) async fn a_failure_of_the_permission_path_is_a_denial(cli: PathBuf) -> Result<()> {
    let (api, state) = (MessagesApi::start().await?, Arc::<HubState>::default());
    let sandbox = Sandbox::new(&api)?;
    // There is no room for a waiting call, so the permission path fails before anything is asked.
    let server = Server::with(&state, Limits { streams: 0, ..Limits::default() }).await;
    let script = [Step::bash("touch made"), Step::text("understood")];
    let output =
        start(&cli, &sandbox, &server, CHILD, &PERMIT, &script)?.wait_with_output().await?;
    assert!(output.status.success(), "a denial is no failure of the run: {output:?}");
    assert!(!sandbox.work().join("made").exists());
    let told = &api.tool_results()[0];
    assert!(told.is_error && told.text.contains("all callers together may hold 0"), "{told:?}");
    Ok(())
}

pub(crate) async fn a_blocked_permission_survives_a_restart_of_the_server(
    cli: PathBuf,
) -> Result<()> {
    let (api, state) = (MessagesApi::start().await?, Arc::<HubState>::default());
    let (sandbox, server) = (Sandbox::new(&api)?, Server::lasting(&state).await);
    let script = [Step::bash("echo ran >> made"), Step::text("done")];
    let child = start(&cli, &sandbox, &server, CHILD, &PERMIT, &script)?;
    let (id, input) = asked(&state).await;
    let address = server.kill();
    tokio::time::sleep(AWAY).await;
    let _server = Server::at(&state, Limits::default(), address).await;
    state.answer(&id, json!({"behavior": "allow", "updatedInput": input}));
    let output = tokio::time::timeout(COMES_BACK_WITHIN, child.wait_with_output())
        .await
        .context("the child hangs")??;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(sandbox.work().join("made"))?, "ran\n", "the tool ran once");
    assert_eq!(state.permits.lock().unwrap().len(), 1, "nothing was asked again under another id");
    Ok(())
}

pub(crate) async fn a_parent_calls_tools_and_reads_failures(cli: PathBuf) -> Result<()> {
    let (api, state) = (MessagesApi::start().await?, Arc::<HubState>::default());
    let (sandbox, server) = (Sandbox::new(&api)?, Server::start(&state).await);
    let script = [
        Step::tool("mcp__plexus__test_echo", json!({"text": "hello"})),
        Step::tool("mcp__plexus__test_echo", json!({"text": "fail"})),
        Step::tool("mcp__plexus__test_sleep", json!({"ms": 1500})),
        Step::text("done"),
    ];
    let allow = ["--allowedTools", "mcp__plexus__test_echo,mcp__plexus__test_sleep"];
    let output =
        start(&cli, &sandbox, &server, PARENT, &allow, &script)?.wait_with_output().await?;
    assert!(output.status.success(), "{output:?}");
    let results = api.tool_results();
    let texts: Vec<_> =
        results.iter().map(|result| (result.is_error, result.text.as_str())).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(!texts[0].0 && texts[0].1.contains("hello"), "{texts:?}");
    assert!(texts[1].0 && texts[1].1.contains("conflict"), "{texts:?}");
    assert!(!texts[2].0 && texts[2].1.contains("1500"), "{texts:?}");
    Ok(())
}

//! Servers that are killed while they park or wake an agent, at every step of it: the call runs
//! once, as it was decided. The crash matrix strikes the same steps with the simulator; here it is
//! shown that the real CLI does what the simulator plays.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::messages_api::{Step, prompt};
use testkit::process;
use testkit::server::{ServerOptions, TestServer};

use crate::server_with_claude::{CONTROL, ServerWithClaude, count};

/// The steps of parking at which a server is killed, each with how often it is reached before.
pub(crate) const PARKING: [&str; 7] = [
    "park.begin.before@1",
    "park.begin.committed@1",
    "exit.noticed@1",
    "park.copied@1",
    "park.end.before@1",
    "park.end.committed@1",
    "end.committed@1",
];

/// The steps of waking. The second start is that of the woken process.
pub(crate) const WAKING: [&str; 10] = [
    "wake.claim.before@1",
    "wake.claimed@1",
    "wake.marked@1",
    "launch.dir.made@2",
    "launch.shim.started@2",
    "wake.asked.before@1",
    "answer.put.before@1",
    "answer.put.after@1",
    "echo.seen@1",
    "chat.end.committed@1",
];

/// The steps at which the CLI's own files and processes are between two states. They are struck in
/// every run of the suite, the others in its slow part.
pub(crate) const QUICK: [&str; 4] =
    ["park.begin.committed@1", "wake.marked@1", "wake.asked.before@1", "answer.put.after@1"];

/// A server that parks soon, and is killed when it reaches `point`.
async fn armed(cli: PathBuf, point: &str) -> Result<(ServerWithClaude, PathBuf)> {
    let faults = tempfile::Builder::new().prefix("plexus-parking-").tempdir()?.keep();
    let orders = point.replace('@', ":kill@");
    let env = vec![
        ("PLEXUS_FAULT".to_owned(), orders),
        ("PLEXUS_FAULT_DIR".to_owned(), faults.display().to_string()),
    ];
    let arguments = ["--set", "park_after_secs=1"].map(Into::into).into();
    let setup = ServerWithClaude::with(cli, CONTROL, None, arguments, env).await?;
    setup.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    Ok((setup, faults.join(point)))
}

/// Waits until the server has killed itself, and starts it again.
async fn struck(setup: &mut ServerWithClaude, mark: &std::path::Path) -> Result<()> {
    setup.eventually("the blow", async || Ok(mark.exists().then_some(()))).await?;
    setup.server.kill_9()?;
    setup.server.start_again().await
}

async fn ran_once(setup: &ServerWithClaude) -> Result<()> {
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n", "it left {:?}: {events:#?}", setup.text_of("made"));
    for kind in ["tool_use", "awaiting_approval", "approval_resolved", "tool_result", "complete"] {
        ensure!(count(&events, kind) == 1, "{kind} is not there once: {events:#?}");
    }
    ensure!(setup.decisions().await?.len() == 1, "it was decided more than once");
    Ok(())
}

pub(crate) async fn killed_while_parking(cli: PathBuf, point: &'static str) -> Result<()> {
    let (mut setup, mark) = armed(cli, point).await?;
    struck(&mut setup, &mark).await?;
    let approval = setup.parked().await?;
    ensure!(setup.text_of("made").is_empty(), "it ran unasked");
    setup.allow(&approval).await?;
    ran_once(&setup).await
}

pub(crate) async fn killed_while_waking(cli: PathBuf, point: &'static str) -> Result<()> {
    let (mut setup, mark) = armed(cli, point).await?;
    let approval = setup.parked().await?;
    ensure!(setup.text_of("made").is_empty(), "it ran unasked");
    setup.allow(&approval).await?;
    struck(&mut setup, &mark).await?;
    ran_once(&setup).await
}

/// Settings of a server as arguments.
fn set(settings: &[&str]) -> Vec<std::ffi::OsString> {
    settings.iter().flat_map(|setting| ["--set".into(), (*setting).into()]).collect()
}

/// A person's day: a call is asked about in the evening, the machine is restarted at night, the
/// person answers from the page in the morning, and the work goes on.
pub(crate) async fn a_call_of_the_evening_is_answered_from_the_page_in_the_morning(
    cli: PathBuf,
) -> Result<()> {
    let mut setup =
        ServerWithClaude::with(cli, CONTROL, None, set(&["park_after_secs=1"]), Vec::new()).await?;
    setup.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    setup.parked().await?;

    // Night: nothing is left but what is on the disk.
    let left = process::descendants(setup.server.pid()?)?;
    setup.server.kill_9()?;
    left.iter().for_each(|process| process::kill(process.pid));
    let runs = setup.server.data_dir().join("runs");
    if runs.exists() {
        std::fs::remove_dir_all(runs)?;
    }
    std::fs::remove_dir_all(setup.sandbox.outside("tmp"))?;
    std::fs::create_dir(setup.sandbox.outside("tmp"))?;
    setup.server.start_again().await?;

    // Morning: what the page does when somebody opens it and allows the call.
    let output = Command::new(env!("CARGO_BIN_EXE_plexus"))
        .args(["dashboard", "--print"])
        .env("PLEXUS_DATA_DIR", setup.server.data_dir())
        .output()?;
    let link = String::from_utf8(output.stdout)?;
    let (page, code) = link.trim().split_once("#code=").context("the link has no code")?;
    let http = reqwest::Client::new();
    let html = http.get(page).send().await?.error_for_status()?.text().await?;
    ensure!(html.contains("<script"), "this is no page: {html}");
    let url = setup.server.url()?.trim_end_matches('/').to_owned();
    let post = |path: &str, body: Value| {
        let request = http.post(format!("{url}/{path}")).header("origin", &url);
        request.header("content-type", "application/json").body(body.to_string())
    };
    let answer = post("auth/exchange", json!({"code": code})).send().await?.text().await?;
    let token: Value = serde_json::from_str(&answer)?;
    let token = token["token"].as_str().context("no token")?.to_owned();
    let rpc = async |method: &str, params: Value| -> Result<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = post("rpc", body).bearer_auth(&token).send().await?.text().await?;
        let answer: Value = serde_json::from_str(&answer)?;
        ensure!(answer.get("error").is_none(), "{method}: {answer}");
        Ok(answer["result"].clone())
    };
    let pending = rpc("loopback.pending", json!({})).await?;
    let approval = &pending["approvals"][0];
    ensure!(approval["parked"] == true, "the page does not say that it is parked: {pending:#}");
    ensure!(setup.text_of("made").is_empty(), "it ran unasked");
    let digest = &approval["input_digest"];
    let allow = json!({"approval_id": approval["id"], "approve": true, "input_digest": digest});
    rpc("loopback.respond", allow).await?;
    ran_once(&setup).await?;

    setup.chat(&[Step::text("on")]).await?;
    let events = setup.completed().await?;
    ensure!(json!(events).to_string().contains("on"), "{events:#?}");
    ensure!(setup.text_of("made") == "ran\n", "it ran again");
    Ok(())
}

/// A server parks an agent and goes away; another one on the same database, with another home,
/// wakes it from the transcript in the store.
pub(crate) async fn a_second_server_wakes_what_the_first_parked(cli: PathBuf) -> Result<()> {
    let postgres = testkit::postgres::shared();
    let database = ("DATABASE_URL".to_owned(), postgres.fresh_database()?);
    // Only the first one is meant to lose its lease.
    let settings = |name: &str, lease: &str| set(&["park_after_secs=1", lease, name]);
    let env = vec![database.clone()];
    let mut setup = ServerWithClaude::with(
        cli.clone(),
        CONTROL,
        None,
        settings("node.name=first", "node.lease_secs=20"),
        env,
    )
    .await?;
    let home = setup.sandbox.outside("second-home");
    std::fs::create_dir(&home)?;
    let mut env = setup.sandbox.env();
    env.retain(|(name, _)| name != "HOME");
    env.extend([database, ("HOME".to_owned(), home.display().to_string())]);
    let second = TestServer::with(ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        claude_bin: Some(cli),
        arguments: settings("node.name=second", "node.lease_secs=120"),
        env,
        ..ServerOptions::default()
    })
    .await?;
    setup.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    setup.parked().await?;
    setup.server.kill_9()?;
    let _first = std::mem::replace(&mut setup.server, second);
    setup
        .eventually("the first server is taken over", async || {
            let poll = json!({"session_id": setup.session, "from_seq": 0, "limit": 1000});
            let page = setup.server.call("claudecode.poll", poll).await?;
            Ok(page.to_string().contains("the agent stays parked").then_some(()))
        })
        .await?;
    let approval = setup.parked().await?;
    ensure!(setup.text_of("made").is_empty(), "it ran unasked");
    setup.allow(&approval).await?;
    ran_once(&setup).await?;
    ensure!(home.join(".claude/projects").exists(), "the second server used another home");
    setup.chat(&[Step::text("on")]).await?;
    setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n", "it ran again");
    Ok(())
}

/// How many agents the measure parks.
const AGENTS: usize = 20;

/// What agents weigh while they wait and once they are parked.
#[allow(clippy::print_stdout, reason = "a measure is printed")]
pub(crate) async fn twenty_parked_agents_hold_no_memory(cli: PathBuf) -> Result<()> {
    let setup =
        ServerWithClaude::with(cli, CONTROL, None, set(&["park_after_secs=45"]), Vec::new())
            .await?;
    let steps = prompt(&[Step::bash("echo ran >> made"), Step::text("done")]);
    let before = process::resident_bytes(setup.server.pid()?)?;
    for n in 0..AGENTS {
        let create = json!({"name": format!("agent-{n}"), "working_dir": setup.sandbox.work(),
            "loopback_timeout_secs": 0});
        let created = setup.server.call("claudecode.create", create).await?;
        let chat = json!({"session_id": created["id"], "prompt": steps});
        setup.server.call("claudecode.chat_async", chat).await?;
    }
    let children = || -> Result<(usize, u64)> {
        let children = process::descendants(setup.server.pid()?)?;
        let bytes = children.iter().map(|it| process::resident_bytes(it.pid).unwrap_or(0));
        Ok((children.len(), bytes.sum()))
    };
    let (most, processes) = (AtomicU64::new(0), AtomicUsize::new(0));
    setup
        .eventually("every agent is parked", async || {
            let (count, bytes) = children()?;
            most.fetch_max(bytes, Ordering::Relaxed);
            processes.fetch_max(count, Ordering::Relaxed);
            let list = setup.server.call("claudecode.list", json!({})).await?;
            let sessions = list["sessions"].as_array().context("no sessions")?;
            let parked = sessions.iter().filter(|it| it["parked"] == true).count();
            Ok((parked == AGENTS && count == 0).then_some(()))
        })
        .await?;
    let after = process::resident_bytes(setup.server.pid()?)?;
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "{AGENTS} agents: at most {} MiB in {} processes while they waited, 0 processes parked; \
         the server had {} MiB before and {} MiB after",
        mib(most.into_inner()),
        processes.into_inner(),
        mib(before),
        mib(after)
    );
    ensure!(setup.text_of("made").is_empty(), "something ran unasked");
    Ok(())
}

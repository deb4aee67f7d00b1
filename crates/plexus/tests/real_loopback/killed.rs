//! Servers that are killed while a child waits, and come back: nothing is lost, asked again or run
//! twice.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use plexus_store::{
    Again, Change, DecideApproval, DecidedBy, Priority, SqliteOptions, SqliteStore, Store,
    UnixMillis, Verdict,
};
use serde_json::Value;
use testkit::messages_api::Step;
use testkit::wait::PATIENCE;

use crate::answers::{all_were_read, three_reads};
use crate::server_with_claude::{CONTROL, MCP, ServerWithClaude, Way, count};

/// When the client of a lost call looks for the server again, with a second to spare.
const COMES_BACK_AFTER: Duration = Duration::from_secs(14);

/// How often a case is played whose outage was longer than it should have been.
const MOST_TRIES: usize = 3;

/// A call that leaves a line for each time it runs.
fn leaves_a_line() -> [Step; 2] {
    [Step::bash("echo ran >> made"), Step::text("done")]
}

/// Checks that the one call of [`leaves_a_line`] was asked once, decided once, delivered and run
/// once.
async fn ran_once(setup: &ServerWithClaude) -> Result<()> {
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n", "it left {:?}: {events:#?}", setup.text_of("made"));
    for kind in ["tool_use", "awaiting_approval", "approval_resolved", "tool_result", "complete"] {
        ensure!(count(&events, kind) == 1, "{kind} is not there once: {events:#?}");
    }
    let decisions = setup.decisions().await?;
    ensure!(decisions.len() == 1, "{decisions:#?}");
    Ok(())
}

pub(crate) async fn a_wait_outlives_a_killed_server(cli: PathBuf, way: Way) -> Result<()> {
    let mut setup = ServerWithClaude::new(cli, way).await?;
    setup.chat(&leaves_a_line()).await?;
    let asked = setup.asked().await?;
    setup.outage().await?;
    ensure!(setup.asked().await? == asked, "it was asked again");
    setup.allow(&asked).await?;
    ran_once(&setup).await
}

pub(crate) async fn a_wait_outlives_two_killed_servers(cli: PathBuf, way: Way) -> Result<()> {
    let mut setup = ServerWithClaude::new(cli, way).await?;
    setup.chat(&leaves_a_line()).await?;
    let asked = setup.asked().await?;
    for _ in 0..2 {
        setup.outage().await?;
        setup.reconnected().await?;
        ensure!(setup.asked().await? == asked, "it was asked again");
    }
    setup.allow(&asked).await?;
    ran_once(&setup).await
}

pub(crate) async fn three_parallel_reads_outlive_a_killed_server(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    for _ in 0..MOST_TRIES {
        let mut setup = ServerWithClaude::new(cli.clone(), way).await?;
        setup.chat(&three_reads(&setup)?).await?;
        let asked = setup.pending(3).await?;
        let began = Instant::now();
        setup.outage().await?;
        if way == MCP && began.elapsed() > COMES_BACK_AFTER {
            // The machine was too slow for the case: three calls that find no server are three
            // errors, after which the CLI gives up.
            continue;
        }
        ensure!(setup.pending(3).await? == asked, "they were asked again");
        for approval in &asked {
            setup.allow(approval).await?;
        }
        let events = setup.completed().await?;
        all_were_read(&setup, &events)?;
        ensure!(setup.decisions().await?.len() == 3);
        return Ok(());
    }
    bail!("no server came back within {COMES_BACK_AFTER:?}")
}

/// The server dies after a decision is committed and before its answer leaves. The test makes that
/// state without a race: it writes the decision into the store of a server that is down.
pub(crate) async fn a_decision_that_never_left_is_sent_by_the_next_server(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let mut setup = ServerWithClaude::new(cli, way).await?;
    setup.chat(&leaves_a_line()).await?;
    let asked = setup.asked().await?;
    setup.server.kill_9()?;
    decide(&setup, &asked).await?;
    tokio::time::sleep(way.away).await;
    setup.server.start_again().await?;
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n", "it left {:?}: {events:#?}", setup.text_of("made"));
    ensure!(
        count(&events, "awaiting_approval") == 1 && count(&events, "tool_result") == 1,
        "{events:#?}"
    );
    ensure!(setup.decisions().await?.len() == 1);
    Ok(())
}

async fn decide(setup: &ServerWithClaude, asked: &Value) -> Result<()> {
    let store = SqliteStore::open(&SqliteOptions::new(setup.server.data_dir()))?;
    let decision = DecideApproval {
        id: asked["id"].as_str().context("no id")?.parse()?,
        expects_digest: asked["input_digest"].as_str().map(str::to_owned),
        verdict: Verdict::Allow { updated_input: None },
        by: DecidedBy::Operator,
        message: None,
        at: UnixMillis::now(),
        event: None,
        again: Again::Fine,
        outbox: Vec::new(),
    };
    store.commit(vec![Change::DecideApproval(decision)], Priority::Urgent).await?;
    Ok(store.close().await?)
}

/// Plays a chat whose second call asks while no server runs; returns with the server still down.
async fn asks_nobody(setup: &mut ServerWithClaude) -> Result<()> {
    // The first call holds the child until the server is gone; the second one asks then.
    let hold = Step::bash("touch begun; while ! test -e go; do sleep 0.05; done");
    setup.chat(&[hold, Step::bash("echo ran >> made"), Step::text("done")]).await?;
    let first = setup.asked().await?;
    setup.allow(&first).await?;
    let begun = setup.sandbox.work().join("begun");
    testkit::eventually_async("the first call", PATIENCE, || {
        std::future::ready(begun.exists().then_some(()))
    })
    .await;
    setup.server.kill_9()?;
    std::fs::write(setup.sandbox.work().join("go"), "")?;
    Ok(())
}

pub(crate) async fn a_request_made_while_no_server_runs_is_asked_by_the_next(
    cli: PathBuf,
) -> Result<()> {
    let mut setup = ServerWithClaude::new(cli, CONTROL).await?;
    asks_nobody(&mut setup).await?;
    let journal = setup.server.data_dir().join("runs").join(&setup.session).join("0/journal");
    let asks = || std::future::ready(holds_request(&journal, "echo ran"));
    testkit::eventually_async("a request in the journal", PATIENCE, asks).await;
    setup.server.start_again().await?;
    let second = setup.asked().await?;
    ensure!(second["input"]["command"] == "echo ran >> made", "{second:#}");
    setup.allow(&second).await?;
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n", "it left {:?}: {events:#?}", setup.text_of("made"));
    ensure!(
        count(&events, "awaiting_approval") == 2 && setup.decisions().await?.len() == 2,
        "{events:#?}"
    );
    Ok(())
}

/// Over MCP the CLI cannot even ask: its call is refused by the system, and it does not try again.
/// Nothing runs, and the model is told.
pub(crate) async fn a_request_made_while_no_server_runs_is_refused_and_runs_nothing(
    cli: PathBuf,
) -> Result<()> {
    let mut setup = ServerWithClaude::new(cli, MCP).await?;
    asks_nobody(&mut setup).await?;
    setup.api.wait_for_main_requests(3, PATIENCE).await;
    setup.server.start_again().await?;
    let events = setup.completed().await?;
    let refused =
        events.iter().any(|event| event["type"] == "tool_result" && event["is_error"] == true);
    ensure!(
        refused && count(&events, "awaiting_approval") == 1 && setup.text_of("made").is_empty(),
        "{events:#?}"
    );
    // Asked again, it is a question like any other.
    setup.chat(&leaves_a_line()).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n" && setup.decisions().await?.len() == 2);
    Ok(())
}

/// Whether a journal holds a permission request about `what`.
fn holds_request(journal: &std::path::Path, what: &str) -> Option<()> {
    let segments = std::fs::read_dir(journal).ok()?;
    let text: String =
        segments.filter_map(|it| std::fs::read_to_string(it.ok()?.path()).ok()).collect();
    text.lines().any(|line| line.contains("can_use_tool") && line.contains(what)).then_some(())
}

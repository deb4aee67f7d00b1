//! The CLI started before its first chat: it sends nothing until it has a prompt, and then serves
//! it like any other.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use plexus_engine::Settings;
use plexus_engine::settings::Prestart;
use serde_json::json;
use testkit::messages_api::{Step, prompt};

use crate::cases::{median, time_to_content, touch};
use crate::common::{DEADLINE, texts};
use crate::hub_with_claude::HubWithClaude;

/// How long the CLI is left to itself, so that it is ready when its prompt comes. Nothing here is
/// wrong when it takes longer.
const GETS_READY: Duration = Duration::from_secs(3);

fn on(settings: &mut Settings) {
    settings.prestart = Prestart::On;
}

/// Waits until the process of a session's first run is there, and returns it.
async fn waits(setup: &HubWithClaude, session: &str) -> i32 {
    let dir = plexus_shim::layout::RunDir::new(setup.hub.run_dir(session, 0));
    let pid = || std::future::ready(dir.read_pid().ok().flatten().map(|pids| pids.child_pid));
    let pid = testkit::eventually_async("a CLI that waits", DEADLINE, pid).await;
    tokio::time::sleep(GETS_READY).await;
    pid
}

pub(crate) async fn the_first_chat_has_the_process_that_waited(cli: PathBuf) -> Result<()> {
    let setup = HubWithClaude::new(cli, on).await?;
    let session = setup.session("early").await;
    let pid = waits(&setup, &session).await;
    assert_eq!(setup.api.requests().len(), 0, "it sends nothing until it has a prompt");

    let chat = setup.hub.chat(&session, &touch("made")).await;
    setup.hub.allow_next(&session).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert!(setup.sandbox.work().join("made").exists());
    let now = i32::try_from(setup.hub.pids(&session, 0).1)?;
    assert_eq!((setup.hub.runs(&session).await, now), (1, pid));

    // Its conversation is one that a later process goes on with.
    setup.hub.end_children().await;
    let setup = {
        let HubWithClaude { hub, sandbox, api } = setup;
        HubWithClaude { hub: hub.restart().await.0, sandbox, api }
    };
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("again")])).await;
    let requests = setup.api.main_requests();
    let sent = requests.last().map(|it| it.texts_to_model().join("\n")).unwrap_or_default();
    assert!(sent.contains("touch made"), "it remembers its first chat: {sent}");
    Ok(())
}

pub(crate) async fn it_survives_a_restart_of_the_server(cli: PathBuf) -> Result<()> {
    let setup = HubWithClaude::new(cli, on).await?;
    let session = setup.session("early").await;
    let pid = waits(&setup, &session).await;
    let setup = setup.restart().await;
    let events = setup.hub.chat_to_end(&session, &prompt(&[Step::text("here")])).await;
    assert_eq!(texts(&events), ["here"]);
    let now = i32::try_from(setup.hub.pids(&session, 0).1)?;
    assert_eq!((setup.hub.runs(&session).await, now), (1, pid));
    Ok(())
}

pub(crate) async fn nothing_of_a_hostile_repository_runs_while_it_waits(
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithClaude::new(cli, on).await?;
    let work = setup.sandbox.work();
    std::fs::create_dir(work.join(".claude"))?;
    let hook = json!([{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]);
    let settings = json!({"hooks": {"SessionStart": hook, "Setup": hook}});
    std::fs::write(work.join(".claude/settings.json"), settings.to_string())?;
    let session = setup.session("hostile").await;
    waits(&setup, &session).await;
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("here")])).await;
    assert_eq!(setup.hub.runs(&session).await, 1);
    assert!(!work.join("hook-ran").exists());
    Ok(())
}

/// Measures how much sooner than a cold start; what is printed says it.
pub(crate) async fn its_first_event_needs_no_other_process(cli: PathBuf) -> Result<()> {
    let setup = HubWithClaude::new(cli, on).await?;
    let (mut cold, mut early) = (Vec::new(), Vec::new());
    for n in 0..3 {
        let session = setup.session_with(&format!("cold-{n}"), json!({"prestart": false})).await;
        cold.push(time_to_content(&setup, &session).await);
        setup.hub.ok("agents.delete", json!({"session_id": session})).await;
        let session = setup.session(&format!("early-{n}")).await;
        waits(&setup, &session).await;
        early.push(time_to_content(&setup, &session).await);
        assert_eq!(setup.hub.runs(&session).await, 1);
        setup.hub.ok("agents.delete", json!({"session_id": session})).await;
    }
    let (cold, early) = (median(cold), median(early));
    println!(
        "first event of the first chat: cold {cold:?}, started early {early:?}, {:.1} times sooner",
        cold.as_secs_f64() / early.as_secs_f64()
    );
    Ok(())
}

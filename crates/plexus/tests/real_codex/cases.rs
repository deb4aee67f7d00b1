//! The cases; each name is a claim.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testkit::responses_api::{Call, Step};

use crate::server_with_codex::ServerWithCodex;

fn write() -> [Step; 2] {
    [Step::shell("echo ran >> a.txt"), Step::text("Done.")]
}

pub(crate) async fn a_server_that_was_killed_while_codex_asks_answers_once_and_it_runs_once(
    cli: PathBuf,
) -> Result<()> {
    let mut setup = ServerWithCodex::new(&cli).await?;
    let session = setup.session(json!({})).await?;
    setup.chat(&session, &write()).await?;
    let before = setup.asked(&[]).await;
    setup.outage().await?;
    let after = setup.asked(&[]).await;
    ensure!(before["id"] == after["id"], "it was asked again: {before} and {after}");
    setup.respond(&after, true, "").await?;
    // Again right after the answer, before its outcome is known.
    setup.outage().await?;
    setup.completed(&session).await?;
    ensure!(setup.file("a.txt").as_deref() == Some("ran\n"), "{:?}", setup.file("a.txt"));
    Ok(())
}

pub(crate) async fn a_denial_decided_before_a_kill_reaches_the_model_after_it(
    cli: PathBuf,
) -> Result<()> {
    let mut setup = ServerWithCodex::new(&cli).await?;
    let session = setup.session(json!({})).await?;
    setup.chat(&session, &write()).await?;
    let asked = setup.asked(&[]).await;
    setup.respond(&asked, false, "use make").await?;
    setup.outage().await?;
    setup.completed(&session).await?;
    ensure!(setup.file("a.txt").is_none(), "it ran");
    let read = setup.api.last_input();
    ensure!(read.contains("use make") && read.contains("rejected by user"), "it read {read}");
    Ok(())
}

pub(crate) async fn codex_creates_a_child_of_its_own_once_it_is_allowed(
    cli: PathBuf,
) -> Result<()> {
    let setup = ServerWithCodex::new(&cli).await?;
    let session = setup.session(json!({"can_spawn": true})).await?;
    let child = |name: &str| {
        let params = json!({
            "name": name, "working_dir": setup.sandbox.work(), "supervise": "all",
        });
        let create = Call::Function("mcp__plexus_hub/agents_create".to_owned(), params);
        Step::default().and_call(create)
    };
    setup.chat(&session, &[child("refused"), child("allowed"), Step::text("Done.")]).await?;
    let first = setup.asked(&[]).await;
    ensure!(first["tool_name"] == "mcp__plexus_hub__agents_create", "{first}");
    ensure!(first["input"]["name"] == "refused", "{first}");
    setup.respond(&first, false, "not this one").await?;
    let second = setup.asked(&[first]).await;
    ensure!(second["input"]["name"] == "allowed", "{second}");
    setup.respond(&second, true, "").await?;
    setup.completed(&session).await?;
    let sessions = setup.server.call("agents.list", json!({})).await?;
    let sessions = sessions["sessions"].as_array().context("no list")?.clone();
    let below: Vec<_> = sessions.iter().filter(|one| one["parent"] == session.as_str()).collect();
    ensure!(below.len() == 1 && below[0]["name"] == "allowed", "{sessions:#?}");
    Ok(())
}

pub(crate) async fn an_agent_that_is_missing_says_so(_cli: PathBuf) -> Result<()> {
    let setup = ServerWithCodex::new(Path::new("/nowhere/codex")).await?;
    let session = setup.session(json!({})).await?;
    setup.chat(&session, &write()).await?;
    let (status, events) = setup.ended(&session).await?;
    let error = events.last().context("no event")?["event"]["message"].clone();
    let error = error.as_str().unwrap_or_default();
    ensure!(status == "failed" && error.contains("npm install"), "{status}: {error}");
    Ok(())
}

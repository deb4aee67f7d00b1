//! The cases: each plays one supervision from the parent's first call to its last word.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::messages_api::{Step, prompt};

use crate::parent::{Plan, ServerWithParent};

/// A child that wants to run one command and then says that it is done.
fn asks(channel: &'static str, decision: Value) -> Plan {
    let script = [Step::bash("touch made"), Step::text("the child is done")];
    Plan { channel, prompt: prompt(&script), decision }
}

/// Plays `plan` and returns the server after it, with the parent's last word.
async fn played(cli: PathBuf, plan: Plan) -> Result<(ServerWithParent, String)> {
    let setup = ServerWithParent::new(&cli).await?;
    let output = setup.play(&cli, plan).await?;
    ensure!(output.status.success(), "the parent failed: {output:?}\n{}", setup.server.log());
    let result: Value = serde_json::from_slice(&output.stdout).context("the parent's result")?;
    let last_word = result["result"].as_str().unwrap_or_default().to_owned();
    Ok((setup, last_word))
}

/// Returns the one decision on record.
async fn only_decision(setup: &ServerWithParent) -> Result<Value> {
    let history = setup.server.call("loopback.history", json!({})).await?;
    let decisions = history["decisions"].as_array().context("no decisions")?;
    ensure!(decisions.len() == 1, "{decisions:?}");
    Ok(decisions[0].clone())
}

pub(crate) async fn a_parent_allows_what_its_child_asks_and_gets_the_result(
    cli: PathBuf,
) -> Result<()> {
    let (setup, last_word) = played(cli, asks("control", json!({"approve": true}))).await?;
    ensure!(last_word == "The child said: the child is done", "{last_word}");
    ensure!(setup.sandbox.work().join("made").exists(), "the child's command did not run");
    let decision = only_decision(&setup).await?;
    ensure!(
        decision["status"] == "allowed"
            && decision["decided_by"] == json!({"session": setup.parent}),
        "{decision}"
    );
    ensure!(decision["delivered_at"].is_i64() && decision.get("breach").is_none(), "{decision}");
    // Create, prompt, wait, respond, read: one call for each. A wait that times out on a slow
    // machine is repeated and does not count.
    let mut said = setup.parent_results();
    said.retain(|result| result["type"] != "timeout");
    ensure!(said.len() == 5, "{} calls: {said:?}", said.len());
    // The model was taught the flow, and offered what it takes, before its first turn.
    let first = &setup.parent_requests()[0];
    let told = first.body.to_string();
    ensure!(
        told.contains("Plexus runs sessions of coding agents"),
        "the model was not instructed: {told}"
    );
    // With many tools the CLI names them to the model, which loads what it wants; with few it sends
    // them whole.
    ensure!(
        told.contains("mcp__plexus__agents_create"),
        "the tools did not reach the model: {told}"
    );
    ensure!(
        !told.contains("mcp__plexus__loopback_permit"),
        "a parent was offered what is for children: {told}"
    );
    Ok(())
}

pub(crate) async fn a_child_that_asks_over_mcp_is_answered_by_its_parent(
    cli: PathBuf,
) -> Result<()> {
    let (setup, last_word) = played(cli, asks("mcp", json!({"approve": true}))).await?;
    ensure!(last_word == "The child said: the child is done", "{last_word}");
    ensure!(setup.sandbox.work().join("made").exists(), "the child's command did not run");
    let decision = only_decision(&setup).await?;
    ensure!(decision["decided_by"] == json!({"session": setup.parent}), "{decision}");
    Ok(())
}

pub(crate) async fn a_child_reads_why_its_parent_refused(cli: PathBuf) -> Result<()> {
    let (setup, last_word) =
        played(cli, asks("control", json!({"approve": false, "message": "not on a Sunday"})))
            .await?;
    ensure!(
        last_word == "The child said: the child is done",
        "a refusal does not end the child: {last_word}"
    );
    ensure!(!setup.sandbox.work().join("made").exists(), "what was refused ran");
    let told = setup.child_results();
    ensure!(told.len() == 1 && told[0].0 && told[0].1.contains("not on a Sunday"), "{told:?}");
    Ok(())
}

pub(crate) async fn an_edit_of_the_parent_is_what_runs(cli: PathBuf) -> Result<()> {
    let edited = json!({"command": "touch edited", "description": "edited"});
    let (setup, _) =
        played(cli, asks("control", json!({"approve": true, "updated_input": edited}))).await?;
    let work = setup.sandbox.work();
    ensure!(
        work.join("edited").exists() && !work.join("made").exists(),
        "not the edited command ran"
    );
    let decision = only_decision(&setup).await?;
    ensure!(decision["updated_input"] == edited && decision.get("breach").is_none(), "{decision}");
    Ok(())
}

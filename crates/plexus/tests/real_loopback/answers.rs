//! What becomes of an answer: the tool runs, does not run, or runs with other input; and how
//! several questions of one turn come.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::messages_api::Step;

use crate::server_with_claude::{ServerWithClaude, Way, count};

pub(crate) async fn an_allowed_call_runs_once(cli: PathBuf, way: Way) -> Result<()> {
    let site = ServerWithClaude::new(cli, way).await?;
    site.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    let asked = site.asked().await?;
    ensure!(
        asked["tool_name"] == "Bash" && asked["input"]["command"] == "echo ran >> made",
        "{asked:#}"
    );
    ensure!(site.text_of("made").is_empty(), "it ran before anybody was asked");
    site.allow(&asked).await?;
    let events = site.completed().await?;
    ensure!(site.text_of("made") == "ran\n", "it ran otherwise: {events:#?}");
    let decisions = site.decisions().await?;
    ensure!(decisions.len() == 1 && decisions[0]["decided_by"] == "operator", "{decisions:#?}");
    Ok(())
}

pub(crate) async fn a_model_repeats_why_it_was_refused(cli: PathBuf, way: Way) -> Result<()> {
    let site = ServerWithClaude::new(cli, way).await?;
    // A model that says again what its last tool said.
    site.api.respond_with(|request| {
        let told = request.tool_results().pop()?;
        Some(Step::text(&format!("I was told: {}", told.text)))
    });
    site.chat(&[Step::bash("echo ran >> made")]).await?;
    let asked = site.asked().await?;
    let words = "not on a Sunday: \"the shop\" is closed";
    site.respond(json!({"approval_id": asked["id"], "approve": false, "message": words})).await?;
    let events = site.completed().await?;
    let said = events.iter().any(|event| event["text"] == format!("I was told: {words}"));
    ensure!(said && site.text_of("made").is_empty(), "{events:#?}");
    let refused =
        events.iter().any(|event| event["type"] == "tool_result" && event["is_error"] == true);
    ensure!(refused, "{events:#?}");
    ensure!(site.decisions().await?[0]["status"] == "denied");
    Ok(())
}

pub(crate) async fn an_edited_input_is_what_runs(cli: PathBuf, way: Way) -> Result<()> {
    let site = ServerWithClaude::new(cli, way).await?;
    site.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    let asked = site.asked().await?;
    let mut edited = asked["input"].clone();
    edited["command"] = json!("echo edited >> made");
    let answer = json!({"approval_id": asked["id"], "approve": true, "updated_input": edited, "input_digest": asked["input_digest"]});
    site.respond(answer).await?;
    let events = site.completed().await?;
    ensure!(site.text_of("made") == "edited\n", "{events:#?}");
    ensure!(site.decisions().await?[0]["updated_input"] == edited);
    Ok(())
}

pub(crate) async fn parallel_bash_calls_ask_one_after_the_other(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let site = ServerWithClaude::new(cli, way).await?;
    let step = Step::bash("echo 1 >> made").and_bash("echo 2 >> made").and_bash("echo 3 >> made");
    site.chat(&[step, Step::text("done")]).await?;
    for (number, approve) in [(1, true), (2, false), (3, true)] {
        let asked = site.asked().await?;
        ensure!(asked["input"]["command"] == format!("echo {number} >> made"), "{asked:#}");
        site.respond(
            json!({"approval_id": asked["id"], "approve": approve, "message": "as I say"}),
        )
        .await?;
    }
    let events = site.completed().await?;
    ensure!(site.text_of("made") == "1\n3\n", "{events:#?}");
    ensure!(
        count(&events, "tool_result") == 3 && site.decisions().await?.len() == 3,
        "{events:#?}"
    );
    Ok(())
}

pub(crate) async fn parallel_reads_ask_at_the_same_time(cli: PathBuf, way: Way) -> Result<()> {
    let site = ServerWithClaude::new(cli, way).await?;
    site.chat(&three_reads(&site)?).await?;
    let asked = site.pending(3).await?;
    // Answered in another order than they were asked.
    for approval in asked.iter().rev() {
        site.allow(approval).await?;
    }
    let events = site.completed().await?;
    all_were_read(&site, &events)?;
    ensure!(site.decisions().await?.len() == 3);
    Ok(())
}

/// Steps that read three files at once which lie outside of the working directory, and therefore
/// ask.
pub(crate) fn three_reads(site: &ServerWithClaude) -> Result<[Step; 2]> {
    let mut step = Step::default();
    for name in ["one", "two", "three"] {
        let path = site.sandbox.outside(name);
        std::fs::write(&path, format!("this is {name}"))?;
        step = step.and_tool("Read", json!({"file_path": path}));
    }
    Ok([step, Step::text("done")])
}

/// Checks that the model got each file once.
pub(crate) fn all_were_read(site: &ServerWithClaude, events: &[serde_json::Value]) -> Result<()> {
    let results = site.api.tool_results();
    ensure!(results.len() == 3 && count(events, "tool_result") == 3, "{results:?}\n{events:#?}");
    for name in ["one", "two", "three"] {
        let got = results
            .iter()
            .filter(|it| !it.is_error && it.text.contains(&format!("this is {name}")))
            .count();
        ensure!(got == 1, "{name} was read {got} times: {results:?}");
    }
    Ok(())
}

//! What becomes of an answer: the tool runs, does not run, or runs with other input; and how
//! several questions of one turn come.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::messages_api::Step;

use crate::server_with_claude::{ServerWithClaude, Way, count};

pub(crate) async fn an_allowed_call_runs_once(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    setup.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    ensure!(
        asked["tool_name"] == "Bash" && asked["input"]["command"] == "echo ran >> made",
        "{asked:#}"
    );
    ensure!(setup.text_of("made").is_empty(), "it ran before anybody was asked");
    setup.allow(&asked).await?;
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n", "it ran otherwise: {events:#?}");
    let decisions = setup.decisions().await?;
    ensure!(decisions.len() == 1 && decisions[0]["decided_by"] == "operator", "{decisions:#?}");
    Ok(())
}

pub(crate) async fn a_model_repeats_why_it_was_refused(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    // A model that says again what its last tool said.
    setup.api.respond_with(|request| {
        let told = request.tool_results().pop()?;
        Some(Step::text(&format!("I was told: {}", told.text)))
    });
    setup.chat(&[Step::bash("echo ran >> made")]).await?;
    let asked = setup.asked().await?;
    let words = "not on a Sunday: \"the shop\" is closed";
    setup.respond(json!({"approval_id": asked["id"], "approve": false, "message": words})).await?;
    let events = setup.completed().await?;
    let said = events.iter().any(|event| event["text"] == format!("I was told: {words}"));
    ensure!(said && setup.text_of("made").is_empty(), "{events:#?}");
    let refused =
        events.iter().any(|event| event["type"] == "tool_result" && event["is_error"] == true);
    ensure!(refused, "{events:#?}");
    ensure!(setup.decisions().await?[0]["status"] == "denied");
    Ok(())
}

pub(crate) async fn an_edited_input_is_what_runs(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    setup.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    let mut edited = asked["input"].clone();
    edited["command"] = json!("echo edited >> made");
    let answer = json!({"approval_id": asked["id"], "approve": true, "updated_input": edited, "input_digest": asked["input_digest"]});
    setup.respond(answer).await?;
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "edited\n", "{events:#?}");
    ensure!(setup.decisions().await?[0]["updated_input"] == edited);
    Ok(())
}

pub(crate) async fn parallel_bash_calls_ask_one_after_the_other(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    let step = Step::bash("echo 1 >> made").and_bash("echo 2 >> made").and_bash("echo 3 >> made");
    setup.chat(&[step, Step::text("done")]).await?;
    for (number, approve) in [(1, true), (2, false), (3, true)] {
        let asked = setup.asked().await?;
        ensure!(asked["input"]["command"] == format!("echo {number} >> made"), "{asked:#}");
        setup
            .respond(json!({"approval_id": asked["id"], "approve": approve, "message": "as I say"}))
            .await?;
    }
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "1\n3\n", "{events:#?}");
    ensure!(
        count(&events, "tool_result") == 3 && setup.decisions().await?.len() == 3,
        "{events:#?}"
    );
    Ok(())
}

pub(crate) async fn parallel_reads_ask_at_the_same_time(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    setup.chat(&three_reads(&setup)?).await?;
    let asked = setup.pending(3).await?;
    // Answered in another order than they were asked.
    for approval in asked.iter().rev() {
        setup.allow(approval).await?;
    }
    let events = setup.completed().await?;
    all_were_read(&setup, &events)?;
    ensure!(setup.decisions().await?.len() == 3);
    Ok(())
}

/// Steps that read three files at once which lie outside of the working directory, and therefore
/// ask.
pub(crate) fn three_reads(setup: &ServerWithClaude) -> Result<[Step; 2]> {
    let mut step = Step::default();
    for name in ["one", "two", "three"] {
        let path = setup.sandbox.outside(name);
        std::fs::write(&path, format!("this is {name}"))?;
        step = step.and_tool("Read", json!({"file_path": path}));
    }
    Ok([step, Step::text("done")])
}

/// Checks that the model got each file once.
pub(crate) fn all_were_read(setup: &ServerWithClaude, events: &[serde_json::Value]) -> Result<()> {
    let results = setup.api.tool_results();
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

//! Questions and plans of the real CLI, answered by a person at a terminal.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::messages_api::{PLAN_FILE, Step};

use crate::pty::Terminal;
use crate::server_with_claude::{CONTROL, ServerWithClaude};

/// Plays a person who watches a session, and returns the exit code and what was shown.
async fn at_the_desk(
    setup: &ServerWithClaude,
    play: impl FnOnce(&mut Terminal) + Send + 'static,
) -> Result<(u32, String)> {
    let (data, work) = (setup.server.data_dir().to_owned(), setup.sandbox.work().to_owned());
    let person = tokio::task::spawn_blocking(move || {
        let data = data.to_str().unwrap_or_default();
        let env = [("PLEXUS_DATA_DIR", data), ("NO_COLOR", "1")];
        let mut terminal = Terminal::spawn(&work, 100, &env, &["attach", "--once", "child"]);
        play(&mut terminal);
        terminal.finish()
    });
    Ok(person.await?)
}

pub(crate) async fn a_question_with_two_options_is_answered(cli: PathBuf) -> Result<()> {
    let setup = ServerWithClaude::new(cli, CONTROL).await?;
    let options = json!([
        {"label": "SQLite", "description": "one file"},
        {"label": "PostgreSQL", "description": "a server"},
    ]);
    let question = json!({"question": "Which database?", "header": "DB", "options": options, "multiSelect": false});
    let asks = Step::tool("AskUserQuestion", json!({"questions": [question]}));
    setup.chat(&[asks, Step::text("done")]).await?;
    let (code, shown) = at_the_desk(&setup, |terminal| {
        terminal.wait_for("child asks");
        terminal.wait_for("Which database?");
        terminal.wait_for("1  SQLite");
        terminal.answer("a number, or your words", "3\n");
        terminal.wait_for("there is no number 3");
        terminal.answer("a number, or your words", "2\n");
        terminal.wait_for("answered: PostgreSQL");
        terminal.wait_for("complete in");
    })
    .await?;
    ensure!(code == 0, "{shown}");
    let read = setup.api.tool_results();
    let chosen = "\"Which database?\"=\"PostgreSQL\"";
    ensure!(read.iter().any(|it| it.text.contains(chosen)), "{read:?}");
    Ok(())
}

pub(crate) async fn a_plan_is_sent_back_once_and_then_approved(cli: PathBuf) -> Result<()> {
    let setup = ServerWithClaude::new(cli, CONTROL).await?;
    let plan = |text: &str| Step::tool("Write", json!({"file_path": PLAN_FILE, "content": text}));
    let steps = [
        Step::tool("EnterPlanMode", json!({})),
        plan("# First\n1. do it"),
        Step::tool("ExitPlanMode", json!({})),
        Step::tool("Read", json!({"file_path": PLAN_FILE})),
        plan("# Second\n1. test it"),
        Step::tool("ExitPlanMode", json!({})),
        Step::bash("touch made"),
        Step::text("done"),
    ];
    setup.chat(&steps).await?;
    let (code, shown) = at_the_desk(&setup, |terminal| {
        terminal.wait_for("child has a plan");
        terminal.wait_for("1. do it");
        terminal.answer("carry it out?", "n\n");
        terminal.answer("what should be different?", "and test it\n");
        terminal.wait_for("denied: and test it");
        terminal.wait_for("child has a plan");
        terminal.wait_for("1. test it");
        terminal.answer("carry it out?", "y\n");
        terminal.wait_for("$ touch made");
        terminal.answer("allow? ", "y\n");
        terminal.wait_for("complete · 1 denied in");
    })
    .await?;
    ensure!(code == 5, "{shown}");
    let read = setup.api.tool_results();
    ensure!(read.iter().any(|it| it.text == "and test it"), "{read:?}");
    ensure!(setup.sandbox.work().join("made").exists(), "{shown}");
    Ok(())
}

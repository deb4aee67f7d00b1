//! What a person does in an editor, with each client library and each agent.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::editor::{Editor, Library};
use crate::server_with_agent::ServerWithAgent;

fn prompted(session: &str, text: String) -> Value {
    json!({"id": session, "text": text})
}

/// Waits for the end of a prompt, which must have gone well, and returns its stop reason.
async fn stop_reason(editor: &mut Editor, prompt: u64) -> Result<String> {
    let answer = editor.outcome(prompt).await?;
    let answer = answer.map_err(|error| anyhow::anyhow!("{error}: {:#?}", editor.heard))?;
    Ok(answer["stopReason"].as_str().context("no stopReason")?.to_owned())
}

pub(crate) async fn a_call_is_drawn_as_a_diff_and_allowed_in_the_editor(
    setup: ServerWithAgent,
    library: Library,
) -> Result<()> {
    let (mut editor, session) = setup.opened(library).await?;
    let prompt = editor.begin("prompt", prompted(&session, setup.writes("new", "one\n"))).await?;
    let question = editor.question(0).await?;
    ensure!(setup.text_of("new").is_none(), "it ran before anybody was asked");
    let call = &question["toolCall"];
    let diff = &call["content"][0];
    let path = setup.path("new").display().to_string();
    ensure!(diff["type"] == "diff" && diff["newText"] == "one\n", "{question:#}");
    ensure!(diff["path"] == path && call["locations"][0]["path"] == path, "{question:#}");
    ensure!(call["rawInput"].is_object() && call["kind"] == "edit", "{question:#}");
    for option in question["options"].as_array().context("no options")? {
        let (kind, name) = (&option["kind"], option["name"].as_str().unwrap_or_default());
        ensure!(kind != "allow_always" || name.contains('('), "a rule without its text: {name}");
    }
    let drawn = editor.update("tool_call", |it| it["toolCallId"] == call["toolCallId"]).await?;
    ensure!(drawn["status"] == "pending", "{drawn:#}");
    editor.answer(&question, "allow_once").await?;
    ensure!(stop_reason(&mut editor, prompt).await? == "end_turn");
    ensure!(setup.text_of("new").as_deref() == Some("one\n"));
    editor.update("tool_call_update", |it| it["status"] == "completed").await?;
    let said = editor.text("agent_message_chunk");
    ensure!(said.matches("I will write.").count() == 1, "{said}");
    ensure!(said.ends_with("All is done."), "{said}");
    let decisions = setup.decisions(&session).await?;
    ensure!(decisions.len() == 1 && decisions[0]["status"] == "allowed", "{decisions:#?}");
    Ok(())
}

pub(crate) async fn a_dialog_closes_when_somebody_else_has_answered(
    setup: ServerWithAgent,
    library: Library,
) -> Result<()> {
    let (mut editor, session) = setup.opened(library).await?;
    let prompt = editor.begin("prompt", prompted(&session, setup.writes("new", "one\n"))).await?;
    let question = editor.question(0).await?;
    setup.decide(false).await?;
    editor.withdrawn(0).await?;
    // Neither library keeps a program from answering a question that was withdrawn.
    editor.answer(&question, "allow_once").await?;
    ensure!(stop_reason(&mut editor, prompt).await? == "end_turn");
    ensure!(setup.text_of("new").is_none(), "an answer to a withdrawn question decided");
    editor.update("tool_call_update", |it| it["status"] == "failed").await?;
    let decisions = setup.decisions(&session).await?;
    ensure!(decisions.len() == 1 && decisions[0]["status"] == "denied", "{decisions:#?}");
    ensure!(decisions[0]["message"] == "by the dashboard", "{decisions:#?}");
    Ok(())
}

pub(crate) async fn a_cancelled_prompt_runs_nothing(
    setup: ServerWithAgent,
    library: Library,
) -> Result<()> {
    let (mut editor, session) = setup.opened(library).await?;
    let prompt = editor.begin("prompt", prompted(&session, setup.writes("new", "one\n"))).await?;
    let question = editor.question(0).await?;
    editor.call("cancel", json!({"id": session})).await?;
    editor.withdrawn(0).await?;
    editor.answer(&question, "allow_once").await?;
    ensure!(stop_reason(&mut editor, prompt).await? == "cancelled");
    setup.status(&session, "cancelled").await?;
    ensure!(setup.text_of("new").is_none(), "an answer after the cancel decided");
    // The session goes on.
    let prompt = editor.begin("prompt", prompted(&session, setup.says("Still here."))).await?;
    ensure!(stop_reason(&mut editor, prompt).await? == "end_turn");
    ensure!(editor.text("agent_message_chunk").ends_with("Still here."));
    Ok(())
}

pub(crate) async fn a_session_outlives_a_killed_editor(
    setup: ServerWithAgent,
    library: Library,
) -> Result<()> {
    let (mut editor, session) = setup.opened(library).await?;
    let first = editor.begin("prompt", prompted(&session, setup.says("Good morning."))).await?;
    ensure!(stop_reason(&mut editor, first).await? == "end_turn");
    let text = setup.writes("new", "one\n");
    editor.begin("prompt", prompted(&session, text.clone())).await?;
    editor.question(0).await?;
    editor.kill().await?;

    let mut editor = setup.editor(library).await?;
    let load = json!({"id": session, "cwd": setup.work()});
    let number = editor.begin("load", load).await?;
    let outcome = editor.outcome(number).await?;
    ensure!(outcome.is_ok(), "{outcome:?}");
    // The whole history comes before the answer.
    let end = editor.heard.iter().position(|it| it["number"] == number).context("no answer")?;
    let before: Vec<&Value> =
        editor.heard[..end].iter().map(|it| &it["update"]["sessionUpdate"]).collect();
    ensure!(before.iter().filter(|kind| **kind == "user_message_chunk").count() == 2);
    ensure!(before.contains(&&json!("tool_call")), "{before:?}");
    ensure!(editor.text("user_message_chunk").ends_with(&text), "{:#?}", editor.heard);
    ensure!(editor.text("agent_message_chunk").starts_with("Good morning."));
    // What waits is asked again.
    let question = editor.question(0).await?;
    ensure!(question["toolCall"]["content"][0]["newText"] == "one\n", "{question:#}");
    editor.answer(&question, "allow_once").await?;
    editor.update("tool_call_update", |it| it["status"] == "completed").await?;
    setup.status(&session, "complete").await?;
    ensure!(setup.text_of("new").as_deref() == Some("one\n"));
    ensure!(setup.decisions(&session).await?.len() == 1);
    Ok(())
}

pub(crate) async fn a_prompt_outlives_a_killed_server(
    mut setup: ServerWithAgent,
    library: Library,
) -> Result<()> {
    let (mut editor, session) = setup.opened(library).await?;
    let prompt = editor.begin("prompt", prompted(&session, setup.writes("new", "one\n"))).await?;
    let question = editor.question(0).await?;
    setup.server.kill_9()?;
    editor
        .update("agent_thought_chunk", |it| {
            it["content"]["text"].as_str().is_some_and(|text| text.contains("server is away"))
        })
        .await?;
    // No server is there to take the answer; `plexus acp` keeps it.
    editor.answer(&question, "allow_once").await?;
    setup.server.start_again().await?;
    ensure!(stop_reason(&mut editor, prompt).await? == "end_turn");
    ensure!(setup.text_of("new").as_deref() == Some("one\n"));
    let said = editor.text("agent_message_chunk");
    ensure!(said.matches("I will write.").count() == 1, "{said}");
    ensure!(said.ends_with("All is done."), "{said}");
    let decisions = setup.decisions(&session).await?;
    ensure!(decisions.len() == 1 && decisions[0]["status"] == "allowed", "{decisions:#?}");
    // The next prompt goes to the server that came back.
    let prompt = editor.begin("prompt", prompted(&session, setup.says("Still here."))).await?;
    ensure!(stop_reason(&mut editor, prompt).await? == "end_turn");
    Ok(())
}

pub(crate) async fn a_question_of_a_session_below_is_a_dialog_too(
    setup: ServerWithAgent,
    library: Library,
) -> Result<()> {
    let (mut editor, session) = setup.opened(library).await?;
    // A chat that goes on: it waits for its own question meanwhile.
    let prompt = editor.begin("prompt", prompted(&session, setup.writes("own", "own\n"))).await?;
    let own = editor.question(0).await?;
    let below = setup.below(&session).await?;
    for (number, name) in [(1, "first"), (2, "second")] {
        let params = json!({"session_id": below, "prompt": setup.writes(name, "below\n")});
        setup.server.call("agents.chat_async", params).await?;
        let question = editor.question(number).await?;
        let call = &question["toolCall"];
        ensure!(call["title"].as_str().is_some_and(|it| it.starts_with("below: ")), "{call:#}");
        ensure!(call["content"][0]["newText"] == "below\n", "{call:#}");
        ensure!(setup.text_of(name).is_none(), "it ran before anybody was asked");
        if name == "first" {
            editor.answer(&question, "allow_once").await?;
        } else {
            setup.decide_in(&below, false).await?;
            editor.withdrawn(number).await?;
            // An answer to a withdrawn question decides nothing.
            editor.answer(&question, "allow_once").await?;
        }
        let id = call["toolCallId"].clone();
        editor
            .update("tool_call_update", |it| it["toolCallId"] == id && it["status"] == "completed")
            .await?;
        setup.status(&below, "complete").await?;
    }
    ensure!(setup.text_of("first").as_deref() == Some("below\n"));
    ensure!(setup.text_of("second").is_none(), "an answer to a withdrawn question decided");
    editor.answer(&own, "allow_once").await?;
    ensure!(stop_reason(&mut editor, prompt).await? == "end_turn");
    ensure!(setup.text_of("own").as_deref() == Some("own\n"));
    Ok(())
}

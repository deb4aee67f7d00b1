//! Permission through the control channel.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use claude_code::RawJson;
use claude_code::control::PermissionAnswer;
use claude_code::event::control::{ControlOutcome, ControlRequestBody, EchoedDecision};
use claude_code::event::message::ToolResultMeta;
use serde_json::json;
use testkit::messages_api::{Step, prompt};

use crate::child::{Child, api_and_sandbox};

/// Makes the CLI also ask about tools that it considers harmless.
const ASK_ALWAYS: [&str; 2] = ["--settings", r#"{"permissions":{"ask":["Bash","Read"]}}"#];

fn deny(message: &str) -> PermissionAnswer {
    PermissionAnswer::deny(message)
}

/// Returns decision and source of a tool result as the CLI reports them.
fn decided(meta: &ToolResultMeta) -> (String, String) {
    let decision = meta.permission_decision.clone().unwrap_or_default();
    (decision.decision.unwrap_or_default().into(), decision.source.unwrap_or_default().into())
}

fn pair(decision: &str, source: &str) -> (String, String) {
    (decision.to_owned(), source.to_owned())
}

pub(crate) async fn an_allowed_tool_runs_and_its_answer_is_echoed(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[
        Step::text("I will.").and_bash("touch made && echo RAN-OK"),
        Step::text("done"),
    ]))?;
    let (request, before) = child.permission_after().await?;
    assert_eq!(request.tool.tool_name, "Bash");
    assert!(request.tool.permission_suggestions.is_some(), "the CLI suggests rules");
    assert!(before.order.ends_with(&["state:requires_action".to_owned(), "permission".to_owned()]));
    assert!(!sandbox.work().join("made").exists(), "it must wait for the answer");

    let (id, answer) = (request.request_id.to_string(), request.allow());
    let input = request.tool.input.clone();
    child.channel.answer(request, &answer)?;
    let seen = child.until_idle().await?;
    assert_eq!(
        seen.delivered_answers,
        [(id, Some(EchoedDecision::Allow { updated_input: Some(input) }))]
    );
    assert!(sandbox.work().join("made").exists());
    assert_eq!(seen.tool_results[0].0, "RAN-OK");
    assert_eq!(decided(&seen.tool_results[0].1), pair("accept", "user_temporary"));
    assert_eq!(seen.texts, ["done"]);
    assert!(!seen.only_result()?.failed());
    assert_eq!(api.tool_results()[0].text, "RAN-OK", "the model reads the same");
    let unknown: Vec<_> = before.unknown.iter().chain(&seen.unknown).collect();
    assert!(unknown.is_empty(), "every line of the tested version has a type: {unknown:#?}");
    ensure!(child.close().await?.0.success());
    Ok(())
}

pub(crate) async fn a_denied_tool_does_not_run_and_the_model_reads_why(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch made"), Step::text("understood")]))?;
    let request = child.permission().await?;
    child.channel.answer(request, &deny("not today, because \"tests\"\nhave two lines"))?;
    let seen = child.until_idle().await?;
    assert!(!sandbox.work().join("made").exists());
    assert_eq!(seen.tool_results[0].0, "not today, because \"tests\"\nhave two lines");
    assert_eq!(decided(&seen.tool_results[0].1), pair("reject", "user_reject"));
    assert_eq!(seen.only_result()?.permission_denials.len(), 1);
    assert_eq!(seen.texts, ["understood"], "the turn goes on");
    let told = &api.tool_results()[0];
    assert!(told.is_error && told.text.starts_with("not today"), "{told:?}");
    Ok(())
}

pub(crate) async fn an_edited_input_is_what_runs(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch original"), Step::text("done")]))?;
    let (request, before) = child.permission_after().await?;
    let edited = RawJson::from_value(&json!({"command": "touch edited", "description": "edited"}))?;
    let answer = request.allow_with(edited);
    child.channel.answer(request, &answer)?;
    let seen = child.until_idle().await?;
    assert!(sandbox.work().join("edited").exists());
    assert!(!sandbox.work().join("original").exists());
    assert_eq!(
        before.tool_uses[0].1["command"], "touch original",
        "the stream still shows what the model wanted"
    );
    assert_eq!(decided(&seen.tool_results[0].1), pair("accept", "user_temporary"));
    Ok(())
}

pub(crate) async fn parallel_commands_ask_one_after_the_other(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[
        Step::bash("touch first").and_bash("touch second"),
        Step::text("done"),
    ]))?;
    let request = child.permission().await?;
    child.channel.answer(request, &deny("only the second"))?;
    let (request, between) = child.permission_after().await?;
    assert_eq!(between.delivered_answers.len(), 1, "the second request waits for the first answer");
    let answer = request.allow();
    child.channel.answer(request, &answer)?;
    let seen = child.until_idle().await?;
    assert!(!sandbox.work().join("first").exists());
    assert!(sandbox.work().join("second").exists());
    assert_eq!(seen.only_result()?.permission_denials.len(), 1);
    Ok(())
}

pub(crate) async fn parallel_reads_ask_at_the_same_time_and_take_answers_in_any_order(
    cli: PathBuf,
) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let (one, two) = (sandbox.work().join("one"), sandbox.work().join("two"));
    std::fs::write(&one, "content one")?;
    std::fs::write(&two, "content two")?;
    let mut child = Child::start(&cli, &sandbox, &ASK_ALWAYS)?;
    let step =
        Step::tool("Read", json!({"file_path": one})).and_tool("Read", json!({"file_path": two}));
    child.prompt(&prompt(&[step, Step::text("done")]))?;
    let first = child.permission().await?;
    let second = child.permission().await?;
    assert_ne!(first.request_id, second.request_id);
    let allow = second.allow();
    child.channel.answer(second, &allow)?;
    child.channel.answer(first, &deny("not this one"))?;
    let seen = child.until_idle().await?;
    assert_eq!(seen.delivered_answers.len(), 2);
    let mut told: Vec<_> =
        api.tool_results().into_iter().map(|result| (result.is_error, result.text)).collect();
    told.sort();
    assert!(told[0].1.contains("content two"), "{told:?}");
    assert_eq!(told[1], (true, "not this one".to_owned()));
    Ok(())
}

pub(crate) async fn the_first_answer_stands(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[
        Step::bash("touch denied"),
        Step::bash("touch allowed"),
        Step::text("done"),
    ]))?;
    let request = child.permission().await?;
    let (again, late) = (request.clone(), request.allow());
    child.channel.answer(request, &deny("no"))?;
    child.channel.answer(again.clone(), &deny("no"))?;
    child.channel.answer(again, &late)?;
    // An answer to a request that was never sent does no harm either.
    child.channel.send(claude_code::control::answer_permission("never-asked", &late))?;
    let (request, between) = child.permission_after().await?;
    assert_eq!(between.delivered_answers.len(), 1, "only the answer that stands is echoed");
    let (again, allow) = (request.clone(), request.allow());
    child.channel.answer(request, &allow)?;
    child.channel.answer(again, &deny("too late"))?;
    let seen = child.until_idle().await?;
    assert!(!sandbox.work().join("denied").exists());
    assert!(sandbox.work().join("allowed").exists());
    assert_eq!(seen.delivered_answers.len(), 1);
    Ok(())
}

pub(crate) async fn an_error_for_an_answer_is_a_denial(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch made"), Step::text("done")]))?;
    let request = child.permission().await?;
    child.channel.answer_error(&request.request_id, "we are broken")?;
    request.forget();
    let seen = child.until_idle().await?;
    assert!(!sandbox.work().join("made").exists());
    assert!(seen.tool_results[0].0.contains("we are broken"), "{:?}", seen.tool_results);
    assert_eq!(decided(&seen.tool_results[0].1), pair("reject", "config"));
    assert_eq!(seen.delivered_answers, [], "an error is not echoed");
    Ok(())
}

pub(crate) async fn the_result_of_a_call_that_did_not_ask_says_so(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let file = sandbox.work().join("file");
    std::fs::write(&file, "content")?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    let read = Step::tool("Read", json!({"file_path": file}));
    child.prompt(&prompt(&[read, Step::bash("ls"), Step::text("done")]))?;
    let seen = child.until_idle().await?;
    let sources: Vec<_> = seen.tool_results.iter().map(|(_, meta)| decided(meta)).collect();
    assert_eq!(sources, [pair("accept", "config"), pair("accept", "config")]);
    Ok(())
}

pub(crate) async fn hooks_of_the_repository_do_not_answer_for_us(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let allow =
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#;
    let hook = json!([{"hooks": [{"type": "command", "command": format!("touch hook-ran; echo '{allow}'")}]}]);
    let settings =
        json!({"hooks": {"PreToolUse": hook, "PermissionRequest": hook, "SessionStart": hook}});
    std::fs::create_dir(sandbox.work().join(".claude"))?;
    std::fs::write(sandbox.work().join(".claude/settings.json"), settings.to_string())?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch made"), Step::text("done")]))?;
    let request = child.permission().await.context("the hook has answered")?;
    child.channel.answer(request, &deny("no"))?;
    let seen = child.until_idle().await?;
    assert!(!sandbox.work().join("made").exists() && !sandbox.work().join("hook-ran").exists());
    assert_eq!(seen.cancelled, Vec::<String>::new());
    Ok(())
}

pub(crate) async fn plan_mode_does_not_take_the_decision_away_from_us(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    // A model may enter plan mode without permission. Without this setting, somebody other than us
    // then judges its tool calls.
    let settings = r#"{"permissions":{"disableAutoMode":"disable"}}"#;
    let mut child = Child::start(&cli, &sandbox, &["--settings", settings])?;
    let script =
        [Step::tool("EnterPlanMode", json!({})), Step::bash("touch made"), Step::text("done")];
    child.prompt(&prompt(&script))?;
    let request = child.permission().await.context("nobody asked us")?;
    assert_eq!(request.tool.tool_name, "Bash");
    child.channel.answer(request, &deny("no"))?;
    child.until_idle().await?;
    assert!(!sandbox.work().join("made").exists());
    Ok(())
}

pub(crate) async fn a_tool_taken_away_is_neither_offered_nor_run(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &["--disallowedTools", "EnterPlanMode"])?;
    child.prompt(&prompt(&[
        Step::tool("EnterPlanMode", json!({})),
        Step::bash("touch made"),
        Step::text("done"),
    ]))?;
    let (request, before) = child.permission_after().await.context("nobody asked us")?;
    assert!(
        !before.order.contains(&"status".to_owned()),
        "the mode has changed: {:?}",
        before.order
    );
    assert!(!api.main_requests()[0].tool_names().contains(&"EnterPlanMode"));
    child.channel.answer(request, &deny("no"))?;
    child.until_idle().await?;
    Ok(())
}

pub(crate) async fn a_subagent_asks_on_the_same_channel(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    let inner = prompt(&[Step::bash("touch made"), Step::text("the subagent is done")]);
    let task =
        json!({"description": "a task", "prompt": inner, "subagent_type": "general-purpose"});
    child.prompt(&prompt(&[
        Step::tool("Task", task),
        Step::text("started it"),
        Step::text("heard of it"),
    ]))?;
    let request = child.permission().await?;
    assert!(request.tool.agent_id.is_some(), "{:?}", request.tool);
    let allow = request.allow();
    child.channel.answer(request, &allow)?;
    let seen = child.until_idle().await?;
    assert!(sandbox.work().join("made").exists());
    assert_eq!(
        seen.results.len(),
        2,
        "the turn of the notification comes before idle: {:?}",
        seen.order
    );
    assert_eq!(seen.tasks.last().map(Vec::len), Some(0));
    Ok(())
}

pub(crate) async fn a_question_is_answered_through_its_input(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    let options =
        json!([{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]);
    let question =
        json!({"question": "Which?", "header": "Colour", "options": options, "multiSelect": false});
    child.prompt(&prompt(&[
        Step::tool("AskUserQuestion", json!({"questions": [question]})),
        Step::text("done"),
    ]))?;
    let request = child.permission().await?;
    let mut input = request.tool.input.to_value()?;
    input["answers"] = json!({"Which?": "Blue"});
    let answer = request.allow_with(RawJson::from_value(&input)?);
    child.channel.answer(request, &answer)?;
    child.until_idle().await?;
    let told = &api.tool_results()[0].text;
    assert!(told.contains("Blue"), "{told}");
    Ok(())
}

pub(crate) async fn initialize_lists_what_is_open(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch made"), Step::text("done")]))?;
    let request = child.permission().await?;
    let asked = child.channel.initialize()?;
    let seen = child.until("the answer to initialize", |seen| !seen.answered.is_empty()).await?;
    let answer = &seen.answered[0];
    assert_eq!(answer.request_id, asked.as_str());
    let ControlOutcome::Success(success) = &answer.outcome else {
        anyhow::bail!("refused: {answer:?}")
    };
    let described = success.initialize.as_ref().context("no description")?;
    assert_eq!(described.session_state.as_deref(), Some("requires_action"));
    assert!(described.claude_code_version.is_some() && described.pid.is_some());
    let open = answer.pending_permission_requests.as_deref().context("no list of open requests")?;
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].request_id, request.request_id);
    let ControlRequestBody::CanUseTool(tool) = &open[0].request else {
        anyhow::bail!("odd request {open:?}")
    };
    assert_eq!(**tool, request.tool, "the open request is whole");

    let allow = request.allow();
    child.channel.answer(request, &allow)?;
    child.until_idle().await?;
    child.channel.initialize()?;
    let seen =
        child.until("the second answer to initialize", |seen| !seen.answered.is_empty()).await?;
    assert_eq!(
        seen.answered[0].pending_permission_requests.as_deref(),
        Some(&[][..]),
        "answered is no longer open"
    );
    Ok(())
}

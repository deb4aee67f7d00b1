//! Prompts, steering, interrupts, resuming and ending on the control channel.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use claude_code::event::control::ControlOutcome;
use rustix::process::Signal;
use serde_json::json;
use testkit::messages_api::{Failure, Step, prompt};

use crate::child::{Child, api_and_sandbox};

/// A command that runs until it is killed; the CLI refuses a plain long `sleep`.
const ENDLESS: &str = "touch running; while ! test -e stop; do sleep 0.1; done";

pub(crate) async fn a_second_prompt_goes_to_the_same_process(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    let first = child.prompt(&prompt(&[Step::text("one")]))?;
    let one = child.until_idle().await?;
    let second = child.prompt(&prompt(&[Step::text("two")]))?;
    let two = child.until_idle().await?;
    assert_eq!(
        (one.texts.as_slice(), two.texts.as_slice()),
        (&["one".to_owned()][..], &["two".to_owned()][..])
    );
    assert_eq!(one.sessions, two.sessions);
    assert_eq!(
        one.only_result()?.user_message_uuids,
        [first.as_str()],
        "a result names its prompt"
    );
    assert_eq!(two.only_result()?.user_message_uuids, [second.as_str()]);
    assert!(
        api.main_requests().last().context("no request")?.messages().len() >= 3,
        "the second remembers the first"
    );
    ensure!(child.close().await?.0.success());
    Ok(())
}

pub(crate) async fn a_prompt_under_the_same_uuid_runs_once(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let text = prompt(&[Step::text("once")]);
    let uuid = uuid::Uuid::new_v4().to_string();
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.channel.prompt_as(&uuid, &text)?;
    let session = child.until_idle().await?.sessions.remove(0);
    child.channel.prompt_as(&uuid, &text)?;
    let again = child
        .until("the echo of the repeated prompt", |seen| !seen.delivered_prompts.is_empty())
        .await?;
    assert_eq!(again.delivered_prompts, [uuid.as_str()]);
    ensure!(child.close().await?.0.success());

    let mut child = Child::start(&cli, &sandbox, &["--resume", &session])?;
    child.channel.prompt_as(&uuid, &text)?;
    let resumed = child.until_idle().await?;
    assert_eq!(
        resumed.delivered_prompts,
        [uuid.as_str()],
        "a new process knows the prompt from the transcript"
    );
    assert_eq!(resumed.results.len(), 0);
    ensure!(child.close().await?.0.success());
    assert_eq!(api.main_requests().len(), 1);
    Ok(())
}

pub(crate) async fn idle_is_the_last_line_of_a_prompt(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    // The answer is slow, so that the echo, which comes with the first whole block, must come after
    // the answer has begun.
    child.prompt(&prompt(&[Step::text("a slow answer").slowly(3, 50)]))?;
    let seen = child.until_idle().await?;
    let expected = [
        "state:running",
        "lifecycle:queued",
        "lifecycle:started",
        "init",
        "prompt",
        "assistant",
        "result",
        "lifecycle:completed",
        "state:idle",
    ];
    assert_eq!(seen.order, expected);
    let (status, after) = child.close().await?;
    assert!(status.success() && after.order.is_empty(), "{after:#?}");
    Ok(())
}

pub(crate) async fn a_prompt_in_a_running_turn_is_folded_into_it(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    let first = child.prompt(&prompt(&[Step::bash("touch made"), Step::text("both done")]))?;
    let request = child.permission().await?;
    let steering = child.prompt("and please mind the gap")?;
    child
        .until("the queueing of the second prompt", |seen| {
            seen.position("lifecycle:queued").is_ok()
        })
        .await?;
    let allow = request.allow();
    child.channel.answer(request, &allow)?;
    let seen = child.until_idle().await?;
    assert_eq!(seen.only_result()?.user_message_uuids, [first.as_str(), steering.as_str()]);
    assert_eq!(seen.delivered_prompts, [steering.as_str()]);
    let last = api.main_requests().pop().context("no request")?;
    assert!(
        last.texts_to_model().iter().any(|text| text.contains("mind the gap")),
        "{:#?}",
        last.texts_to_model()
    );
    Ok(())
}

pub(crate) async fn an_interrupt_in_a_permission_voids_it_and_the_process_lives_on(
    cli: PathBuf,
) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch made"), Step::text("never said")]))?;
    let request = child.permission().await?;
    let asked = child.channel.interrupt()?;
    let seen = child.until_idle().await?;
    assert_eq!(seen.cancelled, [request.request_id.as_str()]);
    assert_eq!(seen.answered[0].request_id, asked.as_str());
    let ControlOutcome::Success(success) = &seen.answered[0].outcome else {
        anyhow::bail!("{seen:#?}")
    };
    assert!(success.interrupt.still_queued.is_empty());
    let result = seen.only_result()?;
    assert_eq!((result.subtype.as_str(), result.failed()), ("error_during_execution", true));
    seen.position("lifecycle:cancelled")?;

    let late = request.allow();
    child.channel.answer(request, &late)?;
    child.prompt(&prompt(&[Step::text("alive")]))?;
    let next = child.until_idle().await?;
    assert_eq!(next.texts, ["alive"]);
    assert_eq!(next.delivered_answers, [], "an answer after the cancel is ignored");
    assert!(!sandbox.work().join("made").exists());
    ensure!(child.close().await?.0.success());
    Ok(())
}

pub(crate) async fn an_interrupt_ends_a_running_tool(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash(ENDLESS), Step::text("never said")]))?;
    let request = child.permission().await?;
    let allow = request.allow();
    child.channel.answer(request, &allow)?;
    child.until("the echo of the answer", |seen| !seen.delivered_answers.is_empty()).await?;
    let started = sandbox.work().join("running");
    testkit::eventually_async("the running tool", testkit::wait::PATIENCE, || {
        std::future::ready(started.exists().then_some(()))
    })
    .await;
    child.channel.interrupt()?;
    let seen = child.until_idle().await?;
    assert_eq!(seen.only_result()?.terminal_reason.as_deref(), Some("aborted_tools"));
    let meta = &seen.tool_results[0].1;
    assert_eq!(
        meta.non_execution_kind.as_deref(),
        Some("user-rejected"),
        "also for a tool that was running"
    );
    assert!(meta.permission_decision.is_none());
    let (status, _) = child.close().await?;
    assert_eq!(status.code(), Some(1), "the exit code is that of the last turn");
    testkit::process::assert_none_marked(sandbox.marker(), testkit::wait::PATIENCE);
    Ok(())
}

pub(crate) async fn an_interrupt_keeps_what_was_said(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &["--include-partial-messages"])?;
    child
        .prompt(&prompt(&[Step::text("one two three four five six seven eight").slowly(4, 150)]))?;
    child.until("the first words", |seen| seen.deltas.len() >= 2).await?;
    child.channel.interrupt()?;
    let seen = child.until_idle().await?;
    assert!(seen.texts[0].starts_with("one two"), "{:?}", seen.texts);
    assert!(!seen.texts[0].ends_with("eight"), "{:?}", seen.texts);
    assert_eq!(seen.only_result()?.terminal_reason.as_deref(), Some("aborted_streaming"));
    Ok(())
}

pub(crate) async fn end_of_file_denies_what_is_open_and_lets_the_turn_finish(
    cli: PathBuf,
) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch made"), Step::text("the last word")]))?;
    child.permission().await?.forget();
    let (status, seen) = child.close().await?;
    assert!(status.success());
    assert!(!sandbox.work().join("made").exists());
    assert_eq!(seen.only_result()?.permission_denials.len(), 1);
    assert_eq!(seen.texts, ["the last word"]);
    Ok(())
}

pub(crate) async fn partial_messages_add_up_to_the_whole(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &["--include-partial-messages"])?;
    let text = "Ein größerer Satz, in kleinen Stücken.";
    child.prompt(&prompt(&[Step::text(text).thinking("let me see").slowly(2, 1)]))?;
    let seen = child.until_idle().await?;
    assert_eq!(seen.deltas.concat(), text);
    assert!(seen.deltas.len() > 5, "{:?}", seen.deltas);
    assert_eq!(seen.texts, [text]);
    Ok(())
}

pub(crate) async fn a_resumed_session_remembers_and_a_fork_is_another_one(
    cli: PathBuf,
) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::text("the first answer")]))?;
    let session = child.until_idle().await?.sessions.remove(0);
    ensure!(child.close().await?.0.success());

    let mut child = Child::start(&cli, &sandbox, &["--resume", &session])?;
    child.prompt(&prompt(&[Step::text("the second answer")]))?;
    assert_eq!(child.until_idle().await?.sessions, [session.as_str()]);
    ensure!(child.close().await?.0.success());

    let mut child = Child::start(&cli, &sandbox, &["--resume", &session, "--fork-session"])?;
    child.prompt(&prompt(&[Step::text("the third answer")]))?;
    assert_ne!(child.until_idle().await?.sessions, [session.as_str()]);
    ensure!(child.close().await?.0.success());
    let last = api.main_requests().pop().context("no request")?;
    let said = last.messages().iter().filter(|message| message["role"] == "assistant").count();
    assert_eq!(said, 2, "the fork remembers both answers");
    Ok(())
}

pub(crate) async fn an_unknown_session_is_an_error_result(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let unknown = uuid::Uuid::new_v4().to_string();
    let mut child = Child::start(&cli, &sandbox, &["--resume", &unknown])?;
    child.prompt("anybody there?")?;
    let (status, seen) = child.ended().await?;
    assert_eq!(status.code(), Some(1));
    let result = seen.only_result()?;
    assert_eq!(result.subtype, "error_during_execution");
    assert!(result.errors[0].contains(&unknown), "{:?}", result.errors);
    assert_eq!(api.requests().len(), 0);
    Ok(())
}

pub(crate) async fn max_turns_ends_the_turn_and_not_the_process(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &["--max-turns", "1"])?;
    child.prompt(&prompt(&[Step::bash("ls"), Step::text("never said")]))?;
    let seen = child.until_idle().await?;
    let result = seen.only_result()?;
    assert_eq!((result.subtype.as_str(), result.failed()), ("error_max_turns", true));
    child.prompt(&prompt(&[Step::text("a new count")]))?;
    assert_eq!(child.until_idle().await?.texts, ["a new count"]);
    ensure!(child.close().await?.0.success());
    Ok(())
}

pub(crate) async fn an_api_error_ends_the_turn_and_not_the_process(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::default().failing(Failure::Status(400))]))?;
    let seen = child.until_idle().await?;
    let result = seen.only_result()?;
    assert_eq!(
        (result.subtype.as_str(), result.is_error, result.failed()),
        ("success", true, true)
    );
    assert_eq!(
        (result.terminal_reason.as_deref(), result.api_error_status),
        (Some("api_error"), Some(400))
    );
    seen.position("lifecycle:cancelled").context("an API error ends a prompt as cancelled")?;
    child.prompt(&prompt(&[Step::text("better")]))?;
    assert_eq!(child.until_idle().await?.texts, ["better"]);
    ensure!(child.close().await?.0.success());
    Ok(())
}

pub(crate) async fn sigint_in_a_permission_exits_0_and_runs_nothing(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch made"), Step::text("never said")]))?;
    let request = child.permission().await?;
    child.signal(Signal::INT)?;
    let (status, seen) = child.ended().await?;
    assert_eq!(status.code(), Some(0), "SIGINT looks like success");
    // Usually the CLI cancels the request and reports a failed result; on a busy machine it may
    // exit before it has done so.
    assert!(
        seen.cancelled.iter().all(|cancelled| *cancelled == request.request_id.as_str()),
        "{seen:#?}"
    );
    assert!(
        seen.results.len() <= 1 && seen.results.iter().all(|result| result.failed()),
        "{seen:#?}"
    );
    request.forget();
    assert!(!sandbox.work().join("made").exists());
    Ok(())
}

pub(crate) async fn sigterm_in_a_permission_says_nothing(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    child.prompt(&prompt(&[Step::bash("touch made"), Step::text("never said")]))?;
    child.permission().await?.forget();
    child.signal(Signal::TERM)?;
    let (status, seen) = child.ended().await?;
    assert_eq!(status.code(), Some(143));
    assert_eq!(seen.results.len(), 0);
    assert!(!sandbox.work().join("made").exists());
    Ok(())
}

pub(crate) async fn a_large_prompt_reaches_the_model_whole(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    let large = format!("{}{}", prompt(&[Step::text("read it")]), "x".repeat(1024 * 1024));
    child.prompt(&large)?;
    assert_eq!(child.until_idle().await?.texts, ["read it"]);
    let request = api.main_requests().pop().context("no request")?;
    assert!(request.texts_to_model().contains(&large.as_str()));
    Ok(())
}

pub(crate) async fn a_huge_prompt_is_taken_whole_and_refused_by_the_cli_itself(
    cli: PathBuf,
) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    // No model accepts a prompt this long, as the CLI finds out by itself. The line must get
    // through all the same, and be echoed whole.
    let huge = child.prompt(&"y".repeat(10 * 1024 * 1024))?;
    let seen = child.until_idle().await?;
    assert_eq!(seen.delivered_prompts, [huge.as_str()]);
    let result = seen.only_result()?;
    assert!(result.failed());
    assert_eq!(result.terminal_reason.as_deref(), Some("blocking_limit"));
    assert_eq!(api.main_requests().len(), 0);
    Ok(())
}

pub(crate) async fn stop_task_ends_a_background_task(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    let input = json!({"command": ENDLESS, "description": "endless", "run_in_background": true});
    child.prompt(&prompt(&[Step::tool("Bash", input), Step::text("started it")]))?;
    let request = child.permission().await?;
    let allow = request.allow();
    child.channel.answer(request, &allow)?;
    let seen = child.until_idle().await?;
    let task =
        seen.tasks.last().and_then(|open| open.first()).context("no task is open at idle")?.clone();

    let fields = serde_json::Map::from_iter([("task_id".to_owned(), json!(task))]);
    child.channel.request(|id| claude_code::control::control_request(id, "stop_task", fields))?;
    let stopped = child.until("the answer to stop_task", |seen| !seen.answered.is_empty()).await?;
    assert_eq!(stopped.tasks.last().map(Vec::len), Some(0), "{stopped:#?}");
    let (status, after) = child.close().await?;
    assert!(status.success());
    assert_eq!(after.results.len(), 0, "a stopped task starts no turn of its own");
    testkit::process::assert_none_marked(sandbox.marker(), testkit::wait::PATIENCE);
    Ok(())
}

pub(crate) async fn end_of_file_waits_for_a_background_task(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let mut child = Child::start(&cli, &sandbox, &[])?;
    let input = json!({"command": ENDLESS, "description": "endless", "run_in_background": true});
    child.prompt(&prompt(&[
        Step::tool("Bash", input),
        Step::text("started it"),
        Step::text("it has ended"),
    ]))?;
    let request = child.permission().await?;
    let allow = request.allow();
    child.channel.answer(request, &allow)?;
    child.until_idle().await?;
    child.channel.close();
    child.channel.flush().await?;
    std::fs::write(sandbox.work().join("stop"), "")?;
    let (status, seen) = child.ended().await?;
    assert!(status.success());
    assert_eq!(seen.texts, ["it has ended"], "the turn that the task starts is still played");
    let origin = seen.only_result()?.origin.clone().unwrap_or_default();
    assert_eq!(origin.kind.as_deref(), Some("task-notification"));
    Ok(())
}

//! One-shot runs: text, partial messages, resume, fork, limits, errors, signals.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use claude_code::event::system::SystemEvent;
use claude_code::{
    ClaudeClient, ClaudePrintRequest, Environment, EventBody, OLDEST_SUPPORTED_VERSION,
    probe_version,
};
use futures::StreamExt as _;
use rustix::process::Signal;
use testkit::messages_api::{Failure, Step, prompt};
use testkit::real_claude::Sandbox;
use testkit::wait::{PATIENCE, within};

use crate::child::{Seen, api_and_sandbox};

/// A command that runs until it is killed; the CLI refuses a plain long `sleep`.
const ENDLESS: &str = "touch running; while ! test -e stop; do sleep 0.1; done";

/// Lets Bash run without permission, for cases that are not about permission.
const ALLOW_BASH: &str = r#"{"permissions":{"allow":["Bash"]}}"#;

pub(crate) fn client(cli: &Path, sandbox: &Sandbox) -> ClaudeClient {
    let mut builder = ClaudeClient::builder()
        .binary(cli)
        .environment(Environment::Clear)
        .working_dir(sandbox.work())
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        .timeout(Duration::from_secs(180))
        // A CLI that is asked to end says by its exit code that it was not killed.
        .termination_grace(Duration::from_secs(120));
    for (name, value) in sandbox.env() {
        builder = builder.env(name, value);
    }
    builder.build()
}

pub(crate) fn request(prompt: impl Into<String>) -> ClaudePrintRequest {
    ClaudePrintRequest::new(prompt).strict_mcp_config(true).setting_sources("user")
}

/// Sends a signal to the CLI of a sandbox. It is the only process whose first argument is the path
/// of the program.
pub(crate) fn signal(cli: &Path, sandbox: &Sandbox, signal: Signal) -> Result<()> {
    let path = cli.display().to_string();
    let marked = testkit::process::marked(sandbox.marker())?;
    let found = marked
        .iter()
        .find(|process| process.command.starts_with(&path))
        .context("no CLI of this sandbox")?;
    testkit::process::signal(found.pid, signal);
    Ok(())
}

async fn wait_for_file(path: PathBuf) {
    let what = format!("the file {}", path.display());
    testkit::eventually_async(&what, PATIENCE, || std::future::ready(path.exists().then_some(())))
        .await;
}

pub(crate) async fn the_installed_version_is_supported(cli: PathBuf) -> Result<()> {
    let probed = probe_version(&cli).await?;
    assert!(probed.version >= OLDEST_SUPPORTED_VERSION, "{probed:?}");
    Ok(())
}

pub(crate) async fn a_plain_answer_is_init_assistant_result(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let output = client(&cli, &sandbox).print(request(prompt(&[Step::text("hello")]))).await?;
    let seen = Seen::of(&output)?;
    assert_eq!(seen.order, ["init", "assistant", "result"]);
    assert_eq!(seen.texts, ["hello"]);
    let result = seen.only_result()?;
    assert_eq!(
        (result.subtype.as_str(), result.failed(), result.result.as_deref()),
        ("success", false, Some("hello"))
    );
    assert!(result.total_cost_usd.is_some() && result.usage.is_some());
    assert!(output.status.success());
    assert_eq!(seen.unknown, Vec::<String>::new());
    let key = &api.main_requests()[0].headers["x-api-key"];
    assert!(key.contains("dummy"), "a real key must never be here");
    Ok(())
}

pub(crate) async fn the_first_event_comes_before_the_exit_and_the_completion_last(
    cli: PathBuf,
) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let script = prompt(&[Step::default().failing(Failure::Hang)]);
    let mut handle = client(&cli, &sandbox).print_stream_json(request(script)).await?;
    let first =
        within("the first event", PATIENCE, handle.events.next()).await.context("no event")??;
    assert!(matches!(first.body, EventBody::System(SystemEvent::Init(_))), "{first:?}");
    // The answer never ends, so the child cannot have exited.
    assert!(!testkit::process::marked(sandbox.marker())?.is_empty());
    handle.termination().terminate();
    while within("the end of the events", PATIENCE, handle.events.next()).await.is_some() {}
    let status = within("the completion", PATIENCE, handle.completion).await?;
    assert_eq!(status.code(), Some(143));
    assert!(
        testkit::process::marked(sandbox.marker())?.is_empty(),
        "the completion comes when the child is gone"
    );
    Ok(())
}

pub(crate) async fn partial_messages_add_up_to_the_whole(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let text = "many small pieces make one sentence";
    let script = prompt(&[Step::text(text).thinking("hm").slowly(3, 1)]);
    let output =
        client(&cli, &sandbox).print(request(script).include_partial_messages(true)).await?;
    let seen = Seen::of(&output)?;
    assert!(seen.deltas.len() > 5);
    assert_eq!(seen.deltas.concat(), text);
    assert_eq!(seen.texts, [text], "the whole text comes once more, as a message");
    Ok(())
}

pub(crate) async fn an_unknown_model_is_the_apis_to_refuse(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let script = prompt(&[Step::text("fine by me")]);
    let output = client(&cli, &sandbox).print(request(script).model("no such model")).await?;
    assert!(output.status.success());
    assert_eq!(api.main_requests()[0].model(), "no such model");
    Ok(())
}

pub(crate) async fn a_tool_that_nobody_can_allow_is_denied(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let script = prompt(&[Step::bash("touch made"), Step::text("so be it")]);
    let output = client(&cli, &sandbox).print(request(script)).await?;
    let seen = Seen::of(&output)?;
    assert!(!sandbox.work().join("made").exists());
    assert_eq!(seen.only_result()?.permission_denials.len(), 1);
    assert_eq!(seen.texts, ["so be it"]);
    assert!(output.status.success());
    Ok(())
}

pub(crate) async fn a_resumed_session_remembers_and_a_fork_is_another_one(
    cli: PathBuf,
) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let client = client(&cli, &sandbox);
    let first = Seen::of(&client.print(request(prompt(&[Step::text("one")]))).await?)?;
    let session = first.sessions[0].clone();
    let resume = || request(prompt(&[Step::text("next")])).resume(&session);
    let second = Seen::of(&client.print(resume()).await?)?;
    assert_eq!(second.sessions, [session.as_str()]);
    let third = Seen::of(&client.print(resume().fork_session(true)).await?)?;
    assert_ne!(third.sessions, [session.as_str()]);
    let remembered: Vec<_> = api
        .main_requests()
        .iter()
        .map(|request| {
            request.messages().iter().filter(|message| message["role"] == "assistant").count()
        })
        .collect();
    assert_eq!(remembered, [0, 1, 2]);
    Ok(())
}

pub(crate) async fn an_unknown_session_is_a_failed_result_and_exit_1(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let unknown = uuid::Uuid::new_v4().to_string();
    let output = client(&cli, &sandbox).print(request("hello?").resume(&unknown)).await?;
    let seen = Seen::of(&output)?;
    assert_eq!(seen.order, ["result"]);
    let result = seen.only_result()?;
    assert_eq!((result.subtype.as_str(), result.failed()), ("error_during_execution", true));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr_tail.contains(&unknown), "{:?}", output.stderr_tail);
    assert_eq!(api.requests().len(), 0);
    Ok(())
}

pub(crate) async fn max_turns_is_a_failed_result(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let script = prompt(&[Step::bash("ls"), Step::text("never said")]);
    let output = client(&cli, &sandbox).print(request(script).max_turns(1)).await?;
    let seen = Seen::of(&output)?;
    let result = seen.only_result()?;
    assert_eq!((result.subtype.as_str(), result.failed()), ("error_max_turns", true));
    assert_eq!(output.status.code(), Some(1));
    Ok(())
}

pub(crate) async fn a_refused_request_is_a_failed_result_and_exit_1(cli: PathBuf) -> Result<()> {
    for status in [400, 401, 529] {
        let (_api, sandbox) = api_and_sandbox().await?;
        let script = prompt(&[Step::default().failing(Failure::Status(status))]);
        let output = client(&cli, &sandbox).print(request(script)).await?;
        let seen = Seen::of(&output)?;
        let result = seen.only_result()?;
        assert_eq!(
            (result.subtype.as_str(), result.is_error, result.failed()),
            ("success", true, true),
            "{status}"
        );
        assert_eq!(result.api_error_status, Some(i64::from(status)));
        assert_eq!(output.status.code(), Some(1), "{status}");
    }
    Ok(())
}

pub(crate) async fn a_passing_api_error_is_retried_and_told(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let script = prompt(&[Step::text("at last").failing_first(Failure::Status(500), 1)]);
    let output = client(&cli, &sandbox).print(request(script)).await?;
    let seen = Seen::of(&output)?;
    assert_eq!(seen.order, ["init", "api_retry", "assistant", "result"]);
    assert_eq!(seen.texts, ["at last"]);
    assert_eq!(api.main_requests().len(), 2);
    assert!(output.status.success());
    Ok(())
}

pub(crate) async fn a_cut_stream_is_asked_for_again_in_one_piece(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    // The answer is slow, so that some of it has been read when it breaks.
    let script =
        prompt(&[Step::text("a sentence that breaks").slowly(3, 50).failing(Failure::Cut)]);
    let output = client(&cli, &sandbox).print(request(script)).await?;
    let seen = Seen::of(&output)?;
    assert_eq!(
        seen.texts,
        ["a sentence that breaks"],
        "what came before the cut is not told twice"
    );
    let streamed: Vec<_> =
        api.main_requests().iter().map(|request| request.body["stream"] == true).collect();
    assert_eq!((streamed.first(), streamed.last()), (Some(&true), Some(&false)), "{streamed:?}");
    assert!(!seen.only_result()?.failed() && output.status.success());
    Ok(())
}

pub(crate) async fn sigint_while_streaming_exits_0_with_a_failed_result(
    cli: PathBuf,
) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let script =
        prompt(&[Step::text("one two three four five six").slowly(4, 100).failing(Failure::Hang)]);
    let run = request(script).include_partial_messages(true);
    let mut handle = client(&cli, &sandbox).print_stream_json(run).await?;
    let mut results = Vec::new();
    let mut interrupted = false;
    while let Some(event) = within("the end of the events", PATIENCE, handle.events.next()).await {
        match event?.body {
            EventBody::Stream(_) if !interrupted => {
                signal(&cli, &sandbox, Signal::INT)?;
                interrupted = true;
            }
            EventBody::Result(result) => results.push(result),
            _ => {}
        }
    }
    let status = handle.completion.await?;
    assert_eq!(
        status.code(),
        Some(0),
        "SIGINT looks like success, which is why we ask with SIGTERM"
    );
    ensure!(results.len() == 1 && results[0].failed(), "{results:#?}");
    Ok(())
}

pub(crate) async fn termination_ends_the_running_tool_too(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let script = prompt(&[Step::bash(ENDLESS), Step::text("never said")]);
    let mut handle =
        client(&cli, &sandbox).print_stream_json(request(script).settings(ALLOW_BASH)).await?;
    wait_for_file(sandbox.work().join("running")).await;
    handle.termination().terminate();
    let mut results = 0;
    while let Some(event) = within("the end of the events", PATIENCE, handle.events.next()).await {
        results += usize::from(matches!(event?.body, EventBody::Result(_)));
    }
    assert_eq!((handle.completion.await?.code(), results), (Some(143), 0));
    testkit::process::assert_none_marked(sandbox.marker(), testkit::wait::PATIENCE);
    Ok(())
}

pub(crate) async fn a_dropped_handle_leaves_nothing_behind(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    // The tool ignores polite signals, like a stubborn server.
    let script = prompt(&[
        Step::bash(&format!("trap '' TERM INT HUP; {ENDLESS}")),
        Step::text("never said"),
    ]);
    let handle =
        client(&cli, &sandbox).print_stream_json(request(script).settings(ALLOW_BASH)).await?;
    wait_for_file(sandbox.work().join("running")).await;
    drop(handle);
    let marker = sandbox.marker();
    testkit::eventually_async("the end of the CLI and its tool", PATIENCE, || {
        let left = testkit::process::marked(marker).unwrap_or_default();
        std::future::ready(left.is_empty().then_some(()))
    })
    .await;
    Ok(())
}

pub(crate) async fn a_huge_prompt_goes_in_by_stdin(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let client = client(&cli, &sandbox);
    let large = format!("{}{}", prompt(&[Step::text("read it")]), "x".repeat(1024 * 1024));
    let output = client.print(request(&large)).await?;
    assert_eq!(Seen::of(&output)?.texts, ["read it"]);
    assert!(
        api.main_requests()[0].texts_to_model().iter().any(|text| *text == large),
        "the model has all of it"
    );
    // This is the longest prompt that standard input accepts. The CLI reads it whole, and then
    // finds that no model accepts it.
    let output = client.print(request("y".repeat(10 * 1024 * 1024))).await?;
    let seen = Seen::of(&output)?;
    assert_eq!(seen.only_result()?.terminal_reason.as_deref(), Some("blocking_limit"));
    assert_eq!(output.status.code(), Some(1));
    Ok(())
}

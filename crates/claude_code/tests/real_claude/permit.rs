//! Permission through an MCP tool.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use claude_code::{ClaudePrintOutput, EventBody};
use futures::StreamExt as _;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::messages_api::{Step, prompt};
use testkit::permit_server::{PermitAnswer, PermitServer};
use testkit::real_claude::Sandbox;
use testkit::wait::{PATIENCE, within};

use crate::child::{Seen, api_and_sandbox};
use crate::print::{client, request, signal};

/// Writes the MCP configuration and runs a script whose tools ask `permits` for permission.
async fn run(
    cli: &Path,
    sandbox: &Sandbox,
    permits: &PermitServer,
    script: &[Step],
) -> Result<ClaudePrintOutput> {
    Ok(client(cli, sandbox).print(asking(sandbox, permits, script)?).await?)
}

fn asking(
    sandbox: &Sandbox,
    permits: &PermitServer,
    script: &[Step],
) -> Result<claude_code::ClaudePrintRequest> {
    let config = sandbox.outside("mcp.json");
    std::fs::write(&config, permits.mcp_config().to_string())?;
    let config = config.to_str().context("an odd path")?;
    Ok(request(prompt(script)).mcp_config(config).permission_prompt_tool(permits.tool_name()))
}

pub(crate) async fn an_allowed_tool_runs(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let permits = PermitServer::start(async |call| PermitAnswer::Allow(call.input)).await?;
    let script = [Step::bash("touch made && echo RAN-OK"), Step::text("done")];
    let output = run(&cli, &sandbox, &permits, &script).await?;
    let seen = Seen::of(&output)?;
    assert!(sandbox.work().join("made").exists());
    assert_eq!(seen.tool_results[0].0, "RAN-OK");
    let decision = seen.tool_results[0].1.permission_decision.clone().context("nobody decided")?;
    assert_eq!(decision.source.as_deref(), Some("user_temporary"));
    let calls = permits.calls();
    assert_eq!((calls.len(), calls[0].tool_name.as_str()), (1, "Bash"));
    let keys: Vec<_> = calls[0]
        .arguments
        .as_object()
        .context("no arguments")?
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys, ["input", "tool_name", "tool_use_id"], "nothing in the call tells who asks");
    let requests = api.main_requests();
    assert!(
        !requests[0].tool_names().iter().any(|name| name.contains("permit")),
        "hidden from the model"
    );
    assert!(output.status.success());
    Ok(())
}

pub(crate) async fn a_denied_tool_does_not_run_and_the_model_reads_why(cli: PathBuf) -> Result<()> {
    let (api, sandbox) = api_and_sandbox().await?;
    let permits = PermitServer::start(async |_| PermitAnswer::Deny("not today".to_owned())).await?;
    let output =
        run(&cli, &sandbox, &permits, &[Step::bash("touch made"), Step::text("understood")])
            .await?;
    let seen = Seen::of(&output)?;
    assert!(!sandbox.work().join("made").exists());
    assert_eq!(seen.only_result()?.permission_denials.len(), 1);
    assert_eq!(seen.texts, ["understood"]);
    let told = &api.tool_results()[0];
    assert_eq!((told.text.as_str(), told.is_error), ("not today", true));
    assert!(output.status.success(), "a denial is no failure of the run");
    Ok(())
}

pub(crate) async fn an_edited_input_is_what_runs(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let edited = json!({"command": "touch edited", "description": "edited"});
    let permits =
        PermitServer::start(move |_| std::future::ready(PermitAnswer::Allow(edited.clone())))
            .await?;
    run(&cli, &sandbox, &permits, &[Step::bash("touch original"), Step::text("done")]).await?;
    assert!(sandbox.work().join("edited").exists());
    assert!(!sandbox.work().join("original").exists());
    Ok(())
}

pub(crate) async fn parallel_commands_ask_one_after_the_other(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let first = sandbox.work().join("first");
    let permits = PermitServer::start(move |call| {
        // The second question comes only after the first command has run.
        let is_second = call.input["command"] == "touch second";
        let fine = is_second == first.exists();
        let answer = if fine {
            PermitAnswer::Allow(call.input)
        } else {
            PermitAnswer::Deny("too early".to_owned())
        };
        std::future::ready(answer)
    })
    .await?;
    let script = [Step::bash("touch first").and_bash("touch second"), Step::text("done")];
    run(&cli, &sandbox, &permits, &script).await?;
    assert_eq!(permits.calls().len(), 2);
    assert!(sandbox.work().join("first").exists() && sandbox.work().join("second").exists());
    Ok(())
}

pub(crate) async fn prose_around_the_answer_is_a_denial(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let permits = PermitServer::start(async |call| {
        let allow: Value = json!({"behavior": "allow", "updatedInput": call.input});
        PermitAnswer::Text(format!("Sure: {allow}"))
    })
    .await?;
    let output =
        run(&cli, &sandbox, &permits, &[Step::bash("touch made"), Step::text("done")]).await?;
    assert!(!sandbox.work().join("made").exists());
    assert_eq!(Seen::of(&output)?.only_result()?.permission_denials.len(), 1);
    Ok(())
}

pub(crate) async fn sigint_while_blocked_exits_0_and_runs_nothing(cli: PathBuf) -> Result<()> {
    let (_api, sandbox) = api_and_sandbox().await?;
    let permits = PermitServer::start(async |_| PermitAnswer::Never).await?;
    let script = [Step::bash("touch made"), Step::text("never said")];
    let run = asking(&sandbox, &permits, &script)?;
    let mut handle = client(&cli, &sandbox).print_stream_json(run).await?;
    testkit::eventually_async("the permission call", PATIENCE, || {
        std::future::ready((!permits.calls().is_empty()).then_some(()))
    })
    .await;
    signal(&cli, &sandbox, Signal::INT)?;
    // Usually there is no result at all. Now and then the CLI still reports one, which must be a
    // failure.
    while let Some(event) = within("the end of the events", PATIENCE, handle.events.next()).await {
        if let EventBody::Result(result) = event?.body {
            assert!(result.failed(), "{result:?}");
        }
    }
    assert_eq!(handle.completion.await?.code(), Some(0), "SIGINT looks like success");
    assert!(!sandbox.work().join("made").exists());
    Ok(())
}

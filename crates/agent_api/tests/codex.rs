//! Promises of the `codex` backend alone, with a scripted server: its capabilities, servers that
//! misbehave, and endings in our own words.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = support::stand_in::play_if_asked() {
        return code;
    }
    #[cfg(target_os = "linux")]
    return linux::main();
    #[cfg(not(target_os = "linux"))]
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
mod linux {
    use std::process::ExitCode;

    use agent_api::{
        AgentWrapperBackend, AgentWrapperError, AgentWrapperEventKind,
        backends::codex::{AGENT_KIND, APP_SERVER, CodexBackend, CodexBackendConfig},
        conformance::{Scenario, Subject},
    };
    use anyhow::{Context, Result, ensure};
    use futures::FutureExt;
    use libtest_mimic::Arguments;

    use crate::support::{
        Ended,
        cases::{a_flood_is_cancelled, a_missing_program_is_named, advertises_the_contract, trial},
        claude::run_to_end,
        codex::CodexSubject,
        codex_server::{FAULT, Fault},
    };

    pub(super) fn main() -> ExitCode {
        macro_rules! trials {
            ($($name:ident),* $(,)?) => { vec![$(trial(stringify!($name), || $name().boxed())),*] };
        }
        let trials = trials![
            exactly_the_capabilities_of_the_contract_are_advertised,
            the_mark_of_the_backend_takes_no_value,
            a_missing_program_is_an_error_of_the_start,
            a_server_that_takes_other_limits_gets_no_prompt,
            a_server_that_crashes_keeps_what_was_said,
            a_server_that_refuses_the_prompt_is_a_failure,
            a_server_that_is_no_server_is_a_failure,
            a_question_that_nobody_knows_is_answered_and_told,
            an_interrupted_turn_is_a_failure,
            another_threads_end_does_not_end_the_run,
            an_unreadable_line_is_one_error_in_its_place_and_the_run_succeeds,
            a_flooding_agent_is_cancelled_while_nobody_reads,
        ];
        libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
    }

    fn say(text: &str) -> Scenario {
        Scenario::Say { text: text.to_owned() }
    }

    /// Runs a server with this fault that says hello.
    async fn with(fault: Fault) -> Result<Ended> {
        let subject = CodexSubject::over_stand_in();
        let mut request = subject.request(&say("hello")).context("it can be played")?;
        request.env.insert(FAULT.to_owned(), serde_json::to_string(&fault)?);
        let ended = run_to_end(&subject.backend(), request).await?;
        ensure!(subject.living() == 0, "something lives on");
        Ok(ended)
    }

    async fn exactly_the_capabilities_of_the_contract_are_advertised() -> Result<()> {
        let plain = CodexSubject::over_stand_in().backend().capabilities();
        let config = CodexBackendConfig { allow_external_sandbox_exec: true, ..Default::default() };
        let allowed = CodexBackend::new(config).capabilities();
        advertises_the_contract(&plain, &allowed, "backend.codex.app_server")
    }

    async fn the_mark_of_the_backend_takes_no_value() -> Result<()> {
        let subject = CodexSubject::over_stand_in();
        ensure!(subject.backend().kind().as_str() == AGENT_KIND);
        let request = subject.prompt("p").with_extension(APP_SERVER, true);
        let attempt = subject.backend().run(request).await;
        ensure!(matches!(attempt, Err(AgentWrapperError::InvalidRequest { .. })), "{attempt:?}");
        ensure!(subject.launches().is_empty());
        Ok(())
    }

    async fn a_missing_program_is_an_error_of_the_start() -> Result<()> {
        let config =
            CodexBackendConfig { binary: Some("no-such-codex".into()), ..Default::default() };
        a_missing_program_is_named(&CodexBackend::new(config), "no-such-codex").await
    }

    async fn a_server_that_takes_other_limits_gets_no_prompt() -> Result<()> {
        for fault in [Fault::OtherPolicy, Fault::OtherSandbox, Fault::OtherReviewer] {
            let ended = with(fault).await?;
            ended.failed_with("the agent did not take the limits that it was given")?;
            ensure!(ended.text().is_empty(), "it was given the prompt all the same");
        }
        Ok(())
    }

    async fn a_server_that_crashes_keeps_what_was_said() -> Result<()> {
        let ended = with(Fault::Crashes).await?;
        ended.failed_with("the agent ended with exit code 3 without a result")?;
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        ensure!(ended.result?.final_text.as_deref() == Some("hello"));
        Ok(())
    }

    async fn a_server_that_refuses_the_prompt_is_a_failure() -> Result<()> {
        with(Fault::RefusesThePrompt).await?.failed_with("the agent did not take the prompt")
    }

    async fn a_server_that_is_no_server_is_a_failure() -> Result<()> {
        with(Fault::RefusesTheHandshake).await?.failed_with("the agent could not be spoken to")
    }

    async fn a_question_that_nobody_knows_is_answered_and_told() -> Result<()> {
        let ended = with(Fault::AsksSomethingNew).await?;
        ended.failed_with("the agent asked for leave, and nobody was there to give it")?;
        ensure!(ended.text() == "hello", "the turn did not go on: {:?}", ended.text());
        Ok(())
    }

    async fn an_interrupted_turn_is_a_failure() -> Result<()> {
        with(Fault::Interrupts).await?.failed_with("the agent's turn was interrupted")
    }

    async fn another_threads_end_does_not_end_the_run() -> Result<()> {
        let ended = with(Fault::EndsAnotherThread).await?;
        ended.succeeded()?;
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        Ok(())
    }

    async fn an_unreadable_line_is_one_error_in_its_place_and_the_run_succeeds() -> Result<()> {
        let ended = with(Fault::WritesGarbage).await?;
        ended.succeeded()?;
        ensure!(ended.count(AgentWrapperEventKind::Error) == 1, "{:?}", ended.events);
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        Ok(())
    }

    async fn a_flooding_agent_is_cancelled_while_nobody_reads() -> Result<()> {
        a_flood_is_cancelled(&CodexSubject::over_stand_in()).await
    }
}

//! Promises of the `acp` backend alone, with a scripted agent: its capabilities, agents that
//! misbehave or differ, and endings in our own words.

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
        AgentWrapperBackend, AgentWrapperError, AgentWrapperEventKind, AgentWrapperKind,
        AgentWrapperRunRequest,
        backends::acp::{AGENT_KIND, AcpBackend, AcpBackendConfig, AcpOffer, STDIO},
        capabilities::{
            CONFIG_MODEL, EXEC_ADD_DIRS, EXEC_EXTERNAL_SANDBOX, SESSION_FORK, SESSION_RESUME,
        },
        conformance::{Scenario, Subject},
    };
    use anyhow::{Context, Result, ensure};
    use futures::FutureExt;
    use libtest_mimic::Arguments;
    use serde_json::json;

    use crate::support::{
        Ended,
        acp::AcpSubject,
        acp_agent::{FAULT, Fault},
        cases::{a_flood_is_cancelled, a_missing_program_is_named, advertises_the_contract, trial},
        claude::run_to_end,
    };

    pub(super) fn main() -> ExitCode {
        macro_rules! trials {
            ($($name:ident),* $(,)?) => { vec![$(trial(stringify!($name), || $name().boxed())),*] };
        }
        let trials = trials![
            exactly_what_the_configuration_offers_is_advertised,
            the_mark_of_the_backend_takes_no_value,
            a_backend_may_have_another_kind,
            a_missing_program_is_an_error_of_the_start,
            a_program_that_is_no_agent_is_a_failure,
            an_agent_that_refuses_is_a_failure,
            an_agent_in_another_mode_gets_no_prompt,
            an_agent_that_moves_its_mode_is_ended,
            an_agent_that_cannot_keep_an_offer_is_a_failure,
            a_session_that_the_list_does_not_have_is_not_found,
            a_loaded_session_does_not_repeat_its_history,
            an_agent_that_crashes_keeps_what_was_said,
            a_question_that_nobody_knows_is_answered_and_told,
            a_question_without_options_is_denied,
            files_and_terminals_are_refused_without_harm,
            answers_that_nobody_waits_for_are_ignored,
            a_turn_that_did_not_end_by_itself_is_a_failure,
            an_unreadable_line_is_one_error_in_its_place_and_the_run_succeeds,
            lines_after_the_end_of_a_turn_are_forwarded,
            an_agent_that_stays_after_its_turn_is_ended,
            an_external_sandbox_allows_what_is_asked,
            a_rejected_question_is_a_failed_run,
            a_flooding_agent_is_cancelled_while_nobody_reads,
        ];
        libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
    }

    fn say(text: &str) -> Scenario {
        Scenario::Say { text: text.to_owned() }
    }

    /// Returns the request that makes an agent with this fault say hello.
    fn hello(subject: &AcpSubject, fault: Fault) -> Result<AgentWrapperRunRequest> {
        let mut request = subject.request(&say("hello")).context("it can be played")?;
        request.env.insert(FAULT.to_owned(), serde_json::to_string(&fault)?);
        Ok(request)
    }

    async fn run(subject: &AcpSubject, request: AgentWrapperRunRequest) -> Result<Ended> {
        let ended = run_to_end(&subject.backend(), request).await?;
        ensure!(subject.living() == 0, "something lives on");
        Ok(ended)
    }

    /// Runs an agent with this fault that says hello.
    async fn with(fault: Fault) -> Result<Ended> {
        let subject = AcpSubject::over_stand_in();
        let request = hello(&subject, fault)?;
        run(&subject, request).await
    }

    async fn exactly_what_the_configuration_offers_is_advertised() -> Result<()> {
        let subject = AcpSubject::over_stand_in();
        let plain = subject.backend().capabilities();
        let allowed = subject.backend_in_sandbox().context("a sandbox")?.capabilities();
        advertises_the_contract(&plain, &allowed, STDIO)?;
        for (offer, id) in [
            (AcpOffer::Resume, SESSION_RESUME),
            (AcpOffer::Fork, SESSION_FORK),
            (AcpOffer::Model, CONFIG_MODEL),
            (AcpOffer::AddDirs, EXEC_ADD_DIRS),
        ] {
            let mut config = subject.config.clone();
            config.offers.remove(&offer);
            let mut expected = plain.clone();
            expected.ids.remove(id);
            let advertised = AcpBackend::new(config).capabilities();
            ensure!(advertised == expected, "{advertised:?}");
        }
        Ok(())
    }

    async fn the_mark_of_the_backend_takes_no_value() -> Result<()> {
        let subject = AcpSubject::over_stand_in();
        ensure!(subject.backend().kind().as_str() == AGENT_KIND);
        let request = subject.prompt("p").with_extension(STDIO, true);
        let attempt = subject.backend().run(request).await;
        ensure!(matches!(attempt, Err(AgentWrapperError::InvalidRequest { .. })), "{attempt:?}");
        ensure!(subject.launches().is_empty());
        Ok(())
    }

    async fn a_backend_may_have_another_kind() -> Result<()> {
        let subject = AcpSubject::over_stand_in();
        let kind = AgentWrapperKind::new("goose")?;
        let backend = AcpBackend::of_kind(kind.clone(), subject.config.clone());
        ensure!(backend.kind() == kind);
        let backend: std::sync::Arc<dyn AgentWrapperBackend> = std::sync::Arc::new(backend);
        let request = subject.request(&say("hello")).context("it can be played")?;
        let ended = run_to_end(&backend, request).await?;
        ended.succeeded()?;
        ensure!(ended.events.iter().all(|event| event.agent_kind == kind));
        Ok(())
    }

    async fn a_missing_program_is_an_error_of_the_start() -> Result<()> {
        let config = AcpBackendConfig::new("no-such-agent", ["acp"]);
        a_missing_program_is_named(&AcpBackend::new(config), "no-such-agent").await
    }

    async fn a_program_that_is_no_agent_is_a_failure() -> Result<()> {
        let mut subject = AcpSubject::over_stand_in();
        subject.config.program = "sh".into();
        subject.config.arguments = ["-c", "echo usage: sh; exit 2"].map(str::to_owned).into();
        let request = subject.prompt("p");
        let ended = run(&subject, request).await?;
        ended.failed_with("the agent ended with exit code 2 without a result")
    }

    async fn an_agent_that_refuses_is_a_failure() -> Result<()> {
        let spoken = "the agent could not be spoken to";
        for fault in
            [Fault::RefusesTheHandshake, Fault::SpeaksAnotherVersion, Fault::RefusesTheSession]
        {
            with(fault).await?.failed_with(spoken)?;
        }
        with(Fault::RefusesThePrompt)
            .await?
            .failed_with("the agent is not logged in, or its credentials were refused")
    }

    async fn an_agent_in_another_mode_gets_no_prompt() -> Result<()> {
        let ended = with(Fault::OpensInAnotherMode).await?;
        ended.failed_with("the agent did not take the limits that it was given")?;
        ensure!(ended.text().is_empty(), "it was given the prompt all the same");
        let mut subject = AcpSubject::over_stand_in();
        subject.config.expected_mode = None;
        let request = hello(&subject, Fault::OpensInAnotherMode)?;
        run(&subject, request).await?.succeeded()?;
        Ok(())
    }

    async fn an_agent_that_moves_its_mode_is_ended() -> Result<()> {
        for fault in [Fault::MovesItsMode, Fault::MovesItsModeByOption] {
            let ended = with(fault).await?;
            ended.failed_with("the agent did not take the limits that it was given")?;
        }
        Ok(())
    }

    async fn an_agent_that_cannot_keep_an_offer_is_a_failure() -> Result<()> {
        let last = json!({"selector": "last"});
        for (key, value) in [
            (SESSION_RESUME, last.clone()),
            (SESSION_FORK, last),
            (SESSION_RESUME, json!({"selector": "id", "id": "x"})),
            (CONFIG_MODEL, json!("m")),
            (EXEC_ADD_DIRS, json!({"dirs": ["."]})),
        ] {
            let subject = AcpSubject::over_stand_in();
            let request = hello(&subject, Fault::OffersNothing)?.with_extension(key, value);
            let ended = run(&subject, request).await?;
            ended.failed_with("the agent does not offer what the request asks for")?;
            ensure!(ended.text().is_empty(), "it was given the prompt all the same");
        }
        Ok(())
    }

    async fn a_session_that_the_list_does_not_have_is_not_found() -> Result<()> {
        for key in [SESSION_RESUME, SESSION_FORK] {
            let subject = AcpSubject::over_stand_in();
            let nobodys = json!({"selector": "id", "id": "nobody's"});
            let request = hello(&subject, Fault::HasNoCodeForUnknownSessions)?;
            let ended = run(&subject, request.with_extension(key, nobodys)).await?;
            ended.failed_with("session not found")?;
        }
        Ok(())
    }

    async fn a_loaded_session_does_not_repeat_its_history() -> Result<()> {
        let subject = AcpSubject::over_stand_in();
        let first = hello(&subject, Fault::LoadsWithHistory)?;
        run(&subject, first.clone()).await?.succeeded()?;
        let again = first.with_extension(SESSION_RESUME, json!({"selector": "last"}));
        let ended = run(&subject, again).await?;
        ended.succeeded()?;
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        ensure!(ended.count(AgentWrapperEventKind::ToolCall) == 0, "{:?}", ended.events);
        Ok(())
    }

    async fn an_agent_that_crashes_keeps_what_was_said() -> Result<()> {
        let ended = with(Fault::Crashes).await?;
        ended.failed_with("the agent ended with exit code 3 without a result")?;
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        ensure!(ended.result?.final_text.as_deref() == Some("hello"));
        Ok(())
    }

    async fn a_question_that_nobody_knows_is_answered_and_told() -> Result<()> {
        let ended = with(Fault::AsksSomethingNew).await?;
        ended.failed_with("the agent asked for leave, and nobody was there to give it")?;
        ensure!(ended.text() == "hello", "the turn did not go on: {:?}", ended.text());
        Ok(())
    }

    async fn a_question_without_options_is_denied() -> Result<()> {
        let denied = "the agent asked for leave, and nobody was there to give it";
        let subject = AcpSubject::over_stand_in();
        let request = hello(&subject, Fault::AsksWithoutOptions)?;
        run(&subject, request.clone()).await?.failed_with(denied)?;
        // Even in a sandbox, a question that offers no option to allow it is denied.
        let backend = subject.backend_in_sandbox().context("a sandbox")?;
        let unchecked = request.with_extension(EXEC_EXTERNAL_SANDBOX, true);
        run_to_end(&backend, unchecked).await?.failed_with(denied)
    }

    async fn files_and_terminals_are_refused_without_harm() -> Result<()> {
        let ended = with(Fault::AsksForFiles).await?;
        ended.succeeded()?;
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        Ok(())
    }

    async fn answers_that_nobody_waits_for_are_ignored() -> Result<()> {
        with(Fault::AnswersAnotherRequest).await?.succeeded()?;
        Ok(())
    }

    async fn a_turn_that_did_not_end_by_itself_is_a_failure() -> Result<()> {
        for (fault, reason) in [
            (Fault::Interrupts, "the agent's turn was interrupted"),
            // The first answer counts.
            (Fault::AnswersTwice, "the agent's turn was interrupted"),
            (Fault::ReachesItsTokens, "the agent's model reached its limit of tokens"),
            (Fault::EndsForAnUnknownReason, "the agent stopped with an error while it worked"),
        ] {
            with(fault).await?.failed_with(reason)?;
        }
        Ok(())
    }

    async fn an_unreadable_line_is_one_error_in_its_place_and_the_run_succeeds() -> Result<()> {
        let ended = with(Fault::WritesGarbage).await?;
        ended.succeeded()?;
        ensure!(ended.count(AgentWrapperEventKind::Error) == 1, "{:?}", ended.events);
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        Ok(())
    }

    async fn lines_after_the_end_of_a_turn_are_forwarded() -> Result<()> {
        let ended = with(Fault::TellsAfterTheEnd).await?;
        ended.succeeded()?;
        ensure!(ended.count(AgentWrapperEventKind::ToolCall) == 1, "{:?}", ended.events);
        ensure!(ended.count(AgentWrapperEventKind::ToolResult) == 1, "{:?}", ended.events);
        Ok(())
    }

    async fn an_agent_that_stays_after_its_turn_is_ended() -> Result<()> {
        let ended = with(Fault::StaysAfterTheEnd).await?;
        ended.succeeded()?;
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        Ok(())
    }

    async fn an_external_sandbox_allows_what_is_asked() -> Result<()> {
        let subject = AcpSubject::over_stand_in();
        let ask = Scenario::NeedLeave { text: "may I?".to_owned() };
        let request = subject.request(&ask).context("it can be played")?;
        let backend = subject.backend_in_sandbox().context("a sandbox")?;
        let request = request.with_extension(EXEC_EXTERNAL_SANDBOX, true);
        let ended = run_to_end(&backend, request).await?;
        ended.succeeded()?;
        ensure!(ended.count(AgentWrapperEventKind::ToolResult) == 1, "{:?}", ended.events);
        Ok(())
    }

    async fn a_rejected_question_is_a_failed_run() -> Result<()> {
        let subject = AcpSubject::over_stand_in();
        let ask = Scenario::NeedLeave { text: "may I?".to_owned() };
        let request = subject.request(&ask).context("it can be played")?;
        let ended = run(&subject, request).await?;
        ended.failed_with("the agent asked for leave, and nobody was there to give it")?;
        ensure!(ended.text().ends_with("I go on without it"), "{:?}", ended.text());
        ensure!(ended.count(AgentWrapperEventKind::ToolCall) == 1, "{:?}", ended.events);
        Ok(())
    }

    async fn a_flooding_agent_is_cancelled_while_nobody_reads() -> Result<()> {
        a_flood_is_cancelled(&AcpSubject::over_stand_in()).await
    }
}

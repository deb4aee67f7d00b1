//! Promises of the `claude_code` backend alone, with the simulator: endings of a process in our own
//! words, lines that cannot be read, long prompts, and secrets that reach no log.

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
    use std::{io, process::ExitCode, sync::Mutex};

    use agent_api::{
        AgentWrapperBackend, AgentWrapperError, AgentWrapperEventKind, AgentWrapperRunRequest,
        backends::claude_code::{
            AGENT_KIND, ClaudeCodeBackend, ClaudeCodeBackendConfig, PRINT_STREAM_JSON,
        },
        capabilities,
        conformance::{Scenario, Subject},
    };
    use anyhow::{Context, Result, ensure};
    use futures::FutureExt;
    use libtest_mimic::Arguments;
    use serde_json::json;
    use tracing_subscriber::fmt::MakeWriter;

    use crate::support::{
        cases::{a_flood_is_cancelled, advertises_the_contract, trial},
        claude::{ClaudeSubject, run_to_end},
    };

    /// A string that does not occur by chance.
    const SECRET: &str = "hunter2-9c41d7";

    /// Everything that was logged.
    static LOG: Log = Log(Mutex::new(Vec::new()));

    pub(super) fn main() -> ExitCode {
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(&LOG).init();
        macro_rules! trials {
            ($($name:ident),* $(,)?) => { vec![$(trial(stringify!($name), || $name().boxed())),*] };
        }
        let trials = trials![
            exactly_the_capabilities_of_the_contract_are_advertised,
            an_exit_without_a_result_is_a_failure,
            a_crash_is_a_failure_and_keeps_what_was_said,
            an_unreadable_line_is_one_error_in_its_place_and_the_run_succeeds,
            an_unknown_line_is_one_unknown_event,
            a_prompt_too_long_for_an_argument_arrives,
            a_prompt_that_looks_like_a_flag_is_a_prompt,
            a_resumed_session_remembers,
            a_flooding_agent_is_cancelled_while_nobody_reads,
            a_missing_program_is_an_error_of_the_start,
            the_mark_of_the_backend_takes_no_value,
            planted_secrets_reach_no_event_no_error_and_no_log,
        ];
        libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
    }

    async fn exactly_the_capabilities_of_the_contract_are_advertised() -> Result<()> {
        let plain = ClaudeSubject::over_simulator().backend().capabilities();
        let config =
            ClaudeCodeBackendConfig { allow_external_sandbox_exec: true, ..Default::default() };
        let allowed = ClaudeCodeBackend::new(config).capabilities();
        advertises_the_contract(&plain, &allowed, "backend.claude_code.print_stream_json")
    }

    async fn an_exit_without_a_result_is_a_failure() -> Result<()> {
        let subject = ClaudeSubject::over_simulator();
        let ended =
            run_to_end(&subject.backend(), subject.prompt("sim:\nsay hello\nexit 3")).await?;
        ended.failed_with("the agent ended with exit code 3 without a result")?;
        let ended =
            run_to_end(&subject.backend(), subject.prompt("sim:\nsay hello\nexit 0")).await?;
        ended.failed_with("the agent ended without a result")
    }

    async fn a_crash_is_a_failure_and_keeps_what_was_said() -> Result<()> {
        let subject = ClaudeSubject::over_simulator();
        let ended =
            run_to_end(&subject.backend(), subject.prompt("sim:\nsay hello\ncrash")).await?;
        ended.failed_with("the agent was ended by signal 9 without a result")?;
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        ensure!(ended.result?.final_text.as_deref() == Some("hello"));
        Ok(())
    }

    async fn an_unreadable_line_is_one_error_in_its_place_and_the_run_succeeds() -> Result<()> {
        let subject = ClaudeSubject::over_simulator();
        let ended =
            run_to_end(&subject.backend(), subject.prompt("sim:\nsay one\ngarbage\nsay two"))
                .await?;
        ended.succeeded()?;
        ensure!(ended.count(AgentWrapperEventKind::Error) == 1, "{:?}", ended.events);
        let at = |wanted: &dyn Fn(&agent_api::AgentWrapperEvent) -> bool| {
            ended.events.iter().position(wanted)
        };
        let error = at(&|event| event.kind == AgentWrapperEventKind::Error);
        let one = at(&|event| event.text.as_deref().is_some_and(|text| text.starts_with('o')));
        let two = at(&|event| event.text.as_deref().is_some_and(|text| text.starts_with('t')));
        ensure!(one < error && error < two, "{:?}", ended.events);
        Ok(())
    }

    async fn an_unknown_line_is_one_unknown_event() -> Result<()> {
        let subject = ClaudeSubject::over_simulator();
        let ended =
            run_to_end(&subject.backend(), subject.prompt("sim:\nunknown\nsay hello")).await?;
        ended.succeeded()?;
        ensure!(ended.count(AgentWrapperEventKind::Unknown) == 1, "{:?}", ended.events);
        Ok(())
    }

    async fn a_prompt_too_long_for_an_argument_arrives() -> Result<()> {
        let subject = ClaudeSubject::over_simulator();
        let prompt = format!("sim:\n#{}\nsay hello", "x".repeat(300_000));
        let ended = run_to_end(&subject.backend(), subject.prompt(prompt)).await?;
        ended.succeeded()?;
        ensure!(ended.text() == "hello", "{:?}", ended.text());
        Ok(())
    }

    async fn a_prompt_that_looks_like_a_flag_is_a_prompt() -> Result<()> {
        let subject = ClaudeSubject::over_simulator();
        let ended = run_to_end(&subject.backend(), subject.prompt("--version")).await?;
        ensure!(!ended.succeeded()?.final_text.as_deref().unwrap_or_default().is_empty());
        Ok(())
    }

    async fn a_resumed_session_remembers() -> Result<()> {
        let subject = ClaudeSubject::over_simulator();
        run_to_end(&subject.backend(), subject.prompt("sim:\nsay the word is quince"))
            .await?
            .succeeded()?;
        for key in [capabilities::SESSION_RESUME, capabilities::SESSION_FORK] {
            let request =
                subject.prompt("sim:\nrecall").with_extension(key, json!({"selector": "last"}));
            let ended = run_to_end(&subject.backend(), request).await?;
            ended.succeeded()?;
            ensure!(ended.text().contains("quince"), "{key}: {:?}", ended.text());
        }
        Ok(())
    }

    async fn a_flooding_agent_is_cancelled_while_nobody_reads() -> Result<()> {
        a_flood_is_cancelled(&ClaudeSubject::over_simulator()).await
    }

    async fn a_missing_program_is_an_error_of_the_start() -> Result<()> {
        let config =
            ClaudeCodeBackendConfig { binary: Some("no-such-claude".into()), ..Default::default() };
        let attempt = ClaudeCodeBackend::new(config).run(AgentWrapperRunRequest::new("p")).await;
        let Err(AgentWrapperError::Backend { message }) = attempt else {
            anyhow::bail!("{attempt:?}")
        };
        ensure!(message.contains("no-such-claude"), "{message}");
        Ok(())
    }

    async fn the_mark_of_the_backend_takes_no_value() -> Result<()> {
        let subject = ClaudeSubject::over_simulator();
        ensure!(subject.backend().kind().as_str() == AGENT_KIND);
        let attempt = subject
            .backend()
            .run(subject.prompt("p").with_extension(PRINT_STREAM_JSON, true))
            .await;
        ensure!(matches!(attempt, Err(AgentWrapperError::InvalidRequest { .. })), "{attempt:?}");
        ensure!(subject.launches().is_empty());
        Ok(())
    }

    /// Plants the secret in the environment, in raw lines readable and not, on stderr, in a tool's
    /// input and output, in thinking, and in the reasons of two kinds of failure.
    async fn planted_secrets_reach_no_event_no_error_and_no_log() -> Result<()> {
        let secret = SECRET.to_owned();
        let scenarios = [
            Scenario::Leak { text: "hello".to_owned(), secret: secret.clone() },
            Scenario::UseTool {
                before: "one".to_owned(),
                secret: secret.clone(),
                after: "two".to_owned(),
            },
            Scenario::Fail { secret: secret.clone() },
        ];
        let mut told = String::new();
        for scenario in scenarios {
            let subject = ClaudeSubject::over_simulator();
            let mut request = subject.request(&scenario).context("it can be played")?;
            request.env.insert("ANTHROPIC_API_KEY".to_owned(), secret.clone());
            told.push_str(&format!("{request:?}"));
            told.push_str(&format!("{:?}", run_to_end(&subject.backend(), request).await?));
        }
        let stderr_only = ClaudeSubject::over_simulator();
        let request = stderr_only.prompt(format!("sim:\nstderr {secret}\nexit 1"));
        told.push_str(&format!("{:?}", run_to_end(&stderr_only.backend(), request).await?));
        // The start fails, with the secret in everything that the caller gave.
        let mut request = AgentWrapperRunRequest::new(secret.as_str());
        request.env.insert("TOKEN".to_owned(), secret.clone());
        let config = ClaudeCodeBackendConfig {
            binary: Some("no-such-claude".into()),
            env: request.env.clone(),
            ..Default::default()
        };
        told.push_str(&format!("{config:?} {:?}", ClaudeCodeBackend::new(config.clone())));
        told.push_str(&format!("{:?}", ClaudeCodeBackend::new(config).run(request).await.err()));

        ensure!(!told.contains(SECRET), "it got out: {told}");
        // This shows that the log is captured, so its silence means something.
        tracing::info!("the log is caught");
        let log = LOG.text();
        ensure!(log.contains("the log is caught"));
        ensure!(!log.contains(SECRET), "it was logged: {log}");
        Ok(())
    }

    /// A log in memory.
    struct Log(Mutex<Vec<u8>>);

    impl Log {
        fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
        }
    }

    impl<'a> MakeWriter<'a> for &'static Log {
        type Writer = LogWriter;

        fn make_writer(&'a self) -> Self::Writer {
            LogWriter
        }
    }

    struct LogWriter;

    impl io::Write for LogWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            LOG.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

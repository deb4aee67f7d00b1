//! Every statement of the contract (docs/agent-api-contract.md), with the scripted backend, with
//! `claude_code` over the simulator, with `codex` over a scripted server, and with `acp` over a
//! scripted agent.
//!
//! A statement that does not apply is reported as ignored. This file lists which ones may be
//! ignored, so that a missing capability cannot pass for a statement that does not apply.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

mod support;

use std::{process::ExitCode, sync::Arc};

use agent_api::{
    AgentWrapperEventKind, AgentWrapperGateway, AgentWrapperKind,
    conformance::{self, Scenario, Statement, Subject, Verdict},
};
use futures::StreamExt;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use support::{scripted::ScriptedSubject, stand_in};

/// The statements about capabilities that the scripted agent lacks.
const NOT_FOR_SCRIPTED: &[&str] = &[
    "the_model_reaches_the_agent",
    "added_directories_reach_the_agent",
    "a_run_that_is_not_interactive_waits_for_nobody",
    "contradictions_are_refused",
    "the_session_is_told_once_and_again_at_the_end",
    "resuming_the_last_session_continues_it",
    "resuming_by_id_continues_that_session",
    "forking_the_last_session_leaves_it_as_it_is",
    "forking_by_id_leaves_that_session_as_it_is",
    "no_session_to_resume_is_a_failure_and_no_new_session",
    "no_session_to_fork_is_a_failure_and_no_new_session",
    "an_unknown_session_is_a_failure",
    "an_external_sandbox_begins_with_one_warning",
    "an_external_sandbox_contradicts_somebody_to_ask",
];

fn main() -> ExitCode {
    if let Some(code) = stand_in::play_if_asked() {
        return code;
    }
    let mut trials = trials("scripted", NOT_FOR_SCRIPTED, || Box::new(ScriptedSubject::new()));
    #[cfg(target_os = "linux")]
    {
        use support::{acp::AcpSubject, claude::ClaudeSubject, codex::CodexSubject};
        trials.extend(self::trials("claude_code_with_simulator", &[], || {
            Box::new(ClaudeSubject::over_simulator())
        }));
        trials.extend(self::trials("codex_with_stand_in", &[], || {
            Box::new(CodexSubject::over_stand_in())
        }));
        trials.extend(self::trials("acp_with_stand_in", &[], || {
            Box::new(AcpSubject::over_stand_in())
        }));
        trials.push(Trial::test(
            "s36_four_backends_serve_one_gateway",
            four_backends_serve_one_gateway,
        ));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Creates one test for each statement, each with a subject of its own.
fn trials(
    of: &str,
    does_not_apply: &'static [&str],
    subject: fn() -> Box<dyn Subject>,
) -> Vec<Trial> {
    let trial = |statement: Statement| {
        let name = format!("{of}::s{}_{}", statement.number(), statement.name());
        Trial::ignorable_test(name, move || {
            let verdict = run(async { statement.check(&*subject()).await });
            let may_not_apply = does_not_apply.contains(&statement.name());
            match verdict {
                Verdict::Holds if may_not_apply => {
                    Err("this is listed as not applying, and it holds".into())
                }
                Verdict::Holds => Ok(Completion::Completed),
                Verdict::DoesNotApply(why) if may_not_apply => Ok(Completion::ignored_with(why)),
                Verdict::DoesNotApply(why) => Err(format!("this should apply: {why}").into()),
                Verdict::Broken(what) => Err(what.into()),
            }
        })
    };
    conformance::statements().into_iter().map(trial).collect()
}

/// Statement 36: several backends work side by side, independently of each other.
#[cfg(target_os = "linux")]
fn four_backends_serve_one_gateway() -> Result<(), Failed> {
    let subjects: [Box<dyn Subject>; 4] = [
        Box::new(ScriptedSubject::new()),
        Box::new(support::claude::ClaudeSubject::over_simulator()),
        Box::new(support::codex::CodexSubject::over_stand_in()),
        Box::new(support::acp::AcpSubject::over_stand_in()),
    ];
    run(async {
        let mut gateway = AgentWrapperGateway::new();
        for subject in &subjects {
            gateway.register(subject.backend())?;
        }
        for (subject, kind) in subjects.iter().zip(["scripted", "claude_code", "codex", "acp"]) {
            let kind = AgentWrapperKind::new(kind)?;
            let request = subject.request(&Scenario::Say { text: "hello".to_owned() }).unwrap();
            let handle = gateway.run(&kind, request).await?;
            let events: Vec<_> = handle.events.collect().await;
            handle.completion.await?;
            assert!(events.iter().all(|event| event.agent_kind == kind));
            let texts =
                events.iter().filter(|event| event.kind == AgentWrapperEventKind::TextOutput);
            assert_eq!(
                texts.filter_map(|event| event.text.as_deref()).collect::<String>(),
                "hello"
            );
        }
        let again = gateway.register(Arc::clone(&subjects[0].backend()));
        assert!(
            matches!(again, Err(agent_api::AgentWrapperError::InvalidRequest { .. })),
            "{again:?}"
        );
        Ok(())
    })
}

fn run<T>(checks: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(checks);
    // Tasks that a broken run left behind must not keep the test from ending.
    runtime.shutdown_background();
    result
}

//! Named cases, each on a runtime of its own and with a deadline.

use std::time::Duration;

use agent_api::{
    AgentWrapperBackend, AgentWrapperCapabilities, AgentWrapperError, AgentWrapperRunControl,
    AgentWrapperRunRequest,
    conformance::{Scenario, Statement, Subject, Verdict},
};
use anyhow::{Context, Result, bail, ensure};
use futures::future::BoxFuture;
use libtest_mimic::Trial;

/// The deadline of a case: far more than any of them takes.
const DEADLINE: Duration = Duration::from_secs(180);

/// Creates a test from a case.
pub(crate) fn trial(name: &str, check: fn() -> BoxFuture<'static, Result<()>>) -> Trial {
    Trial::test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let outcome = runtime.block_on(async { tokio::time::timeout(DEADLINE, check()).await });
        outcome?.map_err(|error| format!("{error:#}").into())
    })
}

/// Returns the name of a statement's case. A suite needs names that live as long as the program, so
/// the name is leaked.
pub(crate) fn numbered(statement: Statement) -> &'static str {
    format!("s{}_{}", statement.number(), statement.name()).leak()
}

/// Checks a statement that must apply to the subject.
pub(crate) async fn check(statement: Statement, subject: &dyn Subject) -> Result<()> {
    match statement.check(subject).await {
        Verdict::Holds => Ok(()),
        Verdict::DoesNotApply(why) => bail!("this should apply: {why}"),
        Verdict::Broken(what) => bail!("{what}"),
    }
}

/// Checks that a run whose events are held but not read can be cancelled while the agent waits for
/// room in its pipe.
pub(crate) async fn a_flood_is_cancelled(subject: &dyn Subject) -> Result<()> {
    let flood = Scenario::Flood { messages: 1_000_000, bytes: 1_000 };
    let flood = subject.request(&flood).context("no flood")?;
    let AgentWrapperRunControl { handle, cancel } = subject.backend().run_control(flood).await?;
    cancel.cancel();
    let result = handle.completion.await;
    let cancelled = AgentWrapperError::Backend { message: "cancelled".to_owned() };
    ensure!(result == Err(cancelled), "{result:?}");
    ensure!(subject.living() == 0, "something lives on");
    drop(handle.events);
    Ok(())
}

/// Checks that the error for a program that cannot be started names it and says what to do.
pub(crate) async fn a_missing_program_is_named(
    backend: &dyn AgentWrapperBackend,
    program: &str,
) -> Result<()> {
    let attempt = backend.run(AgentWrapperRunRequest::new("p")).await;
    let Err(AgentWrapperError::Backend { message }) = attempt else { bail!("{attempt:?}") };
    ensure!(message.contains(program) && message.contains("install"), "{message}");
    Ok(())
}

/// Checks that a backend advertises the whole contract and its own mark, and the external sandbox
/// exactly if its configuration allows it.
pub(crate) fn advertises_the_contract(
    plain: &AgentWrapperCapabilities,
    allowed: &AgentWrapperCapabilities,
    mark: &str,
) -> Result<()> {
    let expected = [
        "agent_api.run",
        "agent_api.events",
        "agent_api.events.live",
        "agent_api.control.cancel.v1",
        "agent_api.tools.structured.v1",
        "agent_api.tools.results.v1",
        "agent_api.artifacts.final_text.v1",
        "agent_api.session.handle.v1",
        "agent_api.session.resume.v1",
        "agent_api.session.fork.v1",
        "agent_api.config.model.v1",
        "agent_api.exec.add_dirs.v1",
        "agent_api.exec.non_interactive",
        mark,
    ];
    ensure!(*plain == expected.into_iter().collect(), "{plain:?}");
    let expected = expected.into_iter().chain(["agent_api.exec.external_sandbox.v1"]);
    ensure!(*allowed == expected.collect(), "{allowed:?}");
    Ok(())
}

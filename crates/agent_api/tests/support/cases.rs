//! Named cases, each on a runtime of its own and cut off at a deadline.

use std::time::Duration;

use agent_api::{
    AgentWrapperBackend, AgentWrapperCapabilities, AgentWrapperError, AgentWrapperRunControl,
    AgentWrapperRunRequest,
    conformance::{Scenario, Statement, Subject, Verdict},
};
use anyhow::{Context, Result, bail, ensure};
use futures::future::BoxFuture;
use libtest_mimic::Trial;

/// Far more than anything here takes.
const DEADLINE: Duration = Duration::from_secs(180);

/// Makes a test of a case.
pub(crate) fn trial(name: &str, check: fn() -> BoxFuture<'static, Result<()>>) -> Trial {
    Trial::test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let outcome = runtime.block_on(async { tokio::time::timeout(DEADLINE, check()).await });
        outcome?.map_err(|error| format!("{error:#}").into())
    })
}

/// The name of a statement's case. A suite wants names that live as long as the program, and these
/// do.
pub(crate) fn numbered(statement: Statement) -> &'static str {
    format!("s{}_{}", statement.number(), statement.name()).leak()
}

/// Holds a subject to a statement that must apply.
pub(crate) async fn check(statement: Statement, subject: &dyn Subject) -> Result<()> {
    match statement.check(subject).await {
        Verdict::Holds => Ok(()),
        Verdict::DoesNotApply(why) => bail!("this should apply: {why}"),
        Verdict::Broken(what) => bail!("{what}"),
    }
}

/// Checks that a run whose events are held and not read can be cancelled: the agent waits for room
/// in its pipe when the cancel comes.
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

/// Checks that a program that cannot be started is an error which names it and says what to do.
pub(crate) async fn a_missing_program_is_named(
    backend: &dyn AgentWrapperBackend,
    program: &str,
) -> Result<()> {
    let attempt = backend.run(AgentWrapperRunRequest::new("p")).await;
    let Err(AgentWrapperError::Backend { message }) = attempt else { bail!("{attempt:?}") };
    ensure!(message.contains(program) && message.contains("install"), "{message}");
    Ok(())
}

/// Checks that a backend advertises all of the contract, its own mark, and a sandbox exactly when
/// its configuration allows it.
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

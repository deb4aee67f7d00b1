//! Statement 34: only the configuration can allow a request to turn the agent's own checks off, and
//! such a run always says so.

use super::{
    Statement, Subject,
    tools::{Stop, ensure, request, run_to_end, say, statement},
};
use crate::{
    AgentWrapperError, AgentWrapperEventKind,
    capabilities::{EXEC_EXTERNAL_SANDBOX, EXEC_NON_INTERACTIVE},
};

pub(super) const STATEMENTS: &[Statement] = &[
    statement!(34, an_external_sandbox_is_off_unless_the_configuration_allows_it),
    statement!(34, an_external_sandbox_begins_with_one_warning),
    statement!(34, an_external_sandbox_contradicts_somebody_to_ask),
];

async fn an_external_sandbox_is_off_unless_the_configuration_allows_it(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    let backend = subject.backend();
    ensure!(!backend.capabilities().contains(EXEC_EXTERNAL_SANDBOX), "it is advertised by default");
    let attempt = backend
        .run(request(subject, &say("hello"))?.with_extension(EXEC_EXTERNAL_SANDBOX, true))
        .await;
    let refusal = AgentWrapperError::unsupported(&backend.kind(), EXEC_EXTERNAL_SANDBOX);
    ensure!(attempt.as_ref().err() == Some(&refusal), "it gave {attempt:?}");
    ensure!(subject.launches().is_empty(), "the agent was started all the same");
    Ok(())
}

fn in_sandbox(
    subject: &dyn Subject,
) -> Result<std::sync::Arc<dyn crate::AgentWrapperBackend>, Stop> {
    let backend = subject
        .backend_in_sandbox()
        .ok_or_else(|| Stop::DoesNotApply("the backend knows no external sandbox".to_owned()))?;
    ensure!(
        backend.capabilities().contains(EXEC_EXTERNAL_SANDBOX),
        "it is allowed and not advertised"
    );
    Ok(backend)
}

async fn an_external_sandbox_begins_with_one_warning(subject: &dyn Subject) -> Result<(), Stop> {
    let backend = in_sandbox(subject)?;
    let with = request(subject, &say("hello"))?.with_extension(EXEC_EXTERNAL_SANDBOX, true);
    let ended = run_to_end(&backend, with).await?;
    let warns = |message: &Option<String>| {
        message.as_ref().is_some_and(|message| message.contains("external sandbox"))
    };
    let warnings =
        ended.of_kind(AgentWrapperEventKind::Status).filter(|event| warns(&event.message)).count();
    ensure!(warnings == 1, "there were {warnings} warnings");
    let first = ended.events.first();
    ensure!(first.is_some_and(|event| warns(&event.message)), "the run began with {first:?}");

    let without = request(subject, &say("hello"))?.with_extension(EXEC_EXTERNAL_SANDBOX, false);
    let ended = run_to_end(&backend, without).await?;
    ensure!(
        !ended.events.iter().any(|event| warns(&event.message)),
        "a run outside of it was warned of"
    );
    Ok(())
}

async fn an_external_sandbox_contradicts_somebody_to_ask(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    let backend = in_sandbox(subject)?;
    if !backend.capabilities().contains(EXEC_NON_INTERACTIVE) {
        return Err(Stop::DoesNotApply(format!("{EXEC_NON_INTERACTIVE} is not advertised")));
    }
    let both = request(subject, &say("hello"))?
        .with_extension(EXEC_EXTERNAL_SANDBOX, true)
        .with_extension(EXEC_NON_INTERACTIVE, false);
    let attempt = backend.run(both).await;
    ensure!(
        matches!(attempt, Err(AgentWrapperError::InvalidRequest { .. })),
        "it gave {attempt:?}"
    );
    ensure!(subject.launches().is_empty(), "the agent was started all the same");
    Ok(())
}

//! Statement 23: advertised capabilities work, and others are refused.
//!
//! The other statements cover capabilities about events, endings and sessions; the remaining ones
//! are here.

use futures::StreamExt;
use serde_json::json;

use super::{
    Scenario, Statement, Subject,
    tools::{
        Stop, ensure, in_time, need, nothing_lives, play, read_to_end, read_until_said, request,
        run_to_end, say, start, statement,
    },
};
use crate::{
    AgentWrapperError, AgentWrapperRunControl,
    bounds::MAX_MODEL_ID_BYTES,
    capabilities::{
        CONFIG_MODEL, CONTROL_CANCEL, EVENTS, EVENTS_LIVE, EXEC_ADD_DIRS, EXEC_EXTERNAL_SANDBOX,
        EXEC_NON_INTERACTIVE, RUN, SESSION_FORK, SESSION_RESUME,
    },
};

pub(super) const STATEMENTS: &[Statement] = &[
    statement!(23, a_run_says_what_the_agent_says_and_ends),
    statement!(23, live_events_arrive_while_the_agent_works),
    statement!(23, run_control_is_offered_exactly_when_it_is_advertised),
    statement!(23, an_extension_that_is_not_advertised_is_refused_by_name),
    statement!(23, the_model_reaches_the_agent),
    statement!(23, added_directories_reach_the_agent),
    statement!(23, a_run_that_is_not_interactive_waits_for_nobody),
];

async fn a_run_says_what_the_agent_says_and_ends(subject: &dyn Subject) -> Result<(), Stop> {
    let capabilities = subject.backend().capabilities();
    ensure!(
        capabilities.contains(RUN) && capabilities.contains(EVENTS),
        "`{RUN}` and `{EVENTS}` are the least"
    );
    let ended = play(subject, &say("good morning")).await?;
    ensure!(ended.text() == "good morning", "the agent said {:?}", ended.text());
    ended.success()?;
    nothing_lives(subject).await
}

async fn live_events_arrive_while_the_agent_works(subject: &dyn Subject) -> Result<(), Stop> {
    let backend = subject.backend();
    need(&backend, EVENTS_LIVE)?;
    let hang = Scenario::Hang { text: "still here".to_owned() };
    let mut handle = start(&backend, request(subject, &hang)?).await?;
    read_until_said(&mut handle.events, "still here").await?;
    ensure!(subject.living() > 0, "the text came when the agent was already gone");
    drop(handle);
    nothing_lives(subject).await
}

async fn run_control_is_offered_exactly_when_it_is_advertised(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    let backend = subject.backend();
    let attempt =
        in_time("the start of the run", backend.run_control(request(subject, &say("hello"))?))
            .await?;
    if backend.capabilities().contains(CONTROL_CANCEL) {
        let AgentWrapperRunControl { handle, cancel: _ } =
            attempt.map_err(|error| Stop::Broken(format!("run_control did not start: {error}")))?;
        read_to_end(handle).await?.success()?;
    } else {
        let refusal = AgentWrapperError::unsupported(&backend.kind(), CONTROL_CANCEL);
        ensure!(attempt.as_ref().err() == Some(&refusal), "run_control gave {attempt:?}");
    }
    Ok(())
}

async fn an_extension_that_is_not_advertised_is_refused_by_name(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    let backend = subject.backend();
    let capabilities = backend.capabilities();
    let known = [
        CONFIG_MODEL,
        EXEC_ADD_DIRS,
        EXEC_EXTERNAL_SANDBOX,
        EXEC_NON_INTERACTIVE,
        SESSION_FORK,
        SESSION_RESUME,
    ];
    let made_up = ["agent_api.conformance.nothing.v1", "backend.nobody.nothing"];
    for key in known.into_iter().chain(made_up).filter(|key| !capabilities.contains(key)) {
        let attempt =
            backend.run(request(subject, &say("hello"))?.with_extension(key, json!(null))).await;
        let refusal = AgentWrapperError::unsupported(&backend.kind(), key);
        ensure!(attempt.as_ref().err() == Some(&refusal), "{key} gave {attempt:?}");
    }
    ensure!(subject.launches().is_empty(), "a refused request was started");
    Ok(())
}

async fn the_model_reaches_the_agent(subject: &dyn Subject) -> Result<(), Stop> {
    let backend = subject.backend();
    need(&backend, CONFIG_MODEL)?;
    // The longest possible name shows that nothing on the way cuts it; the agent need not know the
    // model.
    let model = "m".repeat(MAX_MODEL_ID_BYTES);
    run_to_end(
        &backend,
        request(subject, &say("hello"))?.with_extension(CONFIG_MODEL, model.as_str()),
    )
    .await?;
    let launch = subject.launches().pop().unwrap_or_default();
    ensure!(launch.model.as_ref() == Some(&model), "the agent was started with {:?}", launch.model);
    Ok(())
}

async fn added_directories_reach_the_agent(subject: &dyn Subject) -> Result<(), Stop> {
    let backend = subject.backend();
    need(&backend, EXEC_ADD_DIRS)?;
    let request = request(subject, &say("hello"))?;
    let Some(working_dir) = request.working_dir.clone() else {
        return Err(Stop::DoesNotApply(
            "the request has no working directory to put directories in".to_owned(),
        ));
    };
    let inner = working_dir.join("an added directory");
    std::fs::create_dir_all(&inner)
        .map_err(|error| Stop::Broken(format!("could not make a directory: {error}")))?;
    let dirs = json!({"dirs": ["an added directory", working_dir]});
    run_to_end(&backend, request.with_extension(EXEC_ADD_DIRS, dirs)).await?.success()?;
    let launch = subject.launches().pop().unwrap_or_default();
    ensure!(
        launch.add_dirs == [inner, working_dir],
        "the agent was started with {:?}",
        launch.add_dirs
    );
    Ok(())
}

async fn a_run_that_is_not_interactive_waits_for_nobody(subject: &dyn Subject) -> Result<(), Stop> {
    let backend = subject.backend();
    need(&backend, EXEC_NON_INTERACTIVE)?;
    let scenario = Scenario::NeedLeave { text: "may I?".to_owned() };
    let mut handle =
        start(&backend, request(subject, &scenario)?.with_extension(EXEC_NON_INTERACTIVE, true))
            .await?;
    // The statement claims only that the run ends; the agent may react to the refusal in any way.
    while in_time("the end of a run that nobody answers", handle.events.next()).await?.is_some() {}
    in_time("the completion of a run that nobody answers", handle.completion)
        .await?
        .map_err(|error| Stop::Broken(format!("the run ended with an error: {error}")))?;
    nothing_lives(subject).await
}

//! Statements 30 to 32: how a run ends: by itself, by a timeout, and by a cancel.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::{
    Scenario, Statement, Subject,
    tools::{
        Stop, ensure, in_time, need, nothing_lives, play, read_to_end, read_until_said, request,
        say, start, statement,
    },
};
use crate::{
    AgentWrapperError, AgentWrapperRunControl, AgentWrapperRunHandle, CANCELLED, TIMED_OUT,
    bounds::EVENT_CHANNEL_CAPACITY, capabilities::CONTROL_CANCEL,
};

pub(super) const STATEMENTS: &[Statement] = &[
    statement!(30, completion_waits_for_the_end_of_the_events),
    statement!(30, dropping_the_events_lets_the_run_go_on_to_its_end),
    statement!(30, dropping_the_whole_handle_ends_the_agent),
    statement!(31, a_failed_run_says_so),
    statement!(31, a_timeout_is_an_error_and_leaves_nothing),
    statement!(31, a_timeout_fires_while_nobody_reads),
    statement!(32, a_cancel_ends_the_events_and_the_agent_and_then_completes),
    statement!(32, a_cancel_beats_an_end_that_nobody_has_observed),
    statement!(32, a_cancel_after_the_completion_does_nothing),
    statement!(32, a_cancel_works_after_the_handle_is_dropped),
];

/// Long enough to start anything and short enough to wait for.
const SHORT: Duration = Duration::from_millis(300);

fn hang() -> Scenario {
    Scenario::Hang { text: "waiting".to_owned() }
}

async fn control(
    subject: &dyn Subject,
    scenario: &Scenario,
) -> Result<AgentWrapperRunControl, Stop> {
    let backend = subject.backend();
    need(&backend, CONTROL_CANCEL)?;
    in_time("the start of the run", backend.run_control(request(subject, scenario)?))
        .await?
        .map_err(|error| Stop::Broken(format!("the run did not start: {error}")))
}

fn is_cancelled<T: std::fmt::Debug>(result: &Result<T, AgentWrapperError>) -> Result<(), Stop> {
    let cancelled = AgentWrapperError::backend(CANCELLED);
    ensure!(result.as_ref().err() == Some(&cancelled), "the cancelled run ended with {result:?}");
    Ok(())
}

async fn completion_waits_for_the_end_of_the_events(subject: &dyn Subject) -> Result<(), Stop> {
    let mut handle = start(&subject.backend(), request(subject, &say("hello"))?).await?;
    // The agent gets the time to end by itself: its few events fit into the channel, so it does not
    // wait for the reader.
    nothing_lives(subject).await?;
    ensure!(
        (&mut handle.completion).now_or_never().is_none(),
        "the completion resolved while events were unread"
    );
    while in_time("the end of the events", handle.events.next()).await?.is_some() {
        ensure!(
            (&mut handle.completion).now_or_never().is_none(),
            "the completion resolved between two events"
        );
    }
    in_time("the completion", handle.completion)
        .await?
        .map_err(|error| Stop::Broken(error.to_string()))?;
    ensure!(handle.events.next().await.is_none(), "an event followed the completion");
    Ok(())
}

async fn dropping_the_events_lets_the_run_go_on_to_its_end(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    // There are more events than fit into the channel, so a run that still waited for a reader
    // would never end.
    let messages = u32::try_from(4 * EVENT_CHANNEL_CAPACITY).unwrap_or(u32::MAX);
    let flood = Scenario::Flood { messages, bytes: 1_000 };
    let AgentWrapperRunHandle { events, completion } =
        start(&subject.backend(), request(subject, &flood)?).await?;
    drop(events);
    let result = in_time("the completion of a run that nobody reads", completion).await?;
    let completion =
        result.map_err(|error| Stop::Broken(format!("the unread run ended with {error}")))?;
    ensure!(
        completion.outcome == crate::AgentWrapperOutcome::Succeeded,
        "the unread run ended {:?}",
        completion.outcome
    );
    nothing_lives(subject).await
}

async fn dropping_the_whole_handle_ends_the_agent(subject: &dyn Subject) -> Result<(), Stop> {
    need(&subject.backend(), CONTROL_CANCEL)?;
    let mut handle = start(&subject.backend(), request(subject, &hang())?).await?;
    read_until_said(&mut handle.events, "waiting").await?;
    ensure!(subject.living() > 0, "the agent that should hang is gone");
    drop(handle);
    nothing_lives(subject).await
}

async fn a_failed_run_says_so(subject: &dyn Subject) -> Result<(), Stop> {
    let ended = play(subject, &Scenario::Fail { secret: "why it failed".to_owned() }).await?;
    let reason = ended.failure()?;
    ensure!(!reason.trim().is_empty(), "the reason is blank");
    Ok(())
}

async fn a_timeout_is_an_error_and_leaves_nothing(subject: &dyn Subject) -> Result<(), Stop> {
    let mut asked = request(subject, &hang())?;
    asked.timeout = Some(SHORT);
    let ended = read_to_end(start(&subject.backend(), asked).await?).await?;
    ensure!(
        ended.result == Err(AgentWrapperError::backend(TIMED_OUT)),
        "the run ended with {:?}",
        ended.result
    );
    ended.ends_with_error(TIMED_OUT)?;
    ensure!(subject.living() == 0, "something lives on after the timeout was told");
    Ok(())
}

async fn a_timeout_fires_while_nobody_reads(subject: &dyn Subject) -> Result<(), Stop> {
    let mut asked = request(subject, &Scenario::Flood { messages: 1_000_000, bytes: 100 })?;
    asked.timeout = Some(SHORT);
    let handle = start(&subject.backend(), asked).await?;
    // No event is read before the agent is gone.
    nothing_lives(subject).await?;
    let ended = read_to_end(handle).await?;
    ensure!(
        ended.result == Err(AgentWrapperError::backend(TIMED_OUT)),
        "the run ended with {:?}",
        ended.result
    );
    ended.ends_with_error(TIMED_OUT)
}

async fn a_cancel_ends_the_events_and_the_agent_and_then_completes(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    let AgentWrapperRunControl { mut handle, cancel } = control(subject, &hang()).await?;
    read_until_said(&mut handle.events, "waiting").await?;
    cancel.cancel();
    cancel.cancel();
    let after = in_time("the end of cancelled events", handle.events.next()).await?;
    ensure!(after.is_none(), "after the cancel came {after:?}");
    let result = in_time("the completion of a cancelled run", handle.completion).await?;
    ensure!(
        subject.living() == 0,
        "the completion resolved while {} processes lived",
        subject.living()
    );
    is_cancelled(&result)
}

async fn a_cancel_beats_an_end_that_nobody_has_observed(subject: &dyn Subject) -> Result<(), Stop> {
    let AgentWrapperRunControl { mut handle, cancel } = control(subject, &say("hello")).await?;
    while in_time("the end of the events", handle.events.next()).await?.is_some() {}
    nothing_lives(subject).await?;
    cancel.cancel();
    is_cancelled(&in_time("the completion", handle.completion).await?)
}

async fn a_cancel_after_the_completion_does_nothing(subject: &dyn Subject) -> Result<(), Stop> {
    let AgentWrapperRunControl { handle, cancel } = control(subject, &say("hello")).await?;
    let ended = read_to_end(handle).await?;
    cancel.cancel();
    ended.success()?;
    Ok(())
}

async fn a_cancel_works_after_the_handle_is_dropped(subject: &dyn Subject) -> Result<(), Stop> {
    let AgentWrapperRunControl { mut handle, cancel } = control(subject, &hang()).await?;
    read_until_said(&mut handle.events, "waiting").await?;
    let AgentWrapperRunHandle { events, completion } = handle;
    // Only the completion is kept, so the run continues until it is cancelled.
    drop(events);
    ensure!(subject.living() > 0, "the run ended with its events");
    cancel.cancel();
    is_cancelled(&in_time("the completion of a cancelled run", completion).await?)?;
    ensure!(
        subject.living() == 0,
        "the completion resolved while {} processes lived",
        subject.living()
    );

    let AgentWrapperRunControl { handle, cancel } = control(subject, &hang()).await?;
    drop(handle);
    cancel.cancel();
    nothing_lives(subject).await
}

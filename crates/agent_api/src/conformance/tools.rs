//! Helpers of the statements: run to the end, wait with a deadline, stop with a reason.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;

use super::{Scenario, Subject};
use crate::{
    AgentWrapperBackend, AgentWrapperCompletion, AgentWrapperError, AgentWrapperEvent,
    AgentWrapperEventKind, AgentWrapperOutcome, AgentWrapperRunHandle, AgentWrapperRunRequest,
    DynAgentWrapperEventStream,
};

/// The deadline for any wait. It is far more than a busy machine needs; reaching it is a failure
/// that names what did not come.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often to poll for a condition that no event announces.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Why a check stops early.
#[derive(Debug)]
pub(super) enum Stop {
    DoesNotApply(String),
    Broken(String),
}

/// Ends the check unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::conformance::tools::Stop::Broken(format!($($what)+)));
        }
    };
}
pub(super) use ensure;

/// Declares a check as a statement with its number, named after its function.
macro_rules! statement {
    ($number:literal, $check:ident) => {
        $crate::conformance::Statement {
            number: $number,
            name: stringify!($check),
            check: |subject| Box::pin($check(subject)),
        }
    };
}
pub(super) use statement;

/// A run that has ended.
pub(super) struct Ended {
    pub(super) events: Vec<AgentWrapperEvent>,
    pub(super) result: Result<AgentWrapperCompletion, AgentWrapperError>,
}

impl Ended {
    /// Returns the text of all events, joined.
    pub(super) fn text(&self) -> String {
        self.events.iter().filter_map(|event| event.text.as_deref()).collect()
    }

    /// Returns the completion of a run that must have one.
    pub(super) fn completion(&self) -> Result<&AgentWrapperCompletion, Stop> {
        self.result
            .as_ref()
            .map_err(|error| Stop::Broken(format!("the run ended with an error: {error}")))
    }

    /// Returns the completion of a run that must have succeeded.
    pub(super) fn success(&self) -> Result<&AgentWrapperCompletion, Stop> {
        let completion = self.completion()?;
        ensure!(
            completion.outcome == AgentWrapperOutcome::Succeeded,
            "the run failed: {:?}",
            completion.outcome
        );
        Ok(completion)
    }

    /// Returns the reason of a run that must have failed, with exactly one error event at its end
    /// that says the same.
    pub(super) fn failure(&self) -> Result<&str, Stop> {
        let reason = match &self.completion()?.outcome {
            AgentWrapperOutcome::Failed { reason } => reason,
            AgentWrapperOutcome::Succeeded => {
                return Err(Stop::Broken("the run claims to have succeeded".to_owned()));
            }
        };
        self.ends_with_error(reason)?;
        Ok(reason)
    }

    /// Checks the one terminal error event.
    pub(super) fn ends_with_error(&self, message: &str) -> Result<(), Stop> {
        let errors =
            self.events.iter().filter(|event| event.kind == AgentWrapperEventKind::Error).count();
        ensure!(errors == 1, "the run failed with {errors} error events instead of one");
        let last = self.events.last().filter(|event| event.kind == AgentWrapperEventKind::Error);
        let told = last.and_then(|event| event.message.as_deref());
        ensure!(told == Some(message), "the last event says {told:?} instead of {message:?}");
        Ok(())
    }

    pub(super) fn of_kind(
        &self,
        kind: AgentWrapperEventKind,
    ) -> impl Iterator<Item = &AgentWrapperEvent> {
        self.events.iter().filter(move |event| event.kind == kind)
    }
}

/// Returns the request for a scenario, or stops because the statement does not apply.
pub(super) fn request(
    subject: &dyn Subject,
    scenario: &Scenario,
) -> Result<AgentWrapperRunRequest, Stop> {
    subject
        .request(scenario)
        .ok_or_else(|| Stop::DoesNotApply(format!("the agent cannot play {scenario:?}")))
}

/// Stops, because the statement does not apply, if the backend lacks `capability`.
pub(super) fn need(backend: &Arc<dyn AgentWrapperBackend>, capability: &str) -> Result<(), Stop> {
    if backend.capabilities().contains(capability) {
        Ok(())
    } else {
        Err(Stop::DoesNotApply(format!("{capability} is not advertised")))
    }
}

/// Plays a scenario on the default backend and reads it to its end.
pub(super) async fn play(subject: &dyn Subject, scenario: &Scenario) -> Result<Ended, Stop> {
    run_to_end(&subject.backend(), request(subject, scenario)?).await
}

/// Runs a request and reads all its events and its completion.
pub(super) async fn run_to_end(
    backend: &Arc<dyn AgentWrapperBackend>,
    request: AgentWrapperRunRequest,
) -> Result<Ended, Stop> {
    read_to_end(start(backend, request).await?).await
}

/// Reads a run to the end of its events, then its completion.
pub(super) async fn read_to_end(handle: AgentWrapperRunHandle) -> Result<Ended, Stop> {
    let events = in_time("the end of the events", handle.events.collect()).await?;
    let result = in_time("the completion", handle.completion).await?;
    Ok(Ended { events, result })
}

/// Starts a run; a refusal is a failure.
pub(super) async fn start(
    backend: &Arc<dyn AgentWrapperBackend>,
    request: AgentWrapperRunRequest,
) -> Result<AgentWrapperRunHandle, Stop> {
    in_time("the start of the run", backend.run(request))
        .await?
        .map_err(|error| Stop::Broken(format!("the run did not start: {error}")))
}

/// Reads until the agent has said `text`, and returns the events up to there.
pub(super) async fn read_until_said(
    events: &mut DynAgentWrapperEventStream,
    text: &str,
) -> Result<Vec<AgentWrapperEvent>, Stop> {
    let mut seen = Vec::new();
    let mut said = String::new();
    while !said.contains(text) {
        let what = format!("the text {text:?}");
        let Some(event) = in_time(&what, events.next()).await? else {
            return Err(Stop::Broken(format!("the events ended before the agent said {text:?}")));
        };
        said.push_str(event.text.as_deref().unwrap_or_default());
        seen.push(event);
    }
    Ok(seen)
}

/// Waits for a future with a deadline; `what` names it in the failure.
pub(super) async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> Result<T, Stop> {
    tokio::time::timeout(PATIENCE, coming)
        .await
        .map_err(|_| Stop::Broken(format!("{what} did not come within {} s", PATIENCE.as_secs())))
}

/// Waits until all processes that the subject's runs started are gone.
pub(super) async fn nothing_lives(subject: &dyn Subject) -> Result<(), Stop> {
    let gone = async {
        while subject.living() > 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    in_time("the end of everything that the run had started", gone).await
}

/// Returns a scenario that says one line.
pub(super) fn say(text: &str) -> Scenario {
    Scenario::Say { text: text.to_owned() }
}

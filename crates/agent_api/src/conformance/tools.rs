//! What the statements have in common: running to an end, waiting with a deadline, and stopping
//! with a reason.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;

use super::{Scenario, Subject};
use crate::{
    AgentWrapperBackend, AgentWrapperCompletion, AgentWrapperError, AgentWrapperEvent,
    AgentWrapperEventKind, AgentWrapperOutcome, AgentWrapperRunHandle, AgentWrapperRunRequest,
    DynAgentWrapperEventStream,
};

/// The longest that anything may take. Far more than a busy machine needs; reaching it is a failure
/// that names what did not come.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often we look whether something has come true that nobody announces.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Why a check ends before its end.
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

/// Names a check after its function and numbers it.
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

/// A run that has come to its end.
pub(super) struct Ended {
    pub(super) events: Vec<AgentWrapperEvent>,
    pub(super) result: Result<AgentWrapperCompletion, AgentWrapperError>,
}

impl Ended {
    /// Everything that was said, in one piece.
    pub(super) fn text(&self) -> String {
        self.events.iter().filter_map(|event| event.text.as_deref()).collect()
    }

    /// The completion of a run that must have one.
    pub(super) fn completion(&self) -> Result<&AgentWrapperCompletion, Stop> {
        self.result
            .as_ref()
            .map_err(|error| Stop::Broken(format!("the run ended with an error: {error}")))
    }

    /// The completion of a run that must have succeeded.
    pub(super) fn success(&self) -> Result<&AgentWrapperCompletion, Stop> {
        let completion = self.completion()?;
        ensure!(
            completion.outcome == AgentWrapperOutcome::Succeeded,
            "the run failed: {:?}",
            completion.outcome
        );
        Ok(completion)
    }

    /// The reason of a run that must have failed, with exactly one error event at its end that says
    /// the same.
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

/// Makes the request of a scenario, or says that the statement does not apply.
pub(super) fn request(
    subject: &dyn Subject,
    scenario: &Scenario,
) -> Result<AgentWrapperRunRequest, Stop> {
    subject
        .request(scenario)
        .ok_or_else(|| Stop::DoesNotApply(format!("the agent cannot play {scenario:?}")))
}

/// Says that the statement does not apply to a backend without `capability`.
pub(super) fn need(backend: &Arc<dyn AgentWrapperBackend>, capability: &str) -> Result<(), Stop> {
    if backend.capabilities().contains(capability) {
        Ok(())
    } else {
        Err(Stop::DoesNotApply(format!("{capability} is not advertised")))
    }
}

/// Plays a scenario on the plain backend and reads it to its end.
pub(super) async fn play(subject: &dyn Subject, scenario: &Scenario) -> Result<Ended, Stop> {
    run_to_end(&subject.backend(), request(subject, scenario)?).await
}

/// Runs a request and reads everything.
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

/// Starts a run that must start.
pub(super) async fn start(
    backend: &Arc<dyn AgentWrapperBackend>,
    request: AgentWrapperRunRequest,
) -> Result<AgentWrapperRunHandle, Stop> {
    in_time("the start of the run", backend.run(request))
        .await?
        .map_err(|error| Stop::Broken(format!("the run did not start: {error}")))
}

/// Reads until the agent has said `text`; what came before it is returned.
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

/// Waits for something to come.
pub(super) async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> Result<T, Stop> {
    tokio::time::timeout(PATIENCE, coming)
        .await
        .map_err(|_| Stop::Broken(format!("{what} did not come within {} s", PATIENCE.as_secs())))
}

/// Waits until nothing lives that the subject's runs have started.
pub(super) async fn nothing_lives(subject: &dyn Subject) -> Result<(), Stop> {
    let gone = async {
        while subject.living() > 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    in_time("the end of everything that the run had started", gone).await
}

/// A line to say.
pub(super) fn say(text: &str) -> Scenario {
    Scenario::Say { text: text.to_owned() }
}

//! The steps that all tasks which own a run share: forward events, read answers, end the child.

use std::{ops::ControlFlow, pin::pin, process::ExitStatus};

use agent_lines::{
    child::{ChildOptions, Environment, RunError, TerminationHandle},
    rpc::{CallError, RpcError},
};

use super::{
    config::AgentEnvironment,
    outcome::{Failure, Lost, Told, end_of},
    verdict::TurnVerdict,
};
use crate::{
    AgentWrapperError, AgentWrapperEvent, AgentWrapperKind, AgentWrapperRunRequest, CANCELLED,
    gate::{Forwarded, RunSink},
};

/// Why the connection to an agent stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The turn is over, or will not begin: the verdict says why.
    Over,
    /// The agent's output has ended.
    Ended,
    /// The run was cancelled.
    Cancelled,
}

/// Continues, or stops for a reason.
pub(crate) type Step<T = ()> = ControlFlow<Stop, T>;

/// How an agent is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its input is closed, and it gets a grace to end by itself.
    Close,
    /// It is ended at once.
    Now,
    /// Its output has ended, and we wait for its exit.
    Await,
}

/// Forwards an event, if there is one.
pub(crate) async fn tell(sink: &RunSink, event: Option<AgentWrapperEvent>) -> Step {
    let Some(event) = event else { return Step::Continue(()) };
    // An event without a reader counts as sent: the run is drained to its end.
    match sink.send(event).await {
        Forwarded::Sent | Forwarded::Unread => Step::Continue(()),
        Forwarded::Cancelled => Step::Break(Stop::Cancelled),
    }
}

/// Records the failure for a missing answer and returns why to stop; `refused` turns a refusal into
/// a failure.
pub(crate) fn unanswered(
    verdict: &mut TurnVerdict,
    error: CallError,
    refused: impl FnOnce(&RpcError) -> Failure,
) -> Stop {
    let failure = match error {
        CallError::Ended => return Stop::Ended,
        CallError::Refused(error) => refused(&error),
        CallError::Send(_)
        | CallError::Silent
        | CallError::TooManyLines
        | CallError::Unreadable => Failure::Handshake,
    };
    verdict.note_failure(failure);
    Stop::Over
}

/// Ends the agent with `end`, in the way that `stop` requires, and then the run. The process is
/// gone before the sink is told of the end.
pub(crate) async fn finish<F>(
    stop: Stop,
    termination: TerminationHandle,
    end: impl FnOnce(Ending) -> F,
    told: impl FnOnce() -> (TurnVerdict, Told),
    kind: &AgentWrapperKind,
    sink: RunSink,
) where
    F: Future<Output = Result<ExitStatus, RunError>>,
{
    let cancelled = || Err(AgentWrapperError::backend(CANCELLED));
    let exit = match stop {
        Stop::Cancelled => {
            // Only the end matters here, not the exit status.
            let _ = end(Ending::Now).await;
            return sink.end(cancelled());
        }
        Stop::Over => {
            let mut close = pin!(end(Ending::Close));
            tokio::select! {
                biased;
                () = sink.cancelled() => {
                    termination.terminate();
                    let _ = close.await;
                    return sink.end(cancelled());
                }
                exit = &mut close => exit,
            }
        }
        Stop::Ended => end(Ending::Await).await,
    };
    let exit = exit.map_err(|error| match error {
        RunError::Timeout { .. } => Lost::TimedOut,
        RunError::RunLost => Lost::RuntimeGone,
        RunError::Wait(_) => Lost::Unknown,
    });
    let (verdict, told) = told();
    let (end, last) = end_of(exit, |status| verdict.outcome(status), told, kind);
    if let Some(last) = last {
        // If the reader is gone, the completion still says it.
        let _ = sink.send(last).await;
    }
    sink.end(end);
}

/// Returns the options to start a process for a request. Later variables override earlier ones, so
/// the order of the environment is the order of precedence.
pub(crate) fn child_options<'a>(
    mut child: ChildOptions,
    environment: AgentEnvironment,
    env: impl Iterator<Item = (&'a String, &'a String)>,
    termination_grace: Option<std::time::Duration>,
    timeout: Option<std::time::Duration>,
) -> ChildOptions {
    child = child.environment(match environment {
        AgentEnvironment::Inherit => Environment::Inherit,
        AgentEnvironment::Clear => Environment::Clear,
    });
    for (name, value) in env {
        child = child.env(name, value);
    }
    if let Some(grace) = termination_grace {
        child = child.termination_grace(grace);
    }
    if let Some(timeout) = timeout {
        child = child.timeout(timeout);
    }
    child
}

/// Refuses a value for the mark of a backend, which takes none.
pub(crate) fn takes_no_value(
    request: &AgentWrapperRunRequest,
    mark: &str,
) -> Result<(), AgentWrapperError> {
    if request.extensions.contains_key(mark) {
        return Err(AgentWrapperError::invalid_request(format!("{mark}: takes no value")));
    }
    Ok(())
}

//! What the tasks that own a run do alike: forward events, read answers, end the child.

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

/// Why a conversation with an agent stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The turn is over, or will not begin: the verdict knows how it went.
    Over,
    /// The agent's output has ended.
    Ended,
    /// Somebody cancelled the run.
    Cancelled,
}

/// Goes on, or stops for a reason.
pub(crate) type Step<T = ()> = ControlFlow<Stop, T>;

/// How an agent is brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is left to come to its end.
    Close,
    /// It is ended now.
    Now,
    /// Its output has ended, and it is waited for.
    Await,
}

/// Forwards an event, if there is one.
pub(crate) async fn tell(sink: &RunSink, event: Option<AgentWrapperEvent>) -> Step {
    let Some(event) = event else { return Step::Continue(()) };
    // An event that nobody reads is as good as sent: the run is drained to its end.
    match sink.send(event).await {
        Forwarded::Sent | Forwarded::Unread => Step::Continue(()),
        Forwarded::Cancelled => Step::Break(Stop::Cancelled),
    }
}

/// What an answer that did not come means; a refusal is the failure that `refused` makes of it.
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

/// Ends the agent as `stop` wants it, with `end`, and the run with it. The process is gone before
/// the sink is told of it.
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
            // How it ends does not matter any more, only that it has.
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
        // A reader that is gone reads the completion instead.
        let _ = sink.send(last).await;
    }
    sink.end(end);
}

/// How a process is started for a request. Later variables win, so the order of the environment is
/// the order of say.
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

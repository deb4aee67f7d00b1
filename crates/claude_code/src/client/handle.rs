//! The parts of a run that its caller holds.

use std::future::Future;
use std::pin::Pin;
use std::process::ExitStatus;
use std::task::{Context, Poll};

use agent_lines::child::{
    Completion, EventStream, LiveChild, RunError, StderrTail, TerminationHandle,
};

use super::ClaudeCodeError;
use crate::event::ClaudeStreamJsonEvent;
use crate::parser::ClaudeStreamJsonParseError;

/// A run. Dropping it, or `events`, ends the child with everything it started.
#[derive(Debug)]
#[must_use = "dropping the handle ends the child"]
pub struct ClaudePrintStreamJsonHandle {
    /// The events, in the order of the lines. A line that cannot be read is one error in its place.
    pub events: ClaudeEventStream,
    /// How the child ended. It resolves when the child is gone, even if nobody reads the events.
    pub completion: ClaudeCompletion,
    termination: TerminationHandle,
    stderr_tail: StderrTail,
}

impl ClaudePrintStreamJsonHandle {
    /// Returns a handle that can end the run; it may outlive this one.
    pub fn termination(&self) -> TerminationHandle {
        self.termination.clone()
    }

    /// Returns a view of the last lines that the child wrote to its standard error.
    pub fn stderr_tail(&self) -> StderrTail {
        self.stderr_tail.clone()
    }
}

impl From<LiveChild<ClaudeStreamJsonEvent>> for ClaudePrintStreamJsonHandle {
    fn from(child: LiveChild<ClaudeStreamJsonEvent>) -> Self {
        Self {
            events: child.events,
            completion: ClaudeCompletion(child.completion),
            termination: child.termination,
            stderr_tail: child.stderr_tail,
        }
    }
}

/// The events of a run.
pub type ClaudeEventStream = EventStream<ClaudeStreamJsonEvent>;

/// How a run ended. A child that exits with an error code is `Ok`: the code is its answer.
#[derive(Debug)]
pub struct ClaudeCompletion(Completion);

impl Future for ClaudeCompletion {
    type Output = Result<ExitStatus, ClaudeCodeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|error| match error {
            RunError::Timeout { after } => ClaudeCodeError::Timeout { after },
            RunError::Wait(source) => ClaudeCodeError::Wait(source),
            RunError::RunLost => ClaudeCodeError::RunLost,
        })
    }
}

/// The complete output of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClaudePrintOutput {
    /// The events, in the order of the lines.
    pub events: Vec<Result<ClaudeStreamJsonEvent, ClaudeStreamJsonParseError>>,
    /// How the child ended.
    pub status: ExitStatus,
    /// The last lines that it wrote to its standard error, redacted.
    pub stderr_tail: String,
}

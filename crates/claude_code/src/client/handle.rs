//! What a caller holds of a run.

use std::future::Future;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use tokio::sync::{mpsc, oneshot, watch};

use super::{ClaudeCodeError, StderrTail};
use crate::event::ClaudeStreamJsonEvent;
use crate::parser::ClaudeStreamJsonParseError;

/// How many events may wait for the caller. When they do, the child waits too: nothing is dropped and nothing grows.
pub const EVENT_CHANNEL_CAPACITY: usize = 32;

/// One item of the stream.
pub(super) type Item = Result<ClaudeStreamJsonEvent, ClaudeStreamJsonParseError>;

/// A run. Dropping it, or `events`, ends the child with everything it started.
#[derive(Debug)]
#[must_use = "dropping the handle ends the child"]
pub struct ClaudePrintStreamJsonHandle {
    /// The events, in the order of the lines. A line that cannot be read is one error in its place.
    pub events: ClaudeEventStream,
    /// How the child ended. It resolves when the child is gone, whether or not the events were read.
    pub completion: ClaudeCompletion,
    pub(super) termination: TerminationHandle,
    pub(super) stderr_tail: StderrTail,
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

/// The events of a run.
#[derive(Debug)]
pub struct ClaudeEventStream(pub(super) mpsc::Receiver<Item>);

impl Stream for ClaudeEventStream {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        self.0.poll_recv(cx)
    }
}

/// How a run ended. A child that exits with an error code is `Ok`: the code is its answer.
#[derive(Debug)]
pub struct ClaudeCompletion(pub(super) oneshot::Receiver<Result<ExitStatus, ClaudeCodeError>>);

impl Future for ClaudeCompletion {
    type Output = Result<ExitStatus, ClaudeCodeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|sent| sent.unwrap_or(Err(ClaudeCodeError::RunLost)))
    }
}

/// Ends a run. Cheap to clone; does nothing once the run has ended.
#[derive(Debug, Clone)]
pub struct TerminationHandle(pub(super) Arc<watch::Sender<u32>>);

impl TerminationHandle {
    /// Asks the child to end; it is killed after its grace. Asked again, it is killed at once.
    pub fn terminate(&self) {
        self.0.send_modify(|asked| *asked = asked.saturating_add(1));
    }
}

/// Everything that a run gave.
#[derive(Debug)]
pub struct ClaudePrintOutput {
    /// The events, in the order of the lines.
    pub events: Vec<Result<ClaudeStreamJsonEvent, ClaudeStreamJsonParseError>>,
    /// How the child ended.
    pub status: ExitStatus,
    /// The last lines that it wrote to its standard error, redacted.
    pub stderr_tail: String,
}

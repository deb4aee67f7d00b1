//! The parts of a running child that its caller holds.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, oneshot, watch};

use super::StderrTail;
use crate::LineError;

/// How many events may wait for the caller. When the channel is full, the child waits too: this
/// back-pressure drops no event and bounds the memory.
pub const EVENT_CHANNEL_CAPACITY: usize = 32;

/// One item of the stream.
pub(super) type Item<E> = Result<E, LineError>;

/// A running child. Dropping it, or `events`, ends the child with everything it started.
#[derive(Debug)]
#[must_use = "dropping the handle ends the child"]
pub struct LiveChild<E> {
    /// The events, in the order of the lines. A line that cannot be read is one error in its place.
    pub events: EventStream<E>,
    /// How the child ended. It resolves when the child and everything it started are gone, even if
    /// nobody reads the events.
    pub completion: Completion,
    /// The child's standard input, when it was started with [`Input::Open`](super::Input::Open).
    pub stdin: Option<ChildStdin>,
    /// Ends the child; may outlive this handle.
    pub termination: TerminationHandle,
    /// The last lines that the child wrote to its standard error.
    pub stderr_tail: StderrTail,
}

/// The events of a child.
#[derive(Debug)]
pub struct EventStream<E>(pub(super) mpsc::Receiver<Item<E>>);

impl<E> Stream for EventStream<E> {
    type Item = Item<E>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<E>>> {
        self.0.poll_recv(cx)
    }
}

/// How a child ended. One that exits with an error code is `Ok`: the code is its answer.
#[derive(Debug)]
pub struct Completion(pub(super) oneshot::Receiver<Result<ExitStatus, RunError>>);

impl Future for Completion {
    type Output = Result<ExitStatus, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|sent| sent.unwrap_or(Err(RunError::RunLost)))
    }
}

/// Why a run failed. The error contains none of the child's output.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The child exceeded its time limit. It and everything it started are gone.
    #[error("the child did not end within {after:?} and was stopped")]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// The system could not tell how the child ended.
    #[error("could not wait for the child")]
    Wait(#[source] io::Error),
    /// The task that owns the run is gone, because its runtime was shut down.
    #[error("the run was given up because its runtime was shut down")]
    RunLost,
}

/// Ends a child. Cheap to clone; does nothing once the child has ended.
#[derive(Debug, Clone)]
pub struct TerminationHandle(pub(super) Arc<watch::Sender<u32>>);

impl TerminationHandle {
    /// Asks the child to end, and kills it after its grace. A second call kills it at once.
    pub fn terminate(&self) {
        self.0.send_modify(|asked| *asked = asked.saturating_add(1));
    }
}

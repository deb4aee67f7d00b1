//! The gate between a backend and the caller of one run. It lets `completion` resolve only after
//! the process has exited and the stream has ended.
//!
//! [`open`] creates both sides. The caller's side is an ordinary [`AgentWrapperRunControl`]. The
//! backend's side is a [`RunSink`], owned by the one task that drives the agent: it sends events,
//! watches for cancellation, and reports how the run ended **after the process is gone**.
//! Everything that the contract promises about order follows from four facts kept here:
//!
//! - *over*: `events` has yielded its end, or was dropped; nobody waits for an event any more.
//! - *result*: the backend has reported how the run ended, so the process has exited.
//! - *cancelled*: the caller cancelled the run. From then on `events` yields nothing.
//! - *observed*: `completion` has resolved. From then on a cancel does nothing.
//!
//! `completion` needs *result*, and *over* or *cancelled*: after a cancel there is nothing left to
//! read, so a caller that cancels and then waits need not read on. *cancelled* and *observed*
//! exclude each other under one lock: the first one wins.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use futures::{FutureExt, Stream, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    AgentWrapperCancelHandle, AgentWrapperCompletion, AgentWrapperError, AgentWrapperEvent,
    AgentWrapperKind, AgentWrapperRunControl, AgentWrapperRunHandle,
    bounds::{self, EVENT_CHANNEL_CAPACITY},
    error::CANCELLED,
};

type RunResult = Result<AgentWrapperCompletion, AgentWrapperError>;

/// Creates the two sides of a run of `agent_kind`.
pub fn open(agent_kind: AgentWrapperKind) -> (AgentWrapperRunControl, RunSink) {
    let facts = Arc::new(Facts::default());
    let (event_tx, event_rx) = mpsc::channel(EVENT_CHANNEL_CAPACITY);
    let (result_tx, result_rx) = oneshot::channel();

    let events = GatedEvents {
        from_backend: event_rx,
        cancelled: facts.cancelled.clone().cancelled_owned().boxed(),
        facts: Arc::clone(&facts),
    };
    let completion = GatedCompletion {
        result_behind_stream: result_behind_stream(result_rx, Arc::clone(&facts)).boxed(),
        facts: Arc::clone(&facts),
    };
    let for_cancel = Arc::clone(&facts);
    let control = AgentWrapperRunControl {
        handle: AgentWrapperRunHandle {
            events: Box::pin(events),
            completion: Box::pin(completion),
        },
        cancel: AgentWrapperCancelHandle::new(move || for_cancel.cancel()),
    };
    (control, RunSink { agent_kind, to_reader: event_tx, result: result_tx, facts })
}

/// The backend's side of a run.
///
/// If it is dropped without [`end`](Self::end), it ends the run with an error, so that no caller
/// waits for a backend that is gone.
#[must_use = "a run ends with an error when its sink is dropped"]
#[derive(Debug)]
pub struct RunSink {
    agent_kind: AgentWrapperKind,
    to_reader: mpsc::Sender<AgentWrapperEvent>,
    result: oneshot::Sender<RunResult>,
    facts: Arc<Facts>,
}

/// The result of sending an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "after a cancel the backend has an agent to end"]
pub enum Forwarded {
    /// The event is on its way to the reader.
    Sent,
    /// Nobody reads any more; the run continues.
    Unread,
    /// The run was cancelled: end the agent, then call [`RunSink::end`].
    Cancelled,
}

impl RunSink {
    /// Sends an event within its [`bounds`], with this run's kind. Waits while the reader is slow.
    pub async fn send(&self, event: AgentWrapperEvent) -> Forwarded {
        for mut piece in bounds::bounded(event) {
            piece.agent_kind = self.agent_kind.clone();
            let sent = tokio::select! {
                biased;
                () = self.facts.cancelled.cancelled() => return Forwarded::Cancelled,
                sent = self.to_reader.send(piece) => sent,
            };
            if sent.is_err() {
                return if self.is_cancelled() { Forwarded::Cancelled } else { Forwarded::Unread };
            }
        }
        Forwarded::Sent
    }

    /// Waits until the run is cancelled.
    pub async fn cancelled(&self) {
        self.facts.cancelled.cancelled().await;
    }

    /// Returns whether the run was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.facts.cancelled.is_cancelled()
    }

    /// Ends the run. Call it after the process is gone, because `completion` may resolve from here
    /// on.
    pub fn end(self, result: RunResult) {
        // The send fails if the caller has dropped the completion, which it may.
        let _ = self.result.send(result);
    }
}

/// The facts of one run; the documentation of this module explains them.
#[derive(Debug, Default)]
struct Facts {
    cancelled: CancellationToken,
    over: CancellationToken,
    held: Mutex<Held>,
}

/// Which parts the caller still holds, and whether it has observed the completion.
#[derive(Debug, Default)]
struct Held {
    observed: bool,
    events_dropped: bool,
    completion_dropped: bool,
}

impl Facts {
    fn with_held<T>(&self, look: impl FnOnce(&mut Held) -> T) -> T {
        // Nothing under this lock can panic half way, so a poisoned lock is fine.
        look(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn cancel(&self) {
        // The lock gives an observation and a cancel an order.
        self.with_held(|held| {
            if !held.observed {
                self.cancelled.cancel();
            }
        });
    }

    /// Returns the result, unless a cancel came first.
    fn observe(&self, result: RunResult) -> RunResult {
        self.with_held(|held| {
            held.observed = true;
            if self.cancelled.is_cancelled() {
                Err(AgentWrapperError::backend(CANCELLED))
            } else {
                result
            }
        })
    }

    /// Records that the caller dropped a part. When both parts are dropped nobody can observe the
    /// run any more, so it is cancelled.
    fn drop_part(&self, note: impl FnOnce(&mut Held)) {
        let abandoned = self.with_held(|held| {
            note(held);
            held.events_dropped && held.completion_dropped
        });
        if abandoned {
            self.cancel();
        }
    }
}

/// The caller's stream: yields the backend's events until its end or a cancel.
struct GatedEvents {
    from_backend: mpsc::Receiver<AgentWrapperEvent>,
    cancelled: BoxFuture<'static, ()>,
    facts: Arc<Facts>,
}

impl Stream for GatedEvents {
    type Item = AgentWrapperEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // A stream that has ended stays ended, and `cancelled` must not be polled again after it
        // was ready.
        if self.facts.over.is_cancelled() {
            return Poll::Ready(None);
        }
        // The cancel is checked first, so that events which still wait in the channel are not
        // forwarded after it.
        if self.cancelled.poll_unpin(cx).is_pending()
            && let Some(event) = ready!(self.from_backend.poll_recv(cx))
        {
            return Poll::Ready(Some(event));
        }
        // Closing the channel frees a backend that is waiting in a send.
        self.from_backend.close();
        self.facts.over.cancel();
        Poll::Ready(None)
    }
}

impl Drop for GatedEvents {
    fn drop(&mut self) {
        self.facts.over.cancel();
        self.facts.drop_part(|held| held.events_dropped = true);
    }
}

/// The caller's completion: the result, once the stream is over too.
struct GatedCompletion {
    result_behind_stream: BoxFuture<'static, RunResult>,
    facts: Arc<Facts>,
}

impl Future for GatedCompletion {
    type Output = RunResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.result_behind_stream.poll_unpin(cx));
        Poll::Ready(self.facts.observe(result))
    }
}

impl Drop for GatedCompletion {
    fn drop(&mut self) {
        self.facts.drop_part(|held| held.completion_dropped = true);
    }
}

async fn result_behind_stream(
    result: oneshot::Receiver<RunResult>,
    facts: Arc<Facts>,
) -> RunResult {
    let result = result.await.unwrap_or_else(|_| {
        Err(AgentWrapperError::backend("the backend stopped without saying how the run ended"))
    });
    tokio::select! {
        () = facts.over.cancelled() => {}
        () = facts.cancelled.cancelled() => {}
    }
    result
}

#[cfg(test)]
mod tests;

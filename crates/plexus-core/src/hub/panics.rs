//! Turns a panic of a method into an `internal` error, so that its caller gets an answer.
//!
//! A transport awaits a call within a task of its connection. Without this, a panic unwinds that
//! task, and the caller waits until its connection ends. The log names the method and the place of
//! the panic; the message of the panic is not kept, because it may quote what an agent wrote.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::task::Poll;

use futures::future::poll_fn;
use futures::stream::{StreamExt as _, poll_fn as stream_of};
use plexus_wire::CallError;

use crate::method::{Reply, ReplyStream};

/// The panics of methods since the start.
#[derive(Clone, Default)]
pub(super) struct Panics(Arc<AtomicU64>);

impl Panics {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for the reply of `method`. A panic is an `internal` error, now and later: in the
    /// change that comes with an answer, and in the middle of a stream.
    pub(super) async fn guard(
        &self,
        method: &str,
        call: impl Future<Output = Result<Reply, CallError>> + Send,
    ) -> Result<Reply, CallError> {
        let method: Arc<str> = Arc::from(method);
        let reply = self.clone().catch(Arc::clone(&method), call).await?;
        Ok(match reply {
            Reply::Value(answer) => Reply::Value(
                answer.map_change(|change| Box::pin(self.clone().catch(method, change))),
            ),
            Reply::Stream(items) => Reply::Stream(self.clone().catch_in_stream(method, items)),
        })
    }

    async fn catch<T>(
        self,
        method: Arc<str>,
        work: impl Future<Output = Result<T, CallError>> + Send,
    ) -> Result<T, CallError> {
        let mut work = std::pin::pin!(work);
        poll_fn(move |context| {
            let polled = catch(|| work.as_mut().poll(context));
            polled.unwrap_or_else(|place| Poll::Ready(Err(self.report(&method, &place))))
        })
        .await
    }

    fn catch_in_stream(self, method: Arc<str>, items: ReplyStream) -> ReplyStream {
        let mut open = Some(items);
        let caught = stream_of(move |context| {
            let Some(items) = &mut open else { return Poll::Ready(None) };
            catch(|| items.poll_next_unpin(context)).unwrap_or_else(|place| {
                open = None;
                Poll::Ready(Some(Err(self.report(&method, &place))))
            })
        });
        caught.boxed()
    }

    fn report(&self, method: &str, place: &str) -> CallError {
        self.0.fetch_add(1, Ordering::Relaxed);
        tracing::error!(method, place, "a method panicked");
        CallError::internal(format_args!("finish {method}: its code panicked"))
            .with_hint("report this defect; the server's log says where the code panicked")
    }
}

thread_local! {
    /// Whether this thread polls a method, whose panics are caught.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    /// The place of the last caught panic on this thread.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Does `work`, or returns the place where it panicked.
fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    // Only a panic hook learns the place. For panics that are not caught here, the hook of the
    // program stays in force.
    HOOK.call_once(|| {
        let of_the_program = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CATCHES.get() { note_place(info) } else { of_the_program(info) }
        }));
    });
    let outer = CATCHES.replace(true);
    // The work is dropped after a panic, so nothing sees a state that it left half changed.
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHES.set(outer);
    done.map_err(|_message| PLACE.take().unwrap_or_else(|| "unknown".to_owned()))
}

fn note_place(info: &PanicHookInfo<'_>) {
    PLACE.set(info.location().map(ToString::to_string));
}

//! The write queue of one WebSocket: bounded in messages and in bytes, and counted as held by its
//! caller.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use futures::SinkExt;
use futures::stream::SplitSink;
use plexus_core::Caller;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::limits::{SOCKET_QUEUE, SOCKET_QUEUE_BYTES};
use crate::shares::{Shares, Taken};

/// Opens the outbox of a socket. The writer task ends when the last [`Outbox`] is dropped, or when
/// the socket cannot be written to.
pub(crate) fn open(
    mut sink: SplitSink<WebSocket, Message>,
    bytes: Arc<Shares>,
    caller: Caller,
) -> (Outbox, JoinHandle<()>) {
    let (queue, mut waiting) = mpsc::channel::<Waiting>(SOCKET_QUEUE);
    let writer = tokio::spawn(async move {
        while let Some(Waiting { message, _held }) = waiting.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
    });
    let room = Arc::new(Semaphore::new(SOCKET_QUEUE_BYTES));
    (Outbox { queue, room, bytes, caller }, writer)
}

/// A handle to one socket's writer. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbox {
    queue: mpsc::Sender<Waiting>,
    /// Bytes that may still be queued.
    room: Arc<Semaphore>,
    bytes: Arc<Shares>,
    caller: Caller,
}

struct Waiting {
    message: Message,
    _held: Option<(OwnedSemaphorePermit, Taken)>,
}

/// The socket is closed.
#[derive(Debug)]
pub(crate) struct Closed;

impl Outbox {
    /// Writes a small answer, once there is room for it.
    pub(crate) async fn answer(&self, text: String) -> Result<(), Closed> {
        let held = self.bytes.charge(self.caller, text.len());
        self.item(text, held).await
    }

    /// Writes an answer or an item of a stream, which already counts as held, once there is room
    /// for it.
    pub(crate) async fn item(&self, text: String, held: Taken) -> Result<(), Closed> {
        let wanted = u32::try_from(text.len().min(SOCKET_QUEUE_BYTES)).map_err(|_| Closed)?;
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(wanted) => room.map_err(|_| Closed)?,
            () = self.queue.closed() => return Err(Closed),
        };
        let waiting = Waiting { message: Message::Text(text.into()), _held: Some((room, held)) };
        self.queue.send(waiting).await.map_err(|_| Closed)
    }

    /// Writes a small message that is not an answer, once there is room in the queue.
    pub(crate) async fn say(&self, message: Message) {
        // On a closed socket nobody reads the message.
        let _closed = self.queue.send(Waiting { message, _held: None }).await;
    }

    /// Pings the client. A full queue means that the client is slow, so the ping is skipped: the
    /// queued messages already test whether it reads.
    pub(crate) fn ping(&self) {
        let ping = Waiting { message: Message::Ping(Default::default()), _held: None };
        let _full = self.queue.try_send(ping);
    }
}

//! Events as they happen, across reconnects.
//!
//! Each item carries the cursor after it. After a lost connection the next one starts after the
//! last item that was received. So nothing is lost or repeated, however often the server restarts
//! and at whatever address it then listens.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use plexus_wire::{ChatEvent, ErrorKind, FollowParams, FollowedEvent, LiveText, WaitParams};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::error::ClientError;
use crate::socket::{Heard, Socket};

/// How many items wait for a slow reader; beyond that, back-pressure reaches the connection.
const QUEUE: usize = 256;

/// The first pause before reconnecting, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// One item of a followed stream.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum FollowItem {
    /// An event.
    Event(Box<Event>),
    /// A live piece of text; the whole text comes as an event later.
    Live(LiveText),
    /// The connection is lost; the client retries until it works.
    Lost,
    /// The connection is back; the missed events follow.
    Back,
}

/// An event, where it belongs, and the cursor after it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The event as the wire shows it: its session, chat, number, time and node.
    pub at: FollowedEvent,
    /// What happened.
    pub event: ChatEvent,
    /// The cursor after it, for [`FollowParams::after`].
    pub cursor: String,
}

/// A stream of events that reconnects by itself. It ends only with an error that a retry cannot
/// fix. Dropping it stops following.
#[derive(Debug)]
pub struct Follow {
    items: mpsc::Receiver<Result<FollowItem, ClientError>>,
    task: JoinHandle<()>,
}

impl Follow {
    pub(crate) fn start(client: Client, params: FollowParams) -> Self {
        let (sender, items) = mpsc::channel(QUEUE);
        let task = tokio::spawn(Follower { client, params, sender }.run());
        Self { items, task }
    }
}

impl Stream for Follow {
    type Item = Result<FollowItem, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_recv(context)
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower {
    client: Client,
    /// The parameters of the next connection; the cursor moves with each event.
    params: FollowParams,
    sender: mpsc::Sender<Result<FollowItem, ClientError>>,
}

/// The reader has dropped the stream.
struct NobodyListens;

impl Follower {
    async fn run(mut self) {
        if let Err(Some(error)) = self.follow_on().await {
            // It does not matter whether the reader is still there: this is the last item.
            let _gone = self.sender.send(Err(error)).await;
        }
    }

    /// Reconnects until the reader has gone, which is `None`, or until an error that a retry cannot
    /// fix.
    async fn follow_on(&mut self) -> Result<(), Option<ClientError>> {
        let mut pause = FIRST_PAUSE;
        let mut lost = false;
        loop {
            match self.follow_once(&mut lost, &mut pause).await {
                Ok(NobodyListens) => return Err(None),
                Err(error) if error.is_absence() => tracing::debug!(%error, "lost the stream"),
                Err(error) => return Err(Some(error)),
            }
            if !lost {
                lost = true;
                self.tell(FollowItem::Lost).await.map_err(|NobodyListens| None)?;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn follow_once(
        &mut self,
        lost: &mut bool,
        pause: &mut Duration,
    ) -> Result<NobodyListens, ClientError> {
        let address = self.client.endpoint().address()?;
        if self.params.session_id.is_none() && self.params.cursor.is_none() {
            // The start of "from now on" is fixed before the first connection: a reconnect must not
            // move it.
            self.params.cursor = Some(self.newest_position().await?);
        }
        let mut socket = Socket::open(&address).await?;
        socket.follow(&self.params).await?;
        loop {
            let heard = socket.next().await?;
            if *lost {
                *lost = false;
                if self.tell(FollowItem::Back).await.is_err() {
                    return Ok(NobodyListens);
                }
            }
            *pause = FIRST_PAUSE;
            let item = match heard {
                Heard::Alive => continue,
                Heard::Live(text) => FollowItem::Live(text),
                Heard::Event(event) => {
                    self.params.cursor = Some(event.cursor.clone());
                    // The position of a named consumer was only the start; from here on the cursor
                    // counts.
                    self.params.consumer = None;
                    FollowItem::Event(event)
                }
            };
            if self.tell(item).await.is_err() {
                return Ok(NobodyListens);
            }
        }
    }

    /// Returns the cursor after everything that the caller can see.
    async fn newest_position(&self) -> Result<String, ClientError> {
        match self.client.health().state().await {
            Ok(state) => return Ok(state.counts.commits.to_string()),
            // Only the operator may read the number of commits.
            Err(ClientError::Call(error))
                if error.kind == ErrorKind::Forbidden || error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut params = WaitParams::default();
        loop {
            let waited = self.client.agents().wait(&params).await?;
            if waited.sessions.is_empty() {
                return Ok(waited.after.to_string());
            }
            params.after = Some(waited.after);
        }
    }

    async fn tell(&self, item: FollowItem) -> Result<(), NobodyListens> {
        self.sender.send(Ok(item)).await.map_err(|_| NobodyListens)
    }
}

//! Events as they happen, across reconnects.
//!
//! Each item carries the position behind it. After a lost connection the next one starts behind the last item that was handed out, so that nothing
//! is lost and nothing comes twice, however often the server restarts and wherever it then listens.

use std::time::Duration;

use plexus_core::{ErrorKind, SessionId};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::error::ClientError;
use crate::event::SessionEvent;
use crate::socket::{Heard, Socket};

/// Items that wait for a slow reader; behind them the connection itself waits.
const QUEUE: usize = 256;

/// The first pause before connecting again, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What to follow.
#[derive(Clone, Debug, Default)]
pub struct FollowOptions {
    /// One session; without it all, from now on.
    pub session: Option<SessionId>,
    /// The position to go on behind.
    pub cursor: Option<String>,
    /// Also live pieces of text, which are never stored. Needs a session.
    pub deltas: bool,
}

/// One thing that a follower hears.
#[derive(Clone, PartialEq, Debug)]
pub enum Followed {
    /// An event.
    Event(Box<SessionEvent>),
    /// A live piece of text; the whole text comes as an event later.
    Delta {
        /// The piece.
        text: String,
    },
    /// A message of the agent begins. Live text that was shown and did not become an event is void: after a broken connection to the model it
    /// comes again.
    DeltaStart,
    /// The connection is lost; it is tried again until it works.
    Lost,
    /// The connection is back; what was missed follows.
    Back,
}

/// A stream of events. Dropping it ends it.
#[derive(Debug)]
pub struct Follow {
    items: mpsc::Receiver<Result<Followed, ClientError>>,
    task: JoinHandle<()>,
}

impl Follow {
    pub(crate) fn start(client: Client, options: FollowOptions) -> Self {
        let (sender, items) = mpsc::channel(QUEUE);
        let task = tokio::spawn(async move {
            let follower = Follower { client, options, sender };
            follower.run().await;
        });
        Self { items, task }
    }

    /// Returns the next item. `None` comes only after an error that another try does not heal.
    pub async fn next(&mut self) -> Option<Result<Followed, ClientError>> {
        self.items.recv().await
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower {
    client: Client,
    options: FollowOptions,
    sender: mpsc::Sender<Result<Followed, ClientError>>,
}

/// The reader has gone.
struct NobodyListens;

impl Follower {
    async fn run(mut self) {
        if let Err(Some(error)) = self.follow_on().await {
            // Whether somebody still listens does not matter: this is the last word.
            let _gone = self.sender.send(Err(error)).await;
        }
    }

    /// Connects again and again; ends with an error that another try does not heal, or with none when the reader has gone.
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
                self.tell(Followed::Lost).await.map_err(|NobodyListens| None)?;
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
        if self.options.session.is_none() && self.options.cursor.is_none() {
            // "From now on" is fixed before the first connection, so that a reconnect does not move it.
            self.options.cursor = self.newest_position().await?;
        }
        let mut socket = Socket::open(&address).await?;
        socket.follow(&self.options).await?;
        loop {
            let heard = socket.next().await?;
            if *lost {
                *lost = false;
                if self.tell(Followed::Back).await.is_err() {
                    return Ok(NobodyListens);
                }
            }
            *pause = FIRST_PAUSE;
            let item = match heard {
                Heard::Alive => continue,
                Heard::DeltaStart => Followed::DeltaStart,
                Heard::Delta { text } => Followed::Delta { text },
                Heard::Event(event) => {
                    if event.cursor.is_some() {
                        self.options.cursor.clone_from(&event.cursor);
                    }
                    Followed::Event(event)
                }
            };
            if self.tell(item).await.is_err() {
                return Ok(NobodyListens);
            }
        }
    }

    /// Returns the position behind everything there is, where the caller may know it.
    async fn newest_position(&self) -> Result<Option<String>, ClientError> {
        #[derive(Deserialize)]
        struct State {
            counts: Counts,
        }
        #[derive(Deserialize)]
        struct Counts {
            commits: u64,
        }
        match self.client.call::<State>("health.state", serde_json::json!({})).await {
            Ok(state) => Ok(Some(state.counts.commits.to_string())),
            Err(ClientError::Call(error))
                if error.kind == ErrorKind::Forbidden || error.kind == ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn tell(&self, item: Followed) -> Result<(), NobodyListens> {
        self.sender.send(Ok(item)).await.map_err(|_| NobodyListens)
    }
}

//! Turns notifications of other servers' commits into wakes.
//!
//! The listener has its own connection. A missed notification costs a delay of at most a second,
//! never data: notifications are numbered, so a gap is seen. The listener also polls the newest
//! commit in case no notification arrives at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::connect::{Connector, Heard};
use super::notes;
use super::sql::Conn;
use crate::contract::{StoreError, Wakes};
use crate::tables::sessions;

/// How often the newest commit is polled. A commit that one poll sees and no notification announces
/// before the next one was missed: twice this interval is under a second.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// How long a poll may take before the connection is considered dead.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// The pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The listener's state, owned by its task.
pub(super) struct Listener {
    pub(super) connector: Connector,
    pub(super) wakes: Wakes,
    /// The backend process of our own writer, which wakes subscribers by itself.
    pub(super) writer: Arc<AtomicI32>,
    /// The newest commit that is known here.
    pub(super) heard: Arc<AtomicU64>,
    /// Signals once that listening has begun.
    pub(super) ready: Option<oneshot::Sender<()>>,
    pub(super) shutdown: watch::Receiver<bool>,
}

impl Listener {
    /// Listens until the store is closed, and reconnects when the connection is lost.
    pub(super) async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        while !*self.shutdown.borrow() {
            let began = Instant::now();
            let mut shutdown = self.shutdown.clone();
            let ended = tokio::select! {
                ended = self.listen() => ended,
                _ = shutdown.wait_for(|closed| *closed) => return,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "the listening connection ended");
            }
            pause = if began.elapsed() > LONGEST_PAUSE {
                FIRST_PAUSE
            } else {
                (pause * 2).min(LONGEST_PAUSE)
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn listen(&mut self) -> Result<(), StoreError> {
        let (conn, mut notes) = self.connector.connect_listening().await?;
        conn.batch("LISTEN plexus").await?;
        // Covers commits made while the listener was not connected.
        let mut last = look(&conn).await?;
        self.everybody(last);
        if let Some(ready) = self.ready.take() {
            // The caller that opens the store may have gone.
            let _gone = ready.send(());
        }
        let mut seen = last;
        let mut next_look = Instant::now() + LOOK_EVERY;
        loop {
            match tokio::time::timeout_at(next_look, notes.recv()).await {
                Ok(None) => return Ok(()),
                Ok(Some(heard)) => last = self.heard(last, heard),
                Err(_) => {
                    if seen > last {
                        tracing::warn!(last, seen, "a notification was missed");
                        last = seen;
                        self.everybody(last);
                    }
                    seen = look(&conn).await?;
                    next_look = Instant::now() + LOOK_EVERY;
                }
            }
        }
    }

    /// Wakes the subscribers that a notification names. Returns the newest known commit.
    fn heard(&self, last: u64, heard: Heard) -> u64 {
        let Heard::Note(raw) = heard else {
            self.everybody(last + 1);
            return last;
        };
        let Some(note) = notes::read(raw.payload()) else {
            self.everybody(last + 1);
            return last;
        };
        // Notifications come in commit order. One that was committed before we asked for the newest
        // may still arrive, and is old.
        if note.commit <= last {
            return last;
        }
        self.heard.store(note.commit, Ordering::Relaxed);
        let missed = note.after > last;
        match note.topics {
            Some(_) if raw.process_id() == self.writer.load(Ordering::Relaxed) && !missed => {}
            Some(topics) if !missed => {
                self.wakes
                    .wake(topics.into_iter().chain([crate::contract::Topic::Commits]), note.commit);
            }
            Some(_) | None => self.wakes.wake_all(note.commit),
        }
        note.commit
    }

    fn everybody(&self, commit: u64) {
        self.heard.store(commit, Ordering::Relaxed);
        self.wakes.wake_all(commit);
    }
}

async fn look(conn: &Conn) -> Result<u64, StoreError> {
    tokio::time::timeout(LOOK_TIMEOUT, sessions::newest_commit(conn)).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable {
            message: "the database did not answer a look".to_owned(),
            source: None,
        })
    })
}

//! Listening: notes of other servers' commits become wakes here.
//!
//! On a connection of its own. A note that was missed costs a look at most a second later, never
//! data: notes are numbered, so a gap is seen, and the newest commit is looked at now and then in
//! case nothing comes at all.

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

/// How often the newest commit is looked at. What was seen at one look and has not been heard of at
/// the next was missed: twice this is under a second.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// How long a look may take before the connection is taken for dead.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// The pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The listener's state, owned by its task.
pub(super) struct Listener {
    pub(super) connector: Connector,
    pub(super) wakes: Wakes,
    /// The process that serves our own writer, which wakes by itself.
    pub(super) writer: Arc<AtomicI32>,
    /// The newest commit that was heard of.
    pub(super) heard: Arc<AtomicU64>,
    /// Told once, when it listens for the first time.
    pub(super) ready: Option<oneshot::Sender<()>>,
    pub(super) shutdown: watch::Receiver<bool>,
}

impl Listener {
    /// Listens until the store is closed, through lost connections.
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
        // Whatever was committed while nobody listened.
        let mut last = look(&conn).await?;
        self.everybody(last);
        if let Some(ready) = self.ready.take() {
            // Whoever opened the store may have left.
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

    /// Wakes whom a note concerns. Returns the newest commit that was heard of.
    fn heard(&self, last: u64, heard: Heard) -> u64 {
        let Heard::Note(raw) = heard else {
            self.everybody(last + 1);
            return last;
        };
        let Some(note) = notes::read(raw.payload()) else {
            self.everybody(last + 1);
            return last;
        };
        // Notes come in the order of the commits. One that was committed before we asked for the
        // newest may still come, and is old.
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

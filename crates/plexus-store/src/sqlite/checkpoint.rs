//! Checkpoints: moving the log into the database, on a thread of its own, so that no commit waits
//! for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::sql::store_error;
use super::writer::Health;
use crate::contract::StoreError;

/// After how many written bytes (as counted at the queue) a checkpoint is worth its flushes.
const CHECKPOINT_BYTES: usize = 2 * 1024 * 1024;

/// A log beyond this is emptied by the writer itself: under unbroken load a passive checkpoint
/// never finds the moment to start it over.
const MAX_WAL_BYTES: u64 = 64 * 1024 * 1024;

/// The writer's end: says when there is something to move.
pub(super) struct Checkpointer {
    signal: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    written: usize,
}

impl Checkpointer {
    /// Starts the thread, with a connection of its own.
    pub(super) fn start(conn: Connection, health: Arc<Health>) -> Result<Self, StoreError> {
        let (signal, wanted) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("plexus-checkpoint".to_owned())
            .spawn(move || run(&conn, &wanted, &health))
            .map_err(|error| StoreError::Unavailable {
                message: format!("start a thread: {error}"),
                source: None,
            })?;
        Ok(Self { signal: Some(signal), thread: Some(thread), written: 0 })
    }

    /// Notes a commit, and asks for a checkpoint when enough has come together.
    pub(super) fn wrote(&mut self, bytes: usize, conn: &Connection, wal: &Path, health: &Health) {
        self.written += bytes;
        if self.written < CHECKPOINT_BYTES {
            return;
        }
        self.written = 0;
        match self.signal.as_ref().map(|signal| signal.try_send(())) {
            Some(Ok(()) | Err(TrySendError::Full(()))) => {}
            Some(Err(TrySendError::Disconnected(()))) | None => checkpoint(conn, "PASSIVE", health),
        }
        if wal.metadata().is_ok_and(|log| log.len() > MAX_WAL_BYTES) {
            checkpoint(conn, "TRUNCATE", health);
        }
    }

    /// Ends the thread and empties the log, so that the file alone is the whole store.
    pub(super) fn finish(&mut self, conn: &Connection, health: &Health) {
        self.signal = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread panicked");
        }
        checkpoint(conn, "TRUNCATE", health);
    }
}

fn run(conn: &Connection, wanted: &Receiver<()>, health: &Health) {
    while wanted.recv().is_ok() {
        checkpoint(conn, "PASSIVE", health);
    }
}

fn checkpoint(conn: &Connection, mode: &str, health: &Health) {
    // Failing is no harm by itself: the log keeps everything, and the next one tries again. Only a
    // failed flush is the end.
    if let Err(error) = conn
        .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
        .map_err(store_error)
    {
        health.note(&error);
        tracing::warn!(%error, mode, "a checkpoint failed");
    }
}

//! Checkpoints: move the log into the database on a separate thread, so that no commit waits for
//! it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::sql::store_error;
use super::writer::Health;
use crate::contract::StoreError;

/// After how many written bytes (as counted at the queue) a checkpoint is worth its flushes.
const CHECKPOINT_BYTES: usize = 2 * 1024 * 1024;

/// The writer itself restarts a log of more pages than this (64 MiB, of 4 KiB each): under
/// continuous load a passive checkpoint never gets the chance.
const MAX_LOG_PAGES: u64 = 16 * 1024;

/// The writer's end: requests checkpoints.
pub(super) struct Checkpointer {
    signal: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    written: usize,
    log: Arc<Log>,
}

/// The state of the log that the thread and the writer share.
#[derive(Default)]
struct Log {
    /// How many pages it had at the newest checkpoint.
    pages: AtomicU64,
    /// Held during a checkpoint. Otherwise SQLite would make the second one wait in pauses that are
    /// longer than most checkpoints.
    turn: Mutex<()>,
}

impl Checkpointer {
    /// Starts the thread, with its own connection.
    pub(super) fn start(conn: Connection, health: Arc<Health>) -> Result<Self, StoreError> {
        let (signal, wanted) = sync_channel(1);
        let log = Arc::new(Log::default());
        let shared = Arc::clone(&log);
        let thread = std::thread::Builder::new()
            .name("plexus-checkpoint".to_owned())
            .spawn(move || run(&conn, &wanted, &shared, &health))
            .map_err(|error| StoreError::Unavailable {
                message: format!("start a thread: {error}"),
                source: None,
            })?;
        Ok(Self { signal: Some(signal), thread: Some(thread), written: 0, log })
    }

    /// Counts the bytes of a commit, and requests a checkpoint when there are enough.
    pub(super) fn wrote(&mut self, bytes: usize, conn: &Connection, health: &Health) {
        self.written += bytes;
        if self.written < CHECKPOINT_BYTES {
            return;
        }
        self.written = 0;
        if self.log.pages.load(Ordering::Relaxed) > MAX_LOG_PAGES {
            // The thread has moved all but the newest part, so this is quick. The file keeps its
            // length: overwriting it is cheaper than growing it again.
            self.log.checkpoint(conn, "RESTART", health);
            self.log.pages.store(0, Ordering::Relaxed);
            return;
        }
        match self.signal.as_ref().map(|signal| signal.try_send(())) {
            Some(Ok(()) | Err(TrySendError::Full(()))) => {}
            Some(Err(TrySendError::Disconnected(()))) | None => {
                self.log.checkpoint(conn, "PASSIVE", health);
            }
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
        self.log.checkpoint(conn, "TRUNCATE", health);
    }
}

fn run(conn: &Connection, wanted: &Receiver<()>, log: &Log, health: &Health) {
    while wanted.recv().is_ok() {
        log.checkpoint(conn, "PASSIVE", health);
    }
}

impl Log {
    fn checkpoint(&self, conn: &Connection, mode: &str, health: &Health) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = conn
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get::<_, i64>(1));
        match moved.map_err(store_error) {
            // A store in memory has no log, and reports -1.
            Ok(pages) => self.pages.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed),
            // A failure alone does no harm: the log keeps everything, and the next checkpoint tries
            // again. Only a failed flush is fatal.
            Err(error) => {
                health.note(&error);
                tracing::warn!(%error, mode, "a checkpoint failed");
            }
        }
    }
}

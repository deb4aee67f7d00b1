//! Checkpoints: move the log into the database on a separate thread, so that no commit waits for
//! it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::sql::store_error;
use super::writer::Health;
use crate::contract::StoreError;

/// After how many more pages in the log (4 MiB, of 4 KiB each) a checkpoint is worth its flushes.
/// Pages count, and not what callers wrote: a small change writes many times its size.
const CHECKPOINT_PAGES: u64 = 1024;

/// The writer itself restarts a log of more pages than this (64 MiB, of 4 KiB each): under
/// continuous load a passive checkpoint never gets the chance.
const MAX_LOG_PAGES: u64 = 16 * 1024;

/// The writer's end: requests checkpoints.
pub(super) struct Checkpointer {
    signal: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// How many pages the log had when a checkpoint was last requested.
    requested_at: u64,
    log: Arc<Log>,
}

/// The state of the log that the thread and the writer share.
#[derive(Default)]
struct Log {
    /// How many pages it has after the newest commit. The next commit starts over when a checkpoint
    /// has moved all of them and nobody reads them.
    pages: AtomicU64,
    /// Held during a checkpoint. Otherwise SQLite would make the second one wait in pauses that are
    /// longer than most checkpoints.
    turn: Mutex<()>,
}

impl Checkpointer {
    /// Starts the thread, with its own connection, for the log that `writer` fills.
    pub(super) fn start(
        conn: Connection,
        writer: &mut Connection,
        health: Arc<Health>,
    ) -> Result<Self, StoreError> {
        let (signal, wanted) = sync_channel(1);
        let log = Arc::new(Log::default());
        let counted = Arc::clone(&log);
        let count = move |_: &mut Wal, pages| {
            counted.pages.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        writer.wal_hook(Some(count)).map_err(store_error)?;
        let shared = Arc::clone(&log);
        let thread = std::thread::Builder::new()
            .name("plexus-checkpoint".to_owned())
            .spawn(move || run(&conn, &wanted, &shared, &health))
            .map_err(|error| StoreError::Unavailable {
                message: format!("start a thread: {error}"),
                source: None,
            })?;
        Ok(Self { signal: Some(signal), thread: Some(thread), requested_at: 0, log })
    }

    /// Requests a checkpoint when the log has grown enough. Called after each piece of work.
    pub(super) fn wrote(&mut self, conn: &Connection, health: &Health) {
        // The files of a store that is not trusted any more stay as they are.
        if health.check().is_err() {
            return;
        }
        let pages = self.log.pages.load(Ordering::Relaxed);
        // The log has started over.
        if pages < self.requested_at {
            self.requested_at = 0;
        }
        if pages - self.requested_at < CHECKPOINT_PAGES {
            return;
        }
        self.requested_at = pages;
        if pages > MAX_LOG_PAGES {
            // The thread has moved all but the newest part, so this is quick. The file keeps its
            // length: overwriting it is cheaper than growing it again.
            self.log.checkpoint(conn, "RESTART", health);
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
        let moved = conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        // A failure alone does no harm: the log keeps everything, and the next checkpoint tries
        // again. Only a failed flush is fatal.
        if let Err(error) = moved.map_err(store_error) {
            health.note(&error);
            tracing::warn!(%error, mode, "a checkpoint failed");
        }
    }
}

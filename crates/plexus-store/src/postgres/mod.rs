//! The PostgreSQL engine: several servers, one database, the same contract.
//!
//! In reading order:
//! - this file: opening and closing.
//! - `tls`, `connect`, `migrate`: how the connection is encrypted and made, and how an empty
//!   database becomes ours.
//! - `sql`: PostgreSQL as the [tables](crate::tables) see it.
//! - `writer`, `locks`, `append`: how changes get in, beside those of other servers.
//! - `notes`, `listen`: how one server hears of another's commits.
//! - `readers`: how changes are read.
//! - `store`: the [`Store`](crate::contract::Store) trait over all of them.
//! - `import`: what a SQLite store held.

mod append;
mod connect;
mod import;
mod listen;
mod locks;
mod migrate;
mod notes;
mod readers;
mod sql;
mod store;
mod tls;
mod writer;

use std::convert::Infallible;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use self::connect::Connector;
use self::listen::Listener;
use self::readers::Readers;
use self::writer::Writer;
use crate::contract::{StoreError, UnixMillis};
use crate::queue::Queue;
use crate::tables::sql::{Sql as _, params};
use crate::tables::store::Handle;

/// What a PostgreSQL store is opened with.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The database: `postgres://user:password@host:port/database`, with `?sslmode=verify-full` for
    /// an encrypted way to it, and `&sslrootcert=FILE` where the machine does not know the
    /// authority that signed its certificate. It is never printed.
    pub url: String,
    /// How many reads run at once, each on a connection. The writer and the listener have one each
    /// besides.
    pub readers: usize,
}

/// Reads that run at once when nobody says: a third of what a database of 100 connections gives to
/// each of two servers.
const DEFAULT_READERS: usize = 16;

impl PostgresOptions {
    /// The store in the database of this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), readers: DEFAULT_READERS }
    }
}

impl std::fmt::Debug for PostgresOptions {
    /// Without the URL, which holds a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions").field("readers", &self.readers).finish_non_exhaustive()
    }
}

/// How long rows of handles that were not closed are kept. Far longer than any of them could ask
/// for its own again.
const KEEP_WRITERS: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long closing waits for what was accepted, should the database be away.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// A store in a PostgreSQL database. See [`Store`](crate::contract::Store) for what it promises.
#[derive(Debug)]
pub struct PostgresStore {
    queue: Arc<Queue<Infallible>>,
    readers: Readers,
    handle: Handle,
    /// The newest commit that the listener has heard of.
    heard: Arc<AtomicU64>,
    shutdown: watch::Sender<bool>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Opens the store, making its tables when they are not there. Servers that open it together
    /// wait for each other.
    ///
    /// # Errors
    /// `Invalid` for a URL that is none, or whose authorities cannot be read; `Newer` or `Foreign`
    /// for a schema that is not ours to open, which is left as it is; `Unavailable` when the
    /// database cannot be reached or refuses.
    pub async fn open(options: &PostgresOptions) -> Result<Self, StoreError> {
        let connector = Connector::new(&options.url)?;
        let conn = connector.connect().await?;
        migrate::migrate(&conn).await?;
        let old = UnixMillis(
            UnixMillis::now().0 - i64::try_from(KEEP_WRITERS.as_millis()).unwrap_or(i64::MAX),
        );
        conn.run("DELETE FROM writers WHERE seen_at < ?1", params![old]).await?;
        let (queue, handle) = (Arc::new(Queue::default()), Handle::default());
        let (pid, heard) = (Arc::new(AtomicI32::new(conn.pid)), Arc::default());
        let (shutdown, closed) = watch::channel(false);
        let (ready, listening) = oneshot::channel();
        let listener = Listener {
            connector: connector.clone(),
            wakes: handle.wakes.clone(),
            writer: Arc::clone(&pid),
            heard: Arc::clone(&heard),
            ready: Some(ready),
            shutdown: closed,
        };
        tokio::spawn(listener.run());
        let writer = Writer {
            connector: connector.clone(),
            conn: Some(conn),
            queue: Arc::clone(&queue),
            wakes: handle.wakes.clone(),
            lease: Arc::clone(&handle.lease),
            pid,
            id: Uuid::now_v7(),
            group: 0,
            remains: None,
            down_since: None,
        };
        // A subscriber must hear of what other servers commit from the first moment on.
        listening.await.map_err(|_| StoreError::Closed)?;
        let writer = Mutex::new(Some(tokio::spawn(writer.run())));
        let readers = Readers::new(connector, options.readers);
        Ok(Self { queue, readers, handle, heard, shutdown, writer })
    }

    /// Returns the newest commit that this handle has heard of by listening, its own included. How
    /// far it is behind [`newest_commit`](crate::contract::Store::newest_commit) is the lag of
    /// notifications.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Tells whether the way to the database is encrypted, and the database the one that was meant.
    #[must_use]
    pub fn encrypted(&self) -> bool {
        self.readers.encrypted()
    }

    fn take_writer(&self) -> Option<JoinHandle<()>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for PostgresStore {
    /// What was accepted is still written, by the writer's task. `close` waits for it.
    fn drop(&mut self) {
        self.queue.close();
        self.shutdown.send_replace(true);
    }
}

//! The PostgreSQL engine: several servers, one database, the same contract.
//!
//! In reading order:
//! - this file: opening and closing.
//! - `tls`, `connect`, `migrate`: how connections are encrypted and made, and how an empty database
//!   gets our schema.
//! - `sql`: PostgreSQL as the [tables](crate::tables) see it.
//! - `writer`, `locks`, `append`: how changes are written, concurrently with other servers.
//! - `notes`, `listen`: how a server learns of another's commits.
//! - `readers`: how reads run.
//! - `store`: the [`Store`](crate::contract::Store) trait over all of them.
//! - `import`: takes over the content of a SQLite store.

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

/// The options of a PostgreSQL store.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The database: `postgres://user:password@host:port/database`, with `?sslmode=verify-full` for
    /// an encrypted connection, and `&sslrootcert=FILE` where the machine does not know the
    /// authority that signed the database's certificate. It is never printed.
    pub url: String,
    /// How many reads run at once, each on its own connection. The writer and the listener each
    /// have one more.
    pub readers: usize,
}

/// The default number of concurrent reads: two servers with this many take about a third of the 100
/// connections that a database allows by default.
const DEFAULT_READERS: usize = 16;

impl PostgresOptions {
    /// Makes options for the store in the database of this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), readers: DEFAULT_READERS }
    }
}

impl std::fmt::Debug for PostgresOptions {
    /// Leaves out the URL, which holds a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions").field("readers", &self.readers).finish_non_exhaustive()
    }
}

/// How long rows of handles that were not closed are kept: far longer than any handle could still
/// ask for its own.
const KEEP_WRITERS: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long closing waits for accepted changes when the database is away.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// A store in a PostgreSQL database. See [`Store`](crate::contract::Store) for its guarantees.
#[derive(Debug)]
pub struct PostgresStore {
    queue: Arc<Queue<Infallible>>,
    readers: Readers,
    handle: Handle,
    /// The newest commit that the listener knows.
    heard: Arc<AtomicU64>,
    shutdown: watch::Sender<bool>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Opens the store, and creates its tables when they are missing. Servers that open it together
    /// wait for each other.
    ///
    /// # Errors
    /// `Invalid` for a malformed URL, or one whose authorities cannot be read; `Newer` or `Foreign`
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
        // A subscriber must be told of other servers' commits from the first moment on.
        listening.await.map_err(|_| StoreError::Closed)?;
        let writer = Mutex::new(Some(tokio::spawn(writer.run())));
        let readers = Readers::new(connector, options.readers);
        Ok(Self { queue, readers, handle, heard, shutdown, writer })
    }

    /// Returns the newest commit that this handle knows of by listening, its own included. Its
    /// distance from [`newest_commit`](crate::contract::Store::newest_commit) is the lag of
    /// notifications.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Returns whether the connections to the database are encrypted, with its certificate
    /// verified.
    #[must_use]
    pub fn encrypted(&self) -> bool {
        self.readers.encrypted()
    }

    fn take_writer(&self) -> Option<JoinHandle<()>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for PostgresStore {
    /// Accepted changes are still written, by the writer's task. `close` waits for it.
    fn drop(&mut self) {
        self.queue.close();
        self.shutdown.send_replace(true);
    }
}

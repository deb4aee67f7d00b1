//! The SQLite engine: one file, one writer thread, and separate readers.
//!
//! In reading order:
//! - this file: opening and closing.
//! - `file`, `lock`, `migrate`: what may be opened, by which process, and how an old file is
//!   upgraded.
//! - `sql`: SQLite as the [tables](crate::tables) see it.
//! - `writer`, `commit`, `checkpoint`: how changes are written; `presence`: checks that the files
//!   are still at their paths.
//! - `readers`: how reads run; `newest`: records that need no read, because they were just written.
//! - `backup`: checking and copying the file.
//! - `store`: the [`Store`](crate::contract::Store) trait over all of them.

mod backup;
mod checkpoint;
pub(crate) mod commit;
mod file;
mod lock;
mod migrate;
pub(crate) mod newest;
mod presence;
mod readers;
mod sql;
mod store;
mod writer;

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use plexus_core::SessionId;
use rusqlite::Connection;

use self::checkpoint::Checkpointer;
use self::commit::Committer;
use self::file::{Existing, io_error};
use self::lock::Lock;
use self::presence::Presence;
use self::readers::Readers;
use self::sql::{keep_plans, store_error};
use self::writer::{Health, Writer};
use crate::contract::{StoreError, UnixMillis};
use crate::queue::Queue;
use crate::tables::sessions;
use crate::tables::sql::ready;
use crate::tables::store::Handle;

/// The name of the database in the data directory.
pub const DATABASE_FILE: &str = "plexus.db";

/// The name of the lock beside it.
pub const LOCK_FILE: &str = "plexus.lock";

/// How the store treats the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Every commit is flushed before it is acknowledged: it survives power loss.
    #[default]
    Full,
    /// Commits survive the death of the process, but power loss may lose the last ones. The file
    /// stays consistent.
    Normal,
}

/// The options of a SQLite store.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The data directory; created (0700) when it is missing.
    pub dir: PathBuf,
    /// How the store treats the disk.
    pub sync: Durability,
    /// How many reads run at once. Each has a connection and its cache of up to 2 MiB.
    pub readers: usize,
    /// How many pages of 4 KiB the database may have, for tests of a full disk; `None` for no
    /// limit.
    pub max_pages: Option<u32>,
}

/// How many statements the writer keeps prepared: all of its statements.
const WRITER_STATEMENTS: usize = 256;

/// The size of the writer's page cache. The writer reads few pages (the ends of trees and indexes),
/// and the system caches the others; more would count as memory of every session that was ever
/// written.
const WRITER_CACHE_KIB: u32 = 4 * 1024;

/// The default number of concurrent reads: enough that one slow reader delays nobody.
const DEFAULT_READERS: usize = 4;

impl SqliteOptions {
    /// Makes options for a store in `dir`, flushed at every commit.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), sync: Durability::Full, readers: DEFAULT_READERS, max_pages: None }
    }
}

/// A task of the store itself on the writer's connection, in its own transaction.
type Task = Box<dyn FnOnce(&Committer) + Send>;

/// A store in one SQLite file. See [`Store`](crate::contract::Store) for its guarantees.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    queue: Arc<Queue<Task>>,
    readers: Readers,
    reader_count: usize,
    handle: Handle,
    health: Arc<Health>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens the store, and creates it when it is missing. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// `Locked` while another server has it open; `Newer`, `Foreign` or `Corrupt` for a file that
    /// is not ours to open, which is left as it is; `Unavailable` when the disk refuses.
    pub fn open(options: &SqliteOptions) -> Result<Self, StoreError> {
        let dir = &options.dir;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| io_error("create", dir, error))?;
        file::refuse_network(dir)?;
        let lock = Lock::take(&dir.join(LOCK_FILE))?;
        let path = dir.join(DATABASE_FILE);
        let existing = file::inspect(&path)?;
        let mut conn = open_writer(&path, existing, options)?;
        let queue = Arc::new(Queue::default());
        let health = Arc::new(Health::new(Presence::new(&path)));
        health.check_files()?;
        let checkpointer = Checkpointer::start(open_plain(&path)?, &mut conn, Arc::clone(&health))?;
        let handle = Handle::default();
        let writer = Writer {
            committer: Committer::new(conn, &handle)?,
            queue: Arc::clone(&queue),
            health: Arc::clone(&health),
            checkpointer,
            lock,
        };
        let thread = std::thread::Builder::new()
            .name("plexus-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Unavailable {
                message: format!("start a thread: {error}"),
                source: None,
            })?;
        Ok(Self {
            readers: Readers::new(path.clone(), options.readers),
            reader_count: options.readers,
            path,
            queue,
            handle,
            health,
            writer: Mutex::new(Some(thread)),
        })
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn database(&self) -> &Path {
        &self.path
    }

    /// Returns those of `sessions` that the file must have lost: it does not know them, and their
    /// ids are newer than everything in it. Blocks for as long as the disk takes.
    ///
    /// An unknown session with an older id may have been deleted, so it proves nothing: a session
    /// that the file lost is not seen once something newer is written, nor where the clock was set
    /// back before it was created. A deletion leaves an audit line, which is newer than what it
    /// deleted, until the line is pruned.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn lost(
        &self,
        sessions: impl IntoIterator<Item = SessionId>,
    ) -> Result<Vec<SessionId>, StoreError> {
        let conn = readers::open(&self.path)?;
        let newest = ready(sessions::newest_time(&conn))?;
        let mut lost = Vec::new();
        for id in sessions {
            if created_at(id).is_none_or(|at| newest.is_some_and(|newest| at <= newest)) {
                continue;
            }
            match ready(sessions::get(&conn, id)) {
                Ok(_) => {}
                Err(StoreError::NotFound { .. }) => lost.push(id),
                Err(error) => return Err(error),
            }
        }
        Ok(lost)
    }

    fn take_writer(&self) -> Option<JoinHandle<()>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// When an id was made; `None` for one that does not say so.
fn created_at(id: SessionId) -> Option<UnixMillis> {
    let (secs, nanos) = id.as_uuid().get_timestamp()?.to_unix();
    let millis = secs.checked_mul(1000)?.checked_add(u64::from(nanos / 1_000_000))?;
    i64::try_from(millis).ok().map(UnixMillis)
}

impl Drop for SqliteStore {
    /// Accepted changes are still written, on the writer's thread, which then releases the lock.
    /// `close` waits for that.
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Opens an empty store in memory.
#[cfg(feature = "memory")]
pub(crate) fn open_in_memory() -> Result<Connection, StoreError> {
    let conn = Connection::open_in_memory().map_err(store_error)?;
    keep_plans(&conn, WRITER_STATEMENTS)?;
    conn.execute_batch("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;")
        .map_err(store_error)?;
    migrate::migrate(&conn)?;
    Ok(conn)
}

fn open_plain(path: &Path) -> Result<Connection, StoreError> {
    let conn = Connection::open(path).map_err(store_error)?;
    conn.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL;")
        .map_err(store_error)?;
    Ok(conn)
}

fn open_writer(
    path: &Path,
    existing: Existing,
    options: &SqliteOptions,
) -> Result<Connection, StoreError> {
    if existing == Existing::Nothing {
        // Created here to set its mode; SQLite gives its log the same.
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| io_error("create", path, error))?;
    }
    let conn = Connection::open(path).map_err(store_error)?;
    if existing == Existing::Ours {
        // The log may hold a newer version than the file's header. Closing must then not move it
        // into the file.
        conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(store_error)?;
        file::check_version(migrate::version(&conn)?)?;
    }
    keep_plans(&conn, WRITER_STATEMENTS)?;
    let sync = match options.sync {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    conn.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {sync}; PRAGMA wal_autocheckpoint = 0; \
         PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -{WRITER_CACHE_KIB}; PRAGMA temp_store = MEMORY; PRAGMA busy_timeout \
         = 5000; PRAGMA trusted_schema = OFF;"
    ))
    .map_err(store_error)?;
    if let Some(pages) = options.max_pages {
        conn.execute_batch(&format!("PRAGMA max_page_count = {pages}")).map_err(store_error)?;
    }
    if migrate::migrate(&conn)? {
        // The header then holds the version, for a check before the file is opened.
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(store_error)?;
        backup::sync_dir(&options.dir)?;
    }
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Change, CreateSession, Priority, Store};

    #[tokio::test]
    async fn after_a_failed_flush_nothing_more_is_promised() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&SqliteOptions::new(dir.path())).unwrap();
        let new = CreateSession::new("before", None);
        let id = new.id;
        store.commit(vec![Change::CreateSession(new)], Priority::Normal).await.unwrap();
        store.health.note(&StoreError::Unavailable { message: "only full".into(), source: None });
        store.session(id).await.unwrap();
        store.health.note(&StoreError::Poisoned { message: "flush failed".into() });
        let more = store
            .commit(
                vec![Change::CreateSession(CreateSession::new("after", None))],
                Priority::Urgent,
            )
            .await;
        assert!(more.as_ref().is_err_and(StoreError::is_fatal), "{more:?}");
        assert!(store.session(id).await.is_err_and(|error| error.is_fatal()));
        assert!(store.close().await.is_err_and(|error| error.is_fatal()));
    }
}

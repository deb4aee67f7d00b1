//! Readers: a few connections of their own, used on blocking threads, with each read in one
//! snapshot.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::commit::execute;
use super::sql::{keep_plans, store_error};
use crate::contract::StoreError;

/// How many statements a connection keeps prepared: all statements of this engine.
const STATEMENTS: usize = 192;

/// The size of a reader's page cache. Every write invalidates all of it, so a large one is of no
/// use.
const READER_CACHE_KIB: u32 = 2 * 1024;

/// Opens a connection that cannot write.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(store_error)?;
    keep_plans(&conn, STATEMENTS)?;
    // Opened for writing, because the shared memory of the log needs that, and then restricted to
    // queries.
    conn.execute_batch(&format!(
        "PRAGMA query_only = ON; PRAGMA cache_size = -{READER_CACHE_KIB}; PRAGMA busy_timeout = \
         5000; PRAGMA temp_store = MEMORY;"
    ))
    .map_err(store_error)?;
    Ok(conn)
}

/// The pool.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    /// Makes a pool of at most `count` connections, which are opened when needed.
    pub(super) fn new(path: PathBuf, count: usize) -> Self {
        Self { path, permits: Arc::new(Semaphore::new(count.max(1))), idle: Arc::default() }
    }

    /// Runs `work` on a connection, within one snapshot.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit =
            Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (path, idle) = (self.path.clone(), Arc::clone(&self.idle));
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let pooled = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let conn = pooled.map_or_else(|| open(&path), Ok)?;
            execute(&conn, "BEGIN")?;
            let result = work(&conn);
            // A connection whose snapshot could not be ended is dropped, which ends it.
            execute(&conn, "COMMIT")?;
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            result
        });
        reading.await.map_err(|error| StoreError::Unavailable {
            message: format!("a read broke off: {error}"),
            source: None,
        })?
    }

    /// Accepts no more reads, waits for running ones, and closes the connections.
    pub(super) async fn close(&self, count: usize) {
        let all = self.permits.acquire_many(u32::try_from(count.max(1)).unwrap_or(1)).await;
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        drop(all);
    }
}

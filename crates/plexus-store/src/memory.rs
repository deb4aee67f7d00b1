//! The engine for unit tests: SQLite in memory, on the caller's thread.
//!
//! A call does all its work in its first poll, so a test that pauses or sets the clock sees nothing
//! happen concurrently. The data is lost when the store is dropped, so no server can choose this
//! engine.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::contract::{
    Change, Committed, Indexed, Priority, Prompts, Pruned, StoreError, UnixMillis, check,
};
use crate::queue::Job;
use crate::sqlite::commit::Committer;
use crate::sqlite::newest::Newest;
use crate::tables::search::index;
use crate::tables::sql::ready;
use crate::tables::store::{Engine, Handle, store};
use crate::tables::upkeep;

/// A store in memory, for tests.
#[derive(Debug)]
pub struct MemoryStore {
    /// `None` once it is closed.
    committer: Mutex<Option<Committer>>,
    handle: Handle,
}

impl MemoryStore {
    /// Makes an empty store.
    ///
    /// # Panics
    /// When no memory is available.
    #[must_use]
    #[expect(clippy::expect_used, reason = "for tests, which can go on with nothing else")]
    #[expect(clippy::new_without_default, reason = "a store is made on purpose")]
    pub fn new() -> Self {
        let handle = Handle::default();
        let committer = crate::sqlite::open_in_memory()
            .and_then(|conn| Committer::new(conn, &handle))
            .expect("a store in memory");
        Self { committer: Mutex::new(Some(committer)), handle }
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut Committer) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner);
        committer.as_mut().ok_or(StoreError::Closed).and_then(work)
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with(|committer| work(committer.conn()))
    }
}

impl Engine for MemoryStore {
    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn waiting(&self) -> usize {
        0
    }

    fn newest(&self) -> Option<&Newest> {
        let is_open = self.committer.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        is_open.then_some(&*self.handle.newest)
    }

    async fn commit(
        &self,
        changes: Vec<Change>,
        _priority: Priority,
    ) -> Result<Committed, StoreError> {
        let bytes = check::change_list(&changes)?;
        let (reply, answer) = oneshot::channel();
        self.with(|committer| {
            let group = committer.write(vec![Job { changes, bytes, reply }]);
            committer.answer(group);
            Ok(())
        })?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        self.read(|conn| ready(upkeep::integrity(conn)))
    }

    async fn backup_to(&self, _path: &Path) -> Result<(), StoreError> {
        Err(StoreError::invalid(
            "back up a store in memory: it is for tests, and nothing of it lasts",
        ))
    }

    async fn prune_step(&self, before: UnixMillis, prompts: Prompts) -> Result<Pruned, StoreError> {
        self.with(|committer| {
            committer.in_transaction(|conn| ready(upkeep::prune_step(conn, before, prompts)))
        })
    }

    async fn index_step(&self) -> Result<Indexed, StoreError> {
        self.with(|committer| match ready(index::next(committer.conn()))? {
            None => Ok(Indexed::default()),
            Some(step) => committer.in_transaction(|conn| ready(index::write(conn, &step))),
        })
    }

    async fn close(&self) -> Result<(), StoreError> {
        *self.committer.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

/// Runs a read on the caller's thread.
macro_rules! read {
    ($self:ident, $conn:ident => $work:expr) => {
        $self.read(|$conn| ready($work))
    };
}

store! { MemoryStore, read }

//! Implements the contract over one file: reads on blocking threads, writes on the writer's thread.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::newest::Newest;
use super::{SqliteStore, backup, readers};
use crate::contract::{
    Change, Committed, Indexed, Priority, Prompts, Pruned, StoreError, UnixMillis,
};
use crate::tables::search::index;
use crate::tables::sql::ready;
use crate::tables::store::{Engine, Handle, store};
use crate::tables::upkeep;

impl SqliteStore {
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Err(error) = self.health.look_for_files() {
            if self.queue.is_closed() {
                // SQLite removes its log when the last connection is closed.
                return Err(StoreError::Closed);
            }
            self.health.note(&error);
            return Err(error);
        }
        self.readers.run(work).await
    }

    /// Runs `work` in its own transaction on the writer's connection.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.check()?;
        let (reply, answer) = oneshot::channel();
        let health = Arc::clone(&self.health);
        self.queue.push_task(Box::new(move |committer| {
            let result = committer.in_transaction(work);
            if let Err(error) = &result {
                health.note(error);
            }
            // A caller that has gone needs no answer.
            let _gone = reply.send(result);
        }))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs long work on its own connection and thread, so that it occupies no reader.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.check()?;
        let path = self.path.clone();
        let running =
            tokio::task::spawn_blocking(move || readers::open(&path).and_then(|conn| work(&conn)));
        running.await.map_err(|error| StoreError::Unavailable {
            message: format!("upkeep broke off: {error}"),
            source: None,
        })?
    }
}

impl Engine for SqliteStore {
    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn newest(&self) -> Option<&Newest> {
        let is_trusted = self.health.check().is_ok() && !self.queue.is_closed();
        is_trusted.then_some(&*self.handle.newest)
    }

    async fn commit(
        &self,
        changes: Vec<Change>,
        priority: Priority,
    ) -> Result<Committed, StoreError> {
        self.health.check()?;
        self.queue.commit(changes, priority, &self.handle.latency).await
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        self.apart(|conn| {
            let faults = backup::integrity(conn)?;
            if faults.is_empty() { ready(upkeep::integrity(conn)) } else { Ok(faults) }
        })
        .await
    }

    async fn backup_to(&self, path: &Path) -> Result<(), StoreError> {
        let path = path.to_owned();
        self.apart(move |conn| backup::backup(conn, &path)).await
    }

    async fn prune_step(&self, before: UnixMillis, prompts: Prompts) -> Result<Pruned, StoreError> {
        self.write(move |conn| ready(upkeep::prune_step(conn, before, prompts))).await
    }

    /// Reads and cuts words beside the writer, which then only adds them.
    async fn index_step(&self) -> Result<Indexed, StoreError> {
        match self.read(|conn| ready(index::next(conn))).await? {
            None => Ok(Indexed::default()),
            Some(step) => self.write(move |conn| ready(index::write(conn, &step))).await,
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        self.readers.close(self.reader_count).await;
        let Some(thread) = self.take_writer() else { return Ok(()) };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match joined {
            Ok(Ok(())) => self.health.check(),
            _ => Err(StoreError::Unavailable {
                message: "the writer broke off".to_owned(),
                source: None,
            }),
        }
    }
}

/// Runs a read on a blocking thread.
macro_rules! read {
    ($self:ident, $conn:ident => $work:expr) => {
        $self.read(move |$conn| ready($work)).await
    };
}

store! { SqliteStore, read }

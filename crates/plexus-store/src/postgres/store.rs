//! Implements the contract over a database: each read runs in one snapshot, and is retried when its
//! connection is lost.

use std::path::Path;

use super::readers::{READ_TIMEOUT, Tries};
use super::sql::Conn;
use super::{CLOSE_PATIENCE, PostgresStore};
use crate::contract::{
    Change, Committed, Indexed, Priority, Prompts, Pruned, StoreError, UnixMillis,
};
use crate::sqlite::newest::Newest;
use crate::tables::search::index;
use crate::tables::sql::{Sql as _, params};
use crate::tables::store::{Engine, Handle, store};
use crate::tables::upkeep;

fn unavailable(message: String) -> StoreError {
    StoreError::Unavailable { message, source: None }
}

/// Runs a read in one snapshot. When its connection is lost, the read is retried on another one,
/// within bounds.
macro_rules! read {
    ($self:ident, $conn:ident => $work:expr) => {{
        let tries = Tries::new();
        loop {
            let result = match $self.readers.begin().await {
                Err(error) => Err(error),
                Ok(reading) => {
                    let $conn = reading.conn()?;
                    match tokio::time::timeout(READ_TIMEOUT, $work).await {
                        Ok(result) => result,
                        Err(_) => {
                            reading.discard();
                            Err(unavailable(format!(
                                "the database did not answer within {READ_TIMEOUT:?}"
                            )))
                        }
                    }
                }
            };
            match result {
                Ok(found) => break Ok(found),
                Err(error) => tries.again(error).await?,
            }
        }
    }};
}

async fn index_in_transaction(conn: &Conn) -> Result<Indexed, StoreError> {
    let free = "SELECT 1 FROM store_meta WHERE key = 'search' FOR UPDATE SKIP LOCKED";
    if !conn.any(free, params![]).await? {
        return Ok(Indexed::default());
    }
    match index::next(conn).await? {
        None => Ok(Indexed::default()),
        Some(step) => index::write(conn, &step).await,
    }
}

impl Engine for PostgresStore {
    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Other servers write to the same database, so only a read says what stands.
    fn newest(&self) -> Option<&Newest> {
        None
    }

    async fn commit(
        &self,
        changes: Vec<Change>,
        priority: Priority,
    ) -> Result<Committed, StoreError> {
        self.queue.commit(changes, priority, &self.handle.latency).await
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        let reading = self.readers.begin().await?;
        let conn = reading.conn()?;
        conn.batch("SET LOCAL statement_timeout = 0").await?;
        upkeep::integrity(conn).await
    }

    async fn backup_to(&self, _path: &Path) -> Result<(), StoreError> {
        Err(StoreError::invalid(
            "copy a PostgreSQL store to a file: use pg_dump, which does it as of one moment too",
        ))
    }

    async fn prune_step(&self, before: UnixMillis, prompts: Prompts) -> Result<Pruned, StoreError> {
        let tries = Tries::new();
        loop {
            let result = match self.readers.take().await {
                Err(error) => Err(error),
                Ok(taken) => {
                    let conn = taken.conn()?;
                    conn.send("BEGIN");
                    match upkeep::prune_step(conn, before, prompts).await {
                        Ok(step) => conn.batch("COMMIT").await.map(|()| step),
                        Err(error) => Err(error),
                    }
                }
            };
            match result {
                Ok(step) => return Ok(step),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// One server indexes at a time; another one does nothing meanwhile.
    async fn index_step(&self) -> Result<Indexed, StoreError> {
        let tries = Tries::new();
        loop {
            let result = match self.readers.take().await {
                Err(error) => Err(error),
                Ok(taken) => {
                    let conn = taken.conn()?;
                    conn.send("BEGIN");
                    match index_in_transaction(conn).await {
                        Ok(step) => conn.batch("COMMIT").await.map(|()| step),
                        Err(error) => Err(error),
                    }
                }
            };
            match result {
                Ok(step) => return Ok(step),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        self.shutdown.send_replace(true);
        self.readers.close().await;
        let Some(mut writer) = self.take_writer() else { return Ok(()) };
        match tokio::time::timeout(CLOSE_PATIENCE, &mut writer).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unavailable(format!("the writer broke off: {error}"))),
            Err(_) => {
                writer.abort();
                Err(unavailable(format!(
                    "what was accepted was not written within {CLOSE_PATIENCE:?}"
                )))
            }
        }
    }
}

store! { PostgresStore, read }

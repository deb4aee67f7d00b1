//! Finds the outcome of a commit of the [`Writer`] whose connection broke in the middle of it.
//!
//! Each handle has a row that names the group it committed last. The next connection terminates the
//! backend process of the lost one, so that its transaction is over one way or the other, and then
//! reads that row. No caller is answered by a guess.

use tokio::time::Instant;

use super::{FIRST_PAUSE, GROUP_TIMEOUT, LONGEST_PAUSE, Writer};
use crate::contract::{StoreError, UnixMillis};
use crate::postgres::sql::Conn;
use crate::tables::sql::{Sql as _, params};

impl Writer {
    /// Finds out whether the newest group was committed, and returns the commit number before it if
    /// so.
    ///
    /// It waits for as long as that takes, because "refused" must not be the answer for changes
    /// that were stored. Only a store that is being closed gives up.
    pub(super) async fn outcome(&mut self) -> Result<Option<u64>, StoreError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.look_up().await {
                Ok(base) => return Ok(base),
                Err(error) if self.queue.is_closed() => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "cannot find out yet whether a group was committed");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn look_up(&mut self) -> Result<Option<u64>, StoreError> {
        let conn = self.connect().await?;
        // Both statements wait until that transaction has ended, because it has locked or inserted
        // this row.
        let make = "INSERT INTO writers VALUES (?1, 0, 0, ?2) ON CONFLICT (id) DO NOTHING";
        conn.run(make, params![self.id, UnixMillis::now()]).await?;
        let row = conn
            .one(
                "SELECT last_group, last_base FROM writers WHERE id = ?1 FOR UPDATE",
                params![self.id],
                |row| Ok((row.get::<i64>(0)?, row.get(1)?)),
            )
            .await?;
        self.conn = Some(conn);
        Ok(row.filter(|(group, _)| *group == self.group).map(|(_, base)| base))
    }

    /// Terminates the backend process of a lost connection, so that its locks are free and it does
    /// nothing more. A process that is committing finishes that first.
    pub(super) async fn end_remains(&mut self, conn: &Conn) -> Result<(), StoreError> {
        let Some(process) = &self.remains else { return Ok(()) };
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE pid || '@' || backend_start = ?1";
        let until = Instant::now() + GROUP_TIMEOUT;
        // Repeated until it is gone: its last statements may still be on their way to it, and we
        // would not see what it does after our read.
        while conn.any(end, params![process]).await? {
            if Instant::now() >= until {
                let message = "the process of a lost connection does not end".to_owned();
                return Err(StoreError::Unavailable { message, source: None });
            }
            tokio::time::sleep(FIRST_PAUSE).await;
        }
        self.remains = None;
        Ok(())
    }
}

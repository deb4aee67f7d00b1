//! PostgreSQL alone with the rows that the server wrote: the rival of a server that stores in
//! PostgreSQL. Both use the same cluster and settings (`fsync` and `synchronous_commit` are on).

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::future;
use tokio_postgres::{Client, NoTls};

/// A row of the table of events, as the server wrote it. The id is text, because only the database
/// reads it here.
#[derive(Clone)]
pub(super) struct Row {
    uuid: String,
    created_at: i64,
    kind: String,
    body: String,
}

/// A connection to the database of a server, beside the server's own.
pub(super) struct Bare {
    client: Client,
}

impl Bare {
    /// Connects.
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.context("could not connect")?;
        // The task ends with the client; an error of the connection surfaces at the next statement.
        tokio::spawn(connection);
        Ok(Self { client })
    }

    /// Counts the events that servers have stored.
    pub(super) async fn count(&self) -> Result<usize> {
        let row = self.client.query_one("SELECT count(*) FROM plexus.chat_events", &[]).await?;
        Ok(usize::try_from(row.try_get::<_, i64>(0)?)?)
    }

    /// Reads the newest events that servers have stored.
    pub(super) async fn newest(&self, limit: usize) -> Result<Vec<Row>> {
        let sql = "SELECT uuid::text, created_at, type, body FROM plexus.chat_events ORDER BY \
            created_at DESC LIMIT $1";
        let rows = self.client.query(sql, &[&i64::try_from(limit)?]).await?;
        let read = |row: &tokio_postgres::Row| {
            anyhow::Ok(Row {
                uuid: row.try_get(0)?,
                created_at: row.try_get(1)?,
                kind: row.try_get(2)?,
                body: row.try_get(3)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Inserts the rows into a table like the server's, `batch` of them in each transaction, with
    /// one statement and one round trip for each. Returns how long that took.
    pub(super) async fn in_batches(&self, rows: &[Row], batch: usize) -> Result<Duration> {
        self.client
            .batch_execute(
                "DROP TABLE IF EXISTS bare_events;
                 CREATE TABLE bare_events (id BIGINT PRIMARY KEY, uuid UUID NOT NULL, created_at \
                 BIGINT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL);
                 CREATE UNIQUE INDEX bare_events_by_uuid ON bare_events (uuid);
                 SET synchronous_commit = on;",
            )
            .await?;
        let sql = "INSERT INTO bare_events SELECT id, uuid::uuid, created_at, type, body
                   FROM unnest($1::int8[], $2::text[], $3::int8[], $4::text[], $5::text[]) AS row \
                   (id, uuid, created_at, type, body)";
        let insert = self.client.prepare(sql).await?;
        let (started, mut written) = (Instant::now(), 0_i64);
        for rows in rows.chunks(batch) {
            let ids: Vec<i64> = (written..).take(rows.len()).collect();
            written += i64::try_from(rows.len())?;
            let uuids: Vec<&str> = rows.iter().map(|row| row.uuid.as_str()).collect();
            let times: Vec<i64> = rows.iter().map(|row| row.created_at).collect();
            let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
            let bodies: Vec<&str> = rows.iter().map(|row| row.body.as_str()).collect();
            // The three are polled, and therefore sent, in this order, in one round trip.
            let (began, inserted, committed) = future::join3(
                self.client.batch_execute("BEGIN"),
                self.client.execute(&insert, &[&ids, &uuids, &times, &kinds, &bodies]),
                self.client.batch_execute("COMMIT"),
            )
            .await;
            began?;
            inserted?;
            committed?;
        }
        Ok(started.elapsed())
    }
}

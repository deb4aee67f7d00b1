//! The same rows without us: what SQLite and the disk can do at best.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use plexus_store::NewEvent;
use rusqlite::{Connection, params};

use super::{event, rate};

/// Writes and flushes one record after another.
pub(crate) fn fdatasync(dir: &Path, bytes: usize, time: Duration) -> anyhow::Result<f64> {
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join("records"))?;
    let record = vec![b'x'; bytes];
    rate(time, || {
        file.write_all(&record)?;
        file.sync_data()?;
        Ok(1)
    })
}

/// Inserts bare event rows, `group` in each transaction.
pub(crate) fn sqlite(dir: &Path, group: u64, bytes: usize, time: Duration) -> anyhow::Result<f64> {
    let conn = Connection::open(dir.join(format!("bare-{group}.db")))?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE chat_events (id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, created_at INTEGER NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL) STRICT;
         CREATE UNIQUE INDEX chat_events_by_uuid ON chat_events (uuid);",
    )?;
    let mut insert = conn.prepare("INSERT INTO chat_events VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut id = 0_i64;
    rate(time, || {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..group {
            id += 1;
            let NewEvent { id: uuid, event_type, body, timestamp } = event(bytes);
            insert.execute(params![id, *uuid.as_uuid().as_bytes(), timestamp.0, event_type, body.as_str()])?;
        }
        conn.execute_batch("COMMIT")?;
        Ok(group)
    })
}

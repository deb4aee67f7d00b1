//! Writes the same rows without our code: what SQLite and the disk achieve at best.

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

/// How many chats the bare rows belong to, in turns, like those of 64 children.
const CHATS: i64 = 64;

/// Inserts the rows of one event each (the event, its batch, its session's change), `group` events
/// in each transaction. Its log is never moved into the file, so the rival pays for no checkpoint.
pub(crate) fn sqlite(dir: &Path, group: u64, bytes: usize, time: Duration) -> anyhow::Result<f64> {
    let conn = Connection::open(dir.join(format!("bare-{group}.db")))?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -32768; PRAGMA \
         wal_autocheckpoint = 0;
         CREATE TABLE chat_events (id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, created_at INTEGER \
         NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL) STRICT;
         CREATE UNIQUE INDEX chat_events_by_uuid ON chat_events (uuid);
         CREATE TABLE event_batches (commit_no INTEGER NOT NULL, chat INTEGER NOT NULL, first_seq \
         INTEGER NOT NULL, count INTEGER NOT NULL,
             PRIMARY KEY (commit_no, chat, first_seq)) STRICT, WITHOUT ROWID;
         CREATE TABLE session_changes (session INTEGER PRIMARY KEY, changed INTEGER NOT NULL) \
         STRICT;
         CREATE INDEX session_changes_by_commit ON session_changes (changed);",
    )?;
    let mut insert = conn.prepare("INSERT INTO chat_events VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut batch = conn.prepare("INSERT INTO event_batches VALUES (?1, ?2, ?3, 1)")?;
    let mut change = conn.prepare(
        "INSERT INTO session_changes VALUES (?1, ?2) ON CONFLICT (session) DO UPDATE \
            SET changed = ?2",
    )?;
    let mut number = 0_i64;
    rate(time, || {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..group {
            number += 1;
            let (chat, seq) = (number % CHATS, number / CHATS);
            let NewEvent { id: uuid, event_type, body, timestamp } = event(bytes);
            insert.execute(params![
                (chat << 32) + seq,
                *uuid.as_uuid().as_bytes(),
                timestamp.0,
                event_type,
                body.as_str()
            ])?;
            batch.execute([number, chat, seq])?;
            change.execute([chat, number])?;
        }
        conn.execute_batch("COMMIT")?;
        Ok(group)
    })
}

//! What the server's throughput is compared with: plain SQLite that writes the same rows to the
//! same disk and flushes every commit.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

/// A row of the table of events, as the server wrote it.
#[derive(Clone)]
pub(super) struct Row {
    uuid: Vec<u8>,
    created_at: i64,
    kind: String,
    body: String,
}

/// Counts the events that a server has stored.
pub(super) fn count(database: &Path) -> Result<usize> {
    let count = reader(database)?
        .query_row("SELECT count(*) FROM chat_events", [], |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(count)?)
}

/// Reads the newest events that a server has stored.
pub(super) fn newest(database: &Path, limit: usize) -> Result<Vec<Row>> {
    let connection = reader(database)?;
    let mut statement = connection.prepare(
        "SELECT uuid, created_at, type, body FROM chat_events ORDER BY id DESC LIMIT ?1",
    )?;
    let rows = statement.query_map([i64::try_from(limit)?], |row| {
        Ok(Row { uuid: row.get(0)?, created_at: row.get(1)?, kind: row.get(2)?, body: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn reader(database: &Path) -> Result<Connection> {
    Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .context("could not read the server's database")
}

/// A database with one table like the server's, and nothing else.
struct Bare {
    connection: Connection,
    _folder: TempDir,
}

impl Bare {
    fn open() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plexus-bench-bare-").tempdir()?;
        let connection = Connection::open(folder.path().join("bare.db"))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE chat_events (id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, created_at \
             INTEGER NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL) STRICT;
             CREATE UNIQUE INDEX chat_events_by_uuid ON chat_events (uuid);",
        )?;
        Ok(Self { connection, _folder: folder })
    }

    fn commit<'a>(&self, rows: impl IntoIterator<Item = &'a Row>) -> Result<()> {
        let transaction = self.connection.unchecked_transaction()?;
        let sql = "INSERT INTO chat_events (uuid, created_at, type, body) VALUES (?1, ?2, ?3, ?4)";
        let mut insert = transaction.prepare_cached(sql)?;
        for row in rows {
            insert.execute((&row.uuid, row.created_at, &row.kind, &row.body))?;
        }
        drop(insert);
        Ok(transaction.commit()?)
    }
}

/// Writes the rows in one thread, `in_one` in each transaction. Nobody waits for any of them.
pub(super) fn in_batches(rows: &[Row], in_one: usize) -> Result<Duration> {
    let bare = Bare::open()?;
    let started = Instant::now();
    for some in rows.chunks(in_one) {
        bare.commit(some)?;
    }
    Ok(started.elapsed())
}

/// A row, and the channel on which to report that it is durable.
type Waiting = (Row, SyncSender<()>);

/// Measures group commit: `producers` threads each submit a row and wait until it is durable; all
/// waiting rows go into one transaction.
pub(super) fn by_group_commit(rows: &[Row], producers: usize) -> Result<Duration> {
    let bare = Bare::open()?;
    let (sender, receiver) = mpsc::sync_channel::<Waiting>(producers);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for some in rows.chunks(rows.len().div_ceil(producers)) {
            let sender = sender.clone();
            threads.push(scope.spawn(move || produce(some, &sender)));
        }
        drop(sender);
        write(&bare, &receiver)?;
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a producer panicked"))?)
    })?;
    Ok(started.elapsed())
}

fn produce(rows: &[Row], sender: &SyncSender<Waiting>) -> Result<()> {
    let (done, is_durable) = mpsc::sync_channel(1);
    for row in rows {
        sender.send((row.clone(), done.clone())).map_err(|_| anyhow!("the writer ended"))?;
        is_durable.recv().context("the writer ended")?;
    }
    Ok(())
}

fn write(bare: &Bare, receiver: &Receiver<Waiting>) -> Result<()> {
    while let Ok(first) = receiver.recv() {
        let group: Vec<Waiting> = std::iter::once(first).chain(receiver.try_iter()).collect();
        bare.commit(group.iter().map(|(row, _)| row))?;
        for (_, done) in group {
            // The producer may be gone.
            let _gone = done.send(());
        }
    }
    Ok(())
}

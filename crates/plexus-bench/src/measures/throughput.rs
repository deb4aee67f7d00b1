//! Durable events through a whole server: many children write at once, beside SQLite alone with the same rows.
//!
//! The children are warm before the clock starts, so that starting processes is no part of the figure. It stops when every chat has ended,
//! and each event in between was written by a child, journaled by its shim, parsed, translated and committed with `sync = "full"`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::future::try_join_all;
use plexus_store::sqlite::DATABASE_FILE;
use rusqlite::{Connection, OpenFlags};

use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::Server;
use crate::sizes::Sizes;
use crate::stats::rate;

/// Events in one transaction of the bare group commit: as many as there are children, each with one.
const GROUP: usize = 64;

pub(super) struct Throughput;

#[async_trait(?Send)]
impl Measure for Throughput {
    fn name(&self) -> &'static str {
        "throughput"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["events_per_s", "bare_group_commit_ratio", "single_commit_ratio"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let plain = rounds(sizes, "false").await?;
        let with_deltas = rounds(sizes, "true").await?;
        let what = format!(
            "events stored in a second while {} warm children write {} events of {} bytes each, without partial messages, from the first prompt to the end of the last chat",
            sizes.children, sizes.burst, sizes.burst_bytes
        );
        let figure = Figure::new("events_per_s", what, "/s", plain.server.clone(), Aim::Beside);
        figures.push(figure.beside(
            "with partial messages (the default), which add about 7 lines to each event",
            &with_deltas.server,
            "/s",
        ));
        let over =
            |rival: &[f64]| plain.server.iter().zip(rival).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>();
        let what = format!(
            "the same, over what one thread commits of the same rows with nothing around it, {GROUP} a transaction, sync full"
        );
        let figure = Figure::new("bare_group_commit_ratio", what, "", over(&plain.group), Aim::AtLeast(0.5));
        figures.push(figure.beside("bare group commit", &plain.group, "/s"));
        let what = "the same, over a commit for each event, sync full";
        let figure = Figure::new("single_commit_ratio", what, "", over(&plain.single), Aim::AtLeast(20.0));
        figures.push(figure.beside("one commit an event", &plain.single, "/s"));
        Ok(())
    }
}

/// Events in a second, in each round.
#[derive(Default)]
struct Rounds {
    server: Vec<f64>,
    group: Vec<f64>,
    single: Vec<f64>,
}

async fn rounds(sizes: &Sizes, live_deltas: &str) -> Result<Rounds> {
    let children = sizes.children.to_string();
    let settings = [
        ("limits.running_children", children.clone()),
        ("warm.max", children),
        ("live_deltas", live_deltas.to_owned()),
    ];
    let server = Server::start(&settings).await?;
    let sessions = server.create_many("burst", sizes.children).await?;
    server.chat_many(&sessions, "sim:\nsay ready", "complete").await?;
    let mut rounds = Rounds::default();
    let database = server.data_dir().join(DATABASE_FILE);
    for _ in 0..sizes.rounds {
        let before = count(&database)?;
        let prompt = format!("sim:\nburst {} {}", sizes.burst, sizes.burst_bytes);
        let started = Instant::now();
        try_join_all(sessions.iter().map(|session| server.start_chat(session, &prompt))).await?;
        server.wait_until_quiet().await?;
        let took = started.elapsed();
        let stored = count(&database)? - before;
        ensure!(stored >= sizes.children * sizes.burst, "only {stored} events were stored");
        rounds.server.push(rate(stored, took));
        let rows = rows(&database, stored)?;
        rounds.group.push(rate(rows.len(), commit(&rows, GROUP)?));
        let few = rows.get(..sizes.single_commits).unwrap_or(&rows);
        rounds.single.push(rate(few.len(), commit(few, 1)?));
    }
    Ok(rounds)
}

/// A row of the table of events, as the server wrote it.
struct Row {
    uuid: Vec<u8>,
    created_at: i64,
    kind: String,
    body: String,
}

fn reader(database: &Path) -> Result<Connection> {
    Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .context("could not read the server's database")
}

fn count(database: &Path) -> Result<usize> {
    let count = reader(database)?.query_row("SELECT count(*) FROM chat_events", [], |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(count)?)
}

fn rows(database: &Path, limit: usize) -> Result<Vec<Row>> {
    let connection = reader(database)?;
    let mut statement =
        connection.prepare("SELECT uuid, created_at, type, body FROM chat_events ORDER BY rowid DESC LIMIT ?1")?;
    let rows = statement.query_map([i64::try_from(limit)?], |row| {
        Ok(Row { uuid: row.get(0)?, created_at: row.get(1)?, kind: row.get(2)?, body: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Commits rows to a new database of their own, `group` in each transaction, and returns how long that took.
fn commit(rows: &[Row], group: usize) -> Result<Duration> {
    let folder = tempfile::Builder::new().prefix("plexus-bench-bare-").tempdir()?;
    let connection = Connection::open(folder.path().join("bare.db"))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE chat_events (id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, created_at INTEGER NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL) STRICT;
         CREATE UNIQUE INDEX chat_events_by_uuid ON chat_events (uuid);",
    )?;
    let started = Instant::now();
    for some in rows.chunks(group) {
        let transaction = connection.unchecked_transaction()?;
        let mut insert = transaction
            .prepare_cached("INSERT INTO chat_events (uuid, created_at, type, body) VALUES (?1, ?2, ?3, ?4)")?;
        for row in some {
            insert.execute((&row.uuid, row.created_at, &row.kind, &row.body))?;
        }
        drop(insert);
        transaction.commit()?;
    }
    Ok(started.elapsed())
}

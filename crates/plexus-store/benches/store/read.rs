//! Reading a page and a path, in small chats and in a large one.

use std::time::{Duration, Instant};

use plexus_core::{NodeId, SessionId};
use plexus_store::{Durability, Priority, ReadLimit, SqliteOptions, SqliteStore, Store};
use rusqlite::Connection;

use super::{append, event, median, session};

const DEFAULT_EVENTS: u32 = 1_000_000;
const BODY: usize = 250;
const BATCH: u32 = 1_000;
const ROUNDS: u32 = 400;
const PAGE: u32 = 100;

pub(crate) async fn measure() -> anyhow::Result<()> {
    let large: u32 = std::env::var("PLEXUS_BENCH_EVENTS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_EVENTS);
    let dir = tempfile::tempdir()?;
    let store = SqliteStore::open(&SqliteOptions {
        sync: Durability::Normal,
        ..SqliteOptions::new(dir.path())
    })?;
    let mut chats = Vec::new();
    for size in [1_000, (large / 10).max(2_000), large] {
        let id = session(&store, &size.to_string()).await?;
        for _ in 0..size / BATCH {
            store
                .commit(
                    vec![append(id, (0..BATCH).map(|_| event(BODY)).collect())],
                    Priority::Normal,
                )
                .await?;
        }
        chats.push((size, id));
    }
    println!("poll of {PAGE} events anywhere in a chat, p50");
    let mut times = Vec::new();
    for (size, id) in &chats {
        let time = poll(&store, *id, *size).await?;
        println!("  {size:>9} events                       {:>9.0} µs", micros(time));
        times.push(time);
    }
    let growth = times[2].as_secs_f64() / times[0].as_secs_f64();
    println!("  largest / smallest                     {growth:>9.2}");
    path(&store, chats[2].1, large).await?;
    store.close().await?;
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the n-th of some places spread over `size`, the same in every run.
fn spread(n: u32, size: u32) -> u32 {
    u32::try_from(u64::from(n) * 2_654_435_761 % u64::from(size - PAGE)).unwrap_or(0)
}

async fn poll(store: &SqliteStore, id: SessionId, size: u32) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for n in 0..ROUNDS {
        let start = Instant::now();
        let page =
            store.read_events(id, 0, spread(n, size), ReadLimit::events(PAGE as usize)).await?;
        times.push(start.elapsed());
        anyhow::ensure!(page.events.len() == PAGE as usize);
    }
    Ok(median(times))
}

async fn path(store: &SqliteStore, id: SessionId, size: u32) -> anyhow::Result<()> {
    let conn = Connection::open(store.database())?;
    let mut range = conn.prepare(
        "SELECT id, uuid, created_at, type FROM chat_events WHERE id >= ?1 AND id < ?2 ORDER BY id",
    )?;
    let chat: i64 = conn.query_row("SELECT max(id) FROM chat_streams", [], |row| row.get(0))?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for n in 0..ROUNDS {
        let from = spread(n, size);
        let last = store.read_events(id, 0, from + PAGE - 1, ReadLimit::events(1)).await?.events[0]
            .node_id();
        let first = (chat << 32) + i64::from(from);
        let start = Instant::now();
        let rows = range.query_map([first, first + i64::from(PAGE)], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, [u8; 16]>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, String>(3)?,
            ))
        })?;
        let count = rows.collect::<Result<Vec<_>, _>>()?.len();
        bare.push(start.elapsed());
        let start = Instant::now();
        let nodes: Vec<NodeId> =
            store.path(last, PAGE as usize).await?.into_iter().map(|node| node.id).collect();
        ours.push(start.elapsed());
        anyhow::ensure!(nodes.len() == count && nodes.last() == Some(&last));
    }
    let (ours, bare) = (median(ours), median(bare));
    println!("path of {PAGE} nodes in a tree of {size}, p50");
    println!("  a plain range read of the same rows    {:>9.0} µs", micros(bare));
    println!("  ours, with the hop to a reader         {:>9.0} µs", micros(ours));
    println!(
        "  ours / range read                      {:>9.2}",
        ours.as_secs_f64() / bare.as_secs_f64()
    );
    Ok(())
}

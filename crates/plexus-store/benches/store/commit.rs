//! Durable events a second, and what they cost on disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plexus_store::{Priority, SqliteOptions, SqliteStore, Store};

use super::{append, event, rival, session};

/// The size of an ordinary event's JSON.
const BODY: usize = 490;

/// How long each figure is measured.
const TIME: Duration = Duration::from_millis(1_500);

pub(crate) async fn measure() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    println!("durable events of {BODY} bytes, synchronous=FULL, events/s");
    let flush = rival::fdatasync(dir.path(), BODY, TIME)?;
    let single = rival::sqlite(dir.path(), 1, BODY, TIME)?;
    let group = rival::sqlite(dir.path(), 64, BODY, TIME)?;
    println!("  write + fdatasync, one record          {flush:>9.0}");
    println!("  bare SQLite, one commit for each       {single:>9.0}");
    println!("  bare SQLite, 64 rows a commit          {group:>9.0}");
    let mut best = 0.0_f64;
    for producers in [1, 8, 64] {
        let ours = ours(producers).await?;
        best = best.max(ours);
        println!("  ours, {producers:>2} producers                    {ours:>9.0}");
    }
    println!("  ours / bare group commit               {:>9.2}", best / group);
    println!("  ours / one commit for each             {:>9.2}", best / single);
    bytes().await
}

/// Each producer appends one event at a time to its own session and waits for it.
async fn ours(producers: usize) -> anyhow::Result<f64> {
    let dir = tempfile::tempdir()?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&SqliteOptions::new(dir.path()))?);
    let mut sessions = Vec::new();
    for n in 0..producers {
        sessions.push(session(store.as_ref(), &format!("s{n}")).await?);
    }
    let start = Instant::now();
    let tasks = sessions.into_iter().map(|id| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut done = 0_u64;
            while start.elapsed() < TIME {
                store.commit(vec![append(id, vec![event(BODY)])], Priority::Normal).await?;
                done += 1;
            }
            Ok::<_, plexus_store::StoreError>(done)
        })
    });
    let mut done = 0;
    for task in futures::future::join_all(tasks).await {
        done += task??;
    }
    let rate = done as f64 / start.elapsed().as_secs_f64();
    store.close().await?;
    Ok(rate)
}

/// Bytes on disk for each event, with 64 sessions that write in turns: the worst order for rows that are kept together.
async fn bytes() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let store = SqliteStore::open(&SqliteOptions::new(dir.path()))?;
    let mut sessions = Vec::new();
    for n in 0..64 {
        sessions.push(session(&store, &format!("s{n}")).await?);
    }
    let empty = store.counts().await?.bytes_on_disk;
    let mut total = 0_u64;
    for _ in 0..100 {
        let lists = sessions
            .iter()
            .map(|id| store.commit(vec![append(*id, (0..4).map(|_| event(BODY)).collect())], Priority::Normal));
        for list in futures::future::join_all(lists).await {
            list?;
            total += 4;
        }
    }
    let used = store.counts().await?.bytes_on_disk - empty;
    println!("  bytes on disk an event ({BODY} of JSON)   {:>9.0}", used as f64 / total as f64);
    store.close().await?;
    Ok(())
}

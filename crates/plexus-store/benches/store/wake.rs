//! The time from a commit to the one waiter it concerns, with few and with many others blocked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plexus_core::SessionId;
use plexus_store::{Durability, Priority, SqliteOptions, SqliteStore, Store, Topic};

use super::{append, event, median, session};

const ROUNDS: usize = 300;

pub(crate) async fn measure() -> anyhow::Result<()> {
    println!("from a commit to its one waiter, p50");
    let mut times = Vec::new();
    for others in [10, 10_000] {
        let time = one_of(others).await?;
        println!(
            "  {others:>6} blocked waiters                 {:>9.0} µs",
            time.as_secs_f64() * 1e6
        );
        times.push(time);
    }
    println!(
        "  many / few                             {:>9.2}",
        times[1].as_secs_f64() / times[0].as_secs_f64()
    );
    Ok(())
}

async fn one_of(others: usize) -> anyhow::Result<Duration> {
    let dir = tempfile::tempdir()?;
    let options = SqliteOptions { sync: Durability::Normal, ..SqliteOptions::new(dir.path()) };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&options)?);
    let id = session(store.as_ref(), "s").await?;
    let blocked: Vec<_> = (0..others)
        .map(|_| {
            let mut wake = store.watch(Topic::Session(SessionId::generate()));
            tokio::spawn(async move { wake.changed().await })
        })
        .collect();
    let mut wake = store.watch(Topic::Session(id));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let (committed, number) = tokio::join!(
            store.commit(vec![append(id, vec![event(100)])], Priority::Normal),
            wake.changed()
        );
        times.push(start.elapsed());
        anyhow::ensure!(committed?.commit == number);
    }
    for task in blocked {
        task.abort();
    }
    store.close().await?;
    Ok(median(times))
}

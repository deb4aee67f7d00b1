//! Durable events per second, and their cost on disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plexus_store::{Priority, SqliteOptions, SqliteStore, Store};

use super::{append, event, rival, session};

/// The size of an ordinary event's JSON.
pub(crate) const BODY: usize = 490;

/// How long each figure is measured.
const TIME: Duration = Duration::from_millis(700);

/// How many rounds are run. The best counts, so that other load on the machine does not decide
/// between rivals.
pub(crate) const ROUNDS: usize = 3;

/// How many producers, and how many events each of their lists has.
pub(crate) const LOADS: [(usize, u64); 4] = [(1, 1), (8, 1), (64, 1), (64, 8)];

pub(crate) async fn measure() -> anyhow::Result<()> {
    println!(
        "durable events of {BODY} bytes, synchronous=FULL, events/s, best of {ROUNDS} rounds in \
         turns"
    );
    let (mut flush, mut single, mut group, mut ours) =
        (0.0_f64, 0.0_f64, 0.0_f64, [Figures::default(); LOADS.len()]);
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir()?;
        flush = flush.max(rival::fdatasync(dir.path(), BODY, TIME)?);
        single = single.max(rival::sqlite(dir.path(), 1, BODY, TIME)?);
        group = group.max(rival::sqlite(dir.path(), 64, BODY, TIME)?);
        for (best, (producers, events)) in ours.iter_mut().zip(LOADS) {
            let data = tempfile::tempdir()?;
            let store: Arc<dyn Store> =
                Arc::new(SqliteStore::open(&SqliteOptions::new(data.path()))?);
            best.take_better(produce(store, producers, events, TIME).await?);
        }
    }
    println!("  write + fdatasync, one record          {flush:>9.0}");
    println!("  the same rows, one commit for each     {single:>9.0}");
    println!("  the same rows in SQLite, 64 a commit   {group:>9.0}");
    for (figures, (producers, events)) in ours.iter().zip(LOADS) {
        println!("  ours, {producers:>2} producers, {events} a list          {figures}");
    }
    // A fair comparison: 64 producers that wait for one event each make groups of at most 64.
    let [_, _, like, lists] = ours.map(|figures| figures.rate);
    println!("  64 producers / the same rows, 64 each  {:>9.2}", like / group);
    println!("  64 producers / one commit for each     {:>9.2}", like / single);
    println!("  with 8 a list / one commit for each    {:>9.2}", lists / single);
    bytes().await
}

/// The results of one load.
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    /// Events a second.
    pub(crate) rate: f64,
    /// The 99th percentile of how long a caller waited for its commit.
    p99: Duration,
    /// The processor time of this process for each event, which is steady even on a busy machine.
    cpu: Duration,
}

impl Figures {
    /// Keeps the best of both rounds.
    pub(crate) fn take_better(&mut self, other: Self) {
        let first = self.p99.is_zero();
        self.p99 = if first { other.p99 } else { self.p99.min(other.p99) };
        self.cpu = if first { other.cpu } else { self.cpu.min(other.cpu) };
        self.rate = self.rate.max(other.rate);
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p99, cpu) = (self.p99.as_secs_f64() * 1e3, self.cpu.as_secs_f64() * 1e6);
        write!(f, "{:>9.0}  p99 {p99:>7.2} ms  cpu {cpu:>7.2} µs", self.rate)
    }
}

/// Runs producers that each append some events at a time to their own session and wait for them.
pub(crate) async fn produce(
    store: Arc<dyn Store>,
    producers: usize,
    events: u64,
    time: Duration,
) -> anyhow::Result<Figures> {
    let mut sessions = Vec::new();
    for n in 0..producers {
        sessions.push(session(store.as_ref(), &format!("s{n}")).await?);
    }
    let (start, busy) = (Instant::now(), cpu_time());
    let tasks = sessions.into_iter().map(|id| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut waits = Vec::new();
            while start.elapsed() < time {
                let list = vec![append(id, (0..events).map(|_| event(BODY)).collect())];
                let asked = Instant::now();
                store.commit(list, Priority::Normal).await?;
                waits.push(asked.elapsed());
            }
            Ok::<_, plexus_store::StoreError>(waits)
        })
    });
    let mut waits = Vec::new();
    for task in futures::future::join_all(tasks).await {
        waits.extend(task??);
    }
    let done = waits.len() as u64 * events;
    let rate = done as f64 / start.elapsed().as_secs_f64();
    let cpu = cpu_time().saturating_sub(busy).div_f64((done as f64).max(1.0));
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
    store.close().await?;
    Ok(Figures { rate, p99, cpu })
}

/// Returns the processor time that this process has used.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Measures the bytes on disk for each event, with 64 sessions that write in turns: the worst order
/// for rows that are kept together.
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
        let lists = sessions.iter().map(|id| {
            store.commit(vec![append(*id, (0..4).map(|_| event(BODY)).collect())], Priority::Normal)
        });
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

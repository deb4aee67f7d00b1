//! The database dies or the network fails: every caller still gets the truth, perhaps late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_core::SessionId;
use plexus_store::{PostgresStore, ReadLimit, Store, StoreError};
use testkit::proxy::{Proxy, Weather};
use testkit::wait::{self, PATIENCE};

use crate::fixture::{append, one, open, session_with_chat};

/// How many producers write at once, so that groups have several lists.
const PRODUCERS: usize = 6;

/// Appends numbers until told to stop. A number is reused when its commit was refused, so a refused
/// commit that was stored nevertheless shows up.
async fn produce(
    store: Arc<PostgresStore>,
    session: SessionId,
    stop: Arc<AtomicBool>,
) -> Result<u64, StoreError> {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        match one(store.as_ref(), append(session, [done])).await {
            Ok(_) => done += 1,
            Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Runs producers during `harm`, then checks that exactly the acknowledged events are stored.
async fn under(
    store: Arc<PostgresStore>,
    harm: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut producers = Vec::new();
    for n in 0..PRODUCERS {
        let id = session_with_chat(store.as_ref(), &format!("p{n}")).await?;
        producers.push((id, tokio::spawn(produce(store.clone(), id, stop.clone()))));
    }
    harm.await?;
    stop.store(true, Ordering::Relaxed);
    for (id, producer) in producers {
        let acknowledged = wait::within("the end of a producer", PATIENCE, producer).await??;
        let chat = store.chat(id, None).await?;
        anyhow::ensure!(
            u64::from(chat.total_events) == acknowledged + 1,
            "{acknowledged} were acknowledged, {} are there",
            chat.total_events - 1
        );
        let mut expected = 0;
        let mut from = 1;
        while from < chat.total_events {
            let page = store.read_events(id, 0, from, ReadLimit::events(1000)).await?;
            for event in &page.events {
                anyhow::ensure!(
                    event.body.to_value()["n"] == expected,
                    "{event:?} where {expected} was expected"
                );
                expected += 1;
            }
            from = page.next.next;
        }
        anyhow::ensure!(acknowledged > 0, "nothing was written at all");
    }
    anyhow::ensure!(store.integrity().await?.is_empty());
    Ok(())
}

/// Waits until a commit succeeds again.
async fn goes_on(store: &PostgresStore) {
    let newest = || async { store.newest_commit().await.ok() };
    let before =
        wait::eventually_async("the database after its last failure", PATIENCE, newest).await;
    let more = || async { newest().await.filter(|newest| *newest > before) };
    wait::eventually_async("a commit after the last failure", PATIENCE, more).await;
}

pub(crate) async fn a_killed_database_loses_and_repeats_nothing() -> anyhow::Result<()> {
    let mut cluster = tokio::task::spawn_blocking(testkit::postgres::own).await?;
    let url = cluster.fresh_database()?;
    let store = open(&url).await?;
    let mut kept = None;
    under(store.clone(), async {
        let kills = tokio::task::spawn_blocking(move || -> anyhow::Result<_> {
            for n in 0..4_u64 {
                std::thread::sleep(Duration::from_millis(100 + n * 37));
                cluster.crash_and_restart()?;
            }
            Ok(cluster)
        });
        // Kept until the end, because dropping it removes the database.
        kept = Some(kills.await??);
        goes_on(store.as_ref()).await;
        Ok(())
    })
    .await?;
    store.close().await?;
    tokio::task::spawn_blocking(move || drop(kept)).await?;
    Ok(())
}

pub(crate) async fn lost_connections_lose_and_repeat_nothing() -> anyhow::Result<()> {
    let shared = tokio::task::spawn_blocking(testkit::postgres::shared).await?;
    let direct = tokio::task::spawn_blocking(|| shared.fresh_database()).await??;
    let proxy = Proxy::start(shared.address()).await?;
    let store = open(&shared.url_through(&direct, proxy.address())?).await?;
    let pause = |millis| tokio::time::sleep(Duration::from_millis(millis));
    under(store.clone(), async {
        for n in 0..6_u64 {
            // A writer that has just reconnected gets time to write again, so that the harm hits it
            // in the middle of work.
            goes_on(store.as_ref()).await;
            pause(n * 7).await;
            if n % 2 == 0 {
                proxy.cut_open_connections()
            } else {
                proxy.half_close_open_connections()
            }
        }
        proxy.set(Weather::Cut);
        pause(300).await;
        proxy.set(Weather::Clear);
        goes_on(store.as_ref()).await;
        Ok(())
    })
    .await?;
    store.close().await?;
    Ok(())
}

/// A database, a store that reaches it through a proxy, one that reaches it directly, and a
/// connection that can block every commit.
struct Held {
    proxy: Proxy,
    store: Arc<PostgresStore>,
    direct: Arc<PostgresStore>,
    locker: tokio_postgres::Client,
    /// Looks for waiting connections. It is not the locker, because inside a transaction every
    /// query would show what the first one saw.
    watcher: tokio_postgres::Client,
    session: SessionId,
}

impl Held {
    async fn new() -> anyhow::Result<Self> {
        let shared = tokio::task::spawn_blocking(testkit::postgres::shared).await?;
        let url = tokio::task::spawn_blocking(|| shared.fresh_database()).await??;
        let proxy = Proxy::start(shared.address()).await?;
        let store = open(&shared.url_through(&url, proxy.address())?).await?;
        let direct = open(&url).await?;
        let (locker, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        let (watcher, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        let session = session_with_chat(store.as_ref(), "s").await?;
        // One commit without trouble, so that every statement is prepared.
        one(store.as_ref(), append(session, [0])).await?;
        Ok(Self { proxy, store, direct, locker, watcher, session })
    }

    /// Starts a commit that has been sent and cannot finish until [`release`](Self::release).
    async fn commit_that_waits(
        &self,
        n: u64,
    ) -> anyhow::Result<tokio::task::JoinHandle<Result<u64, StoreError>>> {
        self.locker
            .batch_execute(
                "BEGIN; SELECT 1 FROM plexus.store_meta WHERE key = 'commits' FOR UPDATE",
            )
            .await?;
        let (store, session) = (self.store.clone(), self.session);
        let writing =
            tokio::spawn(
                async move { Ok(one(store.as_ref(), append(session, [n])).await?.commit) },
            );
        let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND \
            wait_event_type = 'Lock' AND query LIKE 'WITH%'";
        wait::eventually_async("a commit that waits", PATIENCE, || async {
            self.watcher.query(waits, &[]).await.ok().filter(|rows| !rows.is_empty())
        })
        .await;
        Ok(writing)
    }

    async fn release(&self) -> anyhow::Result<()> {
        Ok(self.locker.batch_execute("COMMIT").await?)
    }

    async fn total(&self) -> anyhow::Result<u32> {
        Ok(self.direct.chat(self.session, None).await?.total_events)
    }
}

pub(crate) async fn a_commit_whose_answer_was_lost_is_acknowledged_and_not_repeated()
-> anyhow::Result<()> {
    let held = Held::new().await?;
    let writing = held.commit_that_waits(1).await?;
    held.proxy.set(Weather::Unanswered);
    held.release().await?;
    wait::eventually_async("the commit in the database", PATIENCE, || async {
        held.total().await.ok().filter(|total| *total == 3)
    })
    .await;
    // The commit is done, and the only connection that could have told us is gone.
    held.proxy.set(Weather::Cut);
    held.proxy.set(Weather::Clear);
    let commit = wait::within("the answer", PATIENCE, writing).await??;
    assert_eq!((held.total().await?, held.direct.newest_commit().await?), (3, commit));
    assert_eq!(one(held.store.as_ref(), append(held.session, [2])).await?.commit, commit + 1);
    Ok(())
}

pub(crate) async fn a_commit_that_was_lost_before_it_was_done_is_done_once() -> anyhow::Result<()> {
    let held = Held::new().await?;
    let writing = held.commit_that_waits(1).await?;
    held.proxy.cut_open_connections();
    held.release().await?;
    wait::within("the answer", PATIENCE, writing).await??;
    assert_eq!(held.total().await?, 3);
    Ok(())
}

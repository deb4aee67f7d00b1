//! The same measures on PostgreSQL, compared with bare rows under the same commit settings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future;
use plexus_store::{PostgresOptions, PostgresStore, Store, Topic};
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

use super::commit::{self, BODY, Figures, LOADS, ROUNDS};
use super::{append, event, session};

/// How long each figure is measured: longer than for a file, because a group takes longer.
const TIME: Duration = Duration::from_millis(1_500);

/// How many chats the bare rows belong to, in turns.
const CHATS: i64 = 64;

/// How many wakes across two handles are measured.
const WAKES: usize = 200;

pub(crate) async fn measure() -> anyhow::Result<()> {
    if !testkit::postgres::is_installed() {
        println!("PostgreSQL is not installed (apt-get install postgresql)");
        return Ok(());
    }
    let cluster = testkit::postgres::own();
    println!(
        "durable events of {BODY} bytes on PostgreSQL, synchronous_commit=on, events/s, best of \
         {ROUNDS} rounds in turns"
    );
    let (mut single, mut group, mut ours) = (0.0_f64, 0.0_f64, [Figures::default(); LOADS.len()]);
    for _ in 0..ROUNDS {
        single = single.max(bare(&cluster.fresh_database()?, 1).await?);
        group = group.max(bare(&cluster.fresh_database()?, 64).await?);
        for (best, (producers, events)) in ours.iter_mut().zip(LOADS) {
            let options = PostgresOptions::new(cluster.fresh_database()?);
            let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&options).await?);
            best.take_better(commit::produce(store, producers, events, TIME).await?);
        }
    }
    println!("  the same rows, one commit for each     {single:>9.0}");
    println!("  the same rows, 64 a commit, batched    {group:>9.0}");
    for (figures, (producers, events)) in ours.iter().zip(LOADS) {
        println!("  ours, {producers:>2} producers, {events} a list          {figures}");
    }
    let [_, _, like, lists] = ours.map(|figures| figures.rate);
    println!("  64 producers / the same rows, 64 each  {:>9.2}", like / group);
    println!("  64 producers / one commit for each     {:>9.2}", like / single);
    println!("  with 8 a list / one commit for each    {:>9.2}", lists / single);
    wakes(&cluster.fresh_database()?).await
}

/// Measures the time from a commit on one handle until a waiter on another is woken, compared with
/// the commit alone.
async fn wakes(url: &str) -> anyhow::Result<()> {
    let (a, b) = (
        PostgresStore::open(&PostgresOptions::new(url)).await?,
        PostgresStore::open(&PostgresOptions::new(url)).await?,
    );
    let id = session(&a, "s").await?;
    let mut wake = b.watch(Topic::Session(id));
    let (mut commits, mut woken) = (Vec::new(), Vec::new());
    for _ in 0..WAKES {
        let start = Instant::now();
        let committed = a
            .commit(vec![append(id, vec![event(BODY)])], plexus_store::Priority::Urgent)
            .await?
            .commit;
        commits.push(start.elapsed());
        while wake.changed().await < committed {}
        woken.push(start.elapsed());
    }
    for (what, times) in
        [("commit", &mut commits), ("commit → waiter on another handle", &mut woken)]
    {
        times.sort();
        let at =
            |part: f64| times[(part * (times.len() - 1) as f64) as usize].as_secs_f64() * 1_000.0;
        println!("  {what:<38} p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99));
    }
    Ok(())
}

/// Inserts the rows of one event each (the event, its batch, its session's change), `group` events
/// in each transaction, with one statement for each table and everything of a transaction in one
/// round trip.
async fn bare(url: &str, group: i64) -> anyhow::Result<f64> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connect")?;
    let driver = tokio::spawn(connection);
    client
        .batch_execute(
            "CREATE TABLE chat_events (id BIGINT PRIMARY KEY, uuid UUID NOT NULL UNIQUE, \
             created_at BIGINT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL);
             CREATE TABLE event_batches (commit_no BIGINT NOT NULL, chat BIGINT NOT NULL, \
             first_seq BIGINT NOT NULL, count BIGINT NOT NULL,
                 PRIMARY KEY (commit_no, chat, first_seq));
             CREATE TABLE session_changes (session BIGINT PRIMARY KEY, changed BIGINT NOT NULL) \
             WITH (fillfactor = 50);
             CREATE INDEX session_changes_by_commit ON session_changes (changed);",
        )
        .await?;
    let events = client
        .prepare(
            "INSERT INTO chat_events SELECT * FROM unnest($1::int8[], $2::uuid[], $3::int8[], \
             $4::text[], $5::text[])",
        )
        .await?;
    let batches = client
        .prepare(
            "INSERT INTO event_batches SELECT *, 1 FROM unnest($1::int8[], $2::int8[], $3::int8[])",
        )
        .await?;
    let changes = client
        .prepare(
            "INSERT INTO session_changes SELECT * FROM unnest($1::int8[], $2::int8[])
             ON CONFLICT (session) DO UPDATE SET changed = EXCLUDED.changed",
        )
        .await?;
    let (start, mut number) = (Instant::now(), 0_i64);
    while start.elapsed() < TIME {
        insert(&client, [&events, &batches, &changes], number, group).await?;
        number += group;
    }
    let rate = number as f64 / start.elapsed().as_secs_f64();
    drop(client);
    driver.await??;
    Ok(rate)
}

async fn insert(
    client: &Client,
    statements: [&Statement; 3],
    from: i64,
    count: i64,
) -> anyhow::Result<()> {
    let numbers: Vec<i64> = (from + 1..=from + count).collect();
    let chats: Vec<i64> = numbers.iter().map(|number| number % CHATS).collect();
    let seqs: Vec<i64> = numbers.iter().map(|number| number / CHATS).collect();
    let keys: Vec<i64> = chats.iter().zip(&seqs).map(|(chat, seq)| (chat << 32) + seq).collect();
    let rows: Vec<_> = numbers.iter().map(|_| event(BODY)).collect();
    let ids: Vec<Uuid> = rows.iter().map(|row| *row.id.as_uuid()).collect();
    let times: Vec<i64> = rows.iter().map(|row| row.timestamp.0).collect();
    let types: Vec<&str> = rows.iter().map(|row| row.event_type.as_str()).collect();
    let bodies: Vec<&str> = rows.iter().map(|row| row.body.as_str()).collect();
    let [events, batches, changes] = statements;
    // Polled in this order, and therefore sent in this order.
    let (began, rows, (batched, changed, done)) = future::join3(
        client.batch_execute("BEGIN"),
        client.execute(events, &[&keys, &ids, &times, &types, &bodies]),
        future::join3(
            client.execute(batches, &[&numbers, &chats, &seqs]),
            client.execute(changes, &[&chats, &numbers]),
            client.batch_execute("COMMIT"),
        ),
    )
    .await;
    began?;
    rows?;
    batched?;
    changed?;
    done?;
    Ok(())
}

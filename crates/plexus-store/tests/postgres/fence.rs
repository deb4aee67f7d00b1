//! Fencing takes a lock as well as a check: a transaction that has checked its lease and has not
//! committed yet blocks any that would end that lease.

use std::time::Duration;

use anyhow::Context as _;
use plexus_core::ServerId;
use plexus_store::{
    Change, ChatStatus, CreateSession, Outcome, ServerState, StartChat, Store, StoreError,
    TakeOver, UnixMillis,
};
use testkit::wait::{PATIENCE, eventually_async};
use tokio_postgres::{Client, NoTls};

use crate::fixture::{database, one, open};
use crate::together::register;

/// Long enough to begin a write under it, and over soon. On a machine that is too slow the write is
/// refused, which is also correct.
const LEASE: Duration = Duration::from_secs(3);

/// Returns how many of our connections wait for a lock.
async fn waiting(client: &Client) -> Option<i64> {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'plexus' AND \
        wait_event_type = 'Lock'
               AND datname = current_database()";
    client.query_one(sql, &[]).await.ok()?.try_get(0).ok()
}

pub(crate) async fn a_takeover_finds_runs_begun_under_a_lease_that_ended_meanwhile()
-> anyhow::Result<()> {
    let url = database().await?;
    let (dying, other) = (open(&url).await?, open(&url).await?);
    let new = CreateSession::new("s", None);
    let s = new.id;
    one(dying.as_ref(), Change::CreateSession(new)).await?;
    let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let (look, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);

    // The writer is paused after it checked the lease, because another transaction has locked the
    // session.
    let held = client.transaction().await?;
    held.execute("SELECT 1 FROM plexus.sessions FOR UPDATE", &[]).await?;
    let lease = register(dying.as_ref(), ServerId::generate(), LEASE).await?;
    let start = Change::StartChat(StartChat::new(s, "go"));
    let starting = tokio::spawn(async move { one(dying.as_ref(), start).await.map(drop) });
    eventually_async("a write that waits", PATIENCE, || async {
        (starting.is_finished() || waiting(&look).await? > 0).then_some(())
    })
    .await;
    eventually_async("the end of the lease", PATIENCE, || async {
        let servers = other.servers().await.ok()?;
        (servers.first()?.state == ServerState::Expired).then_some(())
    })
    .await;
    let take = Change::TakeOver(TakeOver { lease, reason: "gone".into(), at: UnixMillis::now() });
    let reader = other.clone();
    let taking = tokio::spawn(async move { one(other.as_ref(), take).await });
    eventually_async("a takeover that waits", PATIENCE, || async {
        (taking.is_finished() || starting.is_finished() || waiting(&look).await? > 1).then_some(())
    })
    .await;
    held.commit().await?;

    let started = starting.await?;
    let taken = match &taking.await??.outcomes[..] {
        [Outcome::TakenOver(taken)] => taken.chats.clone(),
        other => panic!("{other:?}"),
    };
    match started {
        Ok(()) => {
            assert_eq!(
                taken,
                vec![(s, 0)],
                "the chat was begun under the lease, so it ends with the lease"
            );
            let chat = reader.chat(s, None).await.context("the chat that was acknowledged")?;
            assert_eq!(chat.status, ChatStatus::Failed);
        }
        // The lease had run out by the database's clock.
        Err(StoreError::Fenced { .. }) => assert_eq!(taken, vec![]),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

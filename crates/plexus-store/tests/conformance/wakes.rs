//! Wakes.

use std::time::Duration;

use plexus_store::{Change, Children, DeleteSession, Owner, Store, Topic, Wake};

use crate::fixture::{allow, ask, chat, decision, events, one, session};

/// How long a wake may take before it counts as missing; generous, because only a failing test
/// waits for it.
const DEADLINE: Duration = Duration::from_secs(120);

async fn woken(wake: &mut Wake, by: &str) -> u64 {
    tokio::time::timeout(DEADLINE, wake.changed())
        .await
        .unwrap_or_else(|_| panic!("no wake came for {by}"))
}

/// Returns whether a wake is pending. Answers come after wakes, so none can still be on its way.
async fn is_woken(wake: &mut Wake) -> bool {
    tokio::time::timeout(Duration::ZERO, wake.changed()).await.is_ok()
}

pub(crate) async fn only_the_waiter_of_that_thing_is_woken(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", None).await?;
    let (mut of_a, mut of_b) = (store.watch(Topic::Session(a)), store.watch(Topic::Session(b)));
    let mut commits = store.watch(Topic::Commits);
    chat(store, a, "hi").await?;
    let committed = one(store, events(a, 0, &["x"])).await?;
    assert_eq!(
        woken(&mut of_a, "the session").await,
        committed.commit,
        "several commits may fall into one wake"
    );
    assert_eq!(woken(&mut commits, "the commit").await, committed.commit);
    assert!(!is_woken(&mut of_b).await && !is_woken(&mut of_a).await);

    let (mut operator, mut others) = (
        store.watch(Topic::PendingOf(Owner::Operator)),
        store.watch(Topic::PendingOf(Owner::Session(a))),
    );
    let mut pending = store.watch(Topic::Pending);
    let (mut in_a, mut in_b) = (store.watch(Topic::PendingIn(a)), store.watch(Topic::PendingIn(b)));
    let mut parked = store.watch(Topic::Parked);
    let approval = ask(store, b, "r").await?;
    let other = ask(store, b, "r2").await?;
    for (wake, by) in [
        (&mut operator, "the owner"),
        (&mut pending, "all pending"),
        (&mut of_b, "the session"),
        (&mut in_b, "what waits in the session"),
    ] {
        woken(wake, by).await;
    }
    for other in [&mut others, &mut of_a, &mut in_a, &mut parked] {
        assert!(!is_woken(other).await);
    }
    one(store, events(a, 0, &["y"])).await?;
    woken(&mut of_a, "the session again").await;
    assert!(!is_woken(&mut in_a).await, "an event is no question");
    let (mut this, mut that) =
        (store.watch(Topic::Approval(approval)), store.watch(Topic::Approval(other)));
    one(store, Change::DecideApproval(decision(approval, allow()))).await?;
    woken(&mut this, "the approval").await;
    assert!(!is_woken(&mut that).await);
    Ok(())
}

pub(crate) async fn a_wake_follows_the_commit(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let mut wake = store.watch(Topic::Session(s));
    let before = store.chat(s, None).await?.total_events;
    let write = async { one(store, events(s, 0, &["x"])).await };
    let read = async {
        let number = woken(&mut wake, "the event").await;
        // A woken reader finds the commit that woke it.
        Ok::<_, anyhow::Error>((
            number,
            store.chat(s, None).await?.total_events,
            store.newest_commit().await?,
        ))
    };
    let (committed, read) = tokio::join!(write, read);
    let (number, total, newest) = read?;
    assert_eq!((number, total), (committed?.commit, before + 1));
    assert!(newest >= number);
    // A refused list wakes nobody.
    assert!(one(store, events(s, 7, &["x"])).await.is_err());
    assert!(!is_woken(&mut wake).await);
    Ok(())
}

pub(crate) async fn nothing_is_left_of_a_subscription(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let first = store.watch(Topic::Session(s));
    drop(first);
    let mut second = store.watch(Topic::Session(s));
    assert_eq!(second.seen(), 0, "an old subscription's number is not inherited");
    let third = store.watch(Topic::Session(s));
    drop(third);
    chat(store, s, "hi").await?;
    woken(&mut second, "the chat").await;
    Ok(())
}

pub(crate) async fn deleting_a_session_wakes_who_waits_for_its_approvals(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let approval = ask(store, s, "r").await?;
    let (mut this, mut operator) =
        (store.watch(Topic::Approval(approval)), store.watch(Topic::PendingOf(Owner::Operator)));
    let mut waits = store.watch(Topic::PendingIn(s));
    one(store, Change::DeleteSession(DeleteSession { id: s, children: Children::Refuse })).await?;
    woken(&mut this, "the approval that is gone").await;
    woken(&mut operator, "its owner").await;
    woken(&mut waits, "who waits for its questions").await;
    Ok(())
}

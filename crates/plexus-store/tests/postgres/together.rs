//! Several servers at once.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_core::{ApprovalId, ServerId, SessionId};
use plexus_store::{
    Again, ApprovalStatus, Change, CreateSession, DecideApproval, Lease, OpenApproval, Outcome,
    Priority, ReadLimit, RegisterServer, RenewLease, RunKey, Store, StoreError, TakeOver, Topic,
    UnixMillis, UpdateRun, Verdict,
};
use serde_json::json;
use testkit::wait::{self, PATIENCE};

use crate::fixture::{
    allow, append, database, decision, new_run, one, open, question, session_with_chat,
};

/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(3600);

fn asked(session: SessionId) -> OpenApproval {
    OpenApproval { chat: Some(0), ..question(session, "r", "ls") }
}

fn decide(id: ApprovalId, verdict: Verdict) -> Change {
    Change::DecideApproval(DecideApproval { again: Again::Refused, ..decision(id, verdict) })
}

pub(crate) async fn a_commit_on_one_server_wakes_who_waits_on_another() -> anyhow::Result<()> {
    let url = database().await?;
    let (a, b) = (open(&url).await?, open(&url).await?);
    let s = session_with_chat(a.as_ref(), "s").await?;
    let open = asked(s);
    let id = open.id;
    one(a.as_ref(), Change::OpenApproval(open)).await?;
    let (mut approval, mut of_session) = (a.watch(Topic::Approval(id)), a.watch(Topic::Session(s)));
    let decided = one(b.as_ref(), decide(id, Verdict::Deny)).await?.commit;
    assert_eq!(
        wait::within("the wake of the approval", PATIENCE, approval.changed()).await,
        decided
    );
    assert_eq!(
        a.approval(id).await?.status,
        ApprovalStatus::Denied,
        "who is woken finds what it was woken for"
    );
    wait::within("the wake of the session", PATIENCE, of_session.changed()).await;
    // More topics than a notification holds: all subscribers are woken.
    let mut sessions = Vec::new();
    for n in 0..300 {
        sessions.push(Change::CreateSession(CreateSession::new(format!("many-{n}"), None)));
    }
    let Change::CreateSession(last) = &sessions[299] else { panic!("a session") };
    let mut wake = a.watch(Topic::Session(last.id));
    b.commit(sessions, Priority::Normal).await?;
    wait::within("the wake of one of many", PATIENCE, wake.changed()).await;
    Ok(())
}

pub(crate) async fn a_lost_listener_costs_a_look_and_no_wake() -> anyhow::Result<()> {
    let url = database().await?;
    let (a, b) = (open(&url).await?, open(&url).await?);
    let s = session_with_chat(a.as_ref(), "s").await?;
    let mut wake = a.watch(Topic::Session(s));
    let name = url.rsplit('/').next().expect("a database").to_owned();
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}' \
         AND (query LIKE 'LISTEN%' OR query LIKE '%key = ''commits''%')"
    );
    for n in 0..5 {
        let (name, kill) = (name.clone(), kill.clone());
        tokio::task::spawn_blocking(move || testkit::postgres::shared().sql(&name, &kill))
            .await??;
        let commit = one(b.as_ref(), append(s, [n])).await?.commit;
        let woken = async { while wake.changed().await < commit {} };
        wait::within("the wake after the listener was lost", PATIENCE, woken).await;
    }
    Ok(())
}

pub(crate) async fn one_of_two_servers_decides() -> anyhow::Result<()> {
    let url = database().await?;
    let (a, b) = (open(&url).await?, open(&url).await?);
    for n in 0..20 {
        let s = session_with_chat(a.as_ref(), &format!("s{n}")).await?;
        let open = asked(s);
        let id = open.id;
        one(b.as_ref(), Change::OpenApproval(open)).await?;
        let (first, second) = tokio::join!(
            one(a.as_ref(), decide(id, allow())),
            one(b.as_ref(), decide(id, Verdict::Deny))
        );
        let stands = a.approval(id).await?.status;
        let (won, lost) = match (first, second) {
            (Ok(_), Err(error)) => (ApprovalStatus::Allowed, error),
            (Err(error), Ok(_)) => (ApprovalStatus::Denied, error),
            other => panic!("one decides and one loses: {other:?}"),
        };
        assert_eq!(stands, won);
        let StoreError::Conflict { standing, .. } = lost else { panic!("{lost:?}") };
        assert_eq!(standing["status"], json!(won), "the loser learns what stands");
    }
    Ok(())
}

pub(crate) async fn a_name_is_given_once_and_a_chat_is_started_once() -> anyhow::Result<()> {
    let url = database().await?;
    let (a, b) = (open(&url).await?, open(&url).await?);
    for n in 0..20 {
        let new = || CreateSession::new(format!("s{n}"), None);
        let (first, second) = (new(), new());
        let ids = (first.id, second.id);
        let (x, y) = tokio::join!(
            one(a.as_ref(), Change::CreateSession(first)),
            one(b.as_ref(), Change::CreateSession(second))
        );
        let (holder, lost) = match (x, y) {
            (Ok(_), Err(error)) => (ids.0, error),
            (Err(error), Ok(_)) => (ids.1, error),
            other => panic!("one gets the name: {other:?}"),
        };
        let StoreError::Conflict { standing, .. } = lost else { panic!("{lost:?}") };
        assert_eq!(standing, json!(holder), "the loser learns who has the name");
        let start = || Change::StartChat(plexus_store::StartChat::new(holder, "go"));
        let (x, y) = tokio::join!(one(a.as_ref(), start()), one(b.as_ref(), start()));
        assert!(x.is_ok() != y.is_ok(), "{x:?} {y:?}");
    }
    assert_eq!(a.integrity().await?, Vec::<String>::new());
    Ok(())
}

/// How many sessions each of two servers writes to, and how many events each gets.
const WRITERS: u64 = 8;
const EVENTS: u64 = 60;

pub(crate) async fn a_reader_of_everything_misses_nothing_of_two_servers() -> anyhow::Result<()> {
    let url = database().await?;
    let (a, b, reader) = (open(&url).await?, open(&url).await?, open(&url).await?);
    let mut writing = Vec::new();
    for n in 0..WRITERS {
        // Both servers write to half of the sessions; their chats still have no gap.
        let s = session_with_chat(a.as_ref(), &format!("s{n}")).await?;
        let stores = if n % 2 == 0 {
            vec![a.clone(), b.clone()]
        } else {
            vec![if n % 4 == 1 { a.clone() } else { b.clone() }]
        };
        let each = EVENTS / stores.len() as u64;
        for store in stores {
            writing.push(tokio::spawn(async move {
                for n in 0..each {
                    one(store.as_ref(), append(s, [n])).await?;
                }
                Ok::<_, StoreError>(())
            }));
        }
    }
    let expected = WRITERS * (EVENTS + 1);
    let mut seen: BTreeMap<_, u32> = BTreeMap::new();
    let reading = async {
        let (mut after, mut total) = (0, 0_u64);
        let mut wake = reader.watch(Topic::Commits);
        while total < expected {
            let page = reader.read_commits(after, ReadLimit::events(50)).await?;
            for it in &page.events {
                let next = seen.entry(it.event.session).or_default();
                assert_eq!(it.event.seq, *next, "an event was skipped or came twice");
                assert!(it.commit > after || page.after >= it.commit);
                *next += 1;
                total += 1;
            }
            after = page.after;
            if !page.has_more && total < expected {
                wake.changed().await;
            }
        }
        Ok::<_, StoreError>(())
    };
    wait::within("every event", PATIENCE, reading).await?;
    for task in writing {
        task.await??;
    }
    assert!(seen.values().all(|count| u64::from(*count) == EVENTS + 1), "{seen:?}");
    assert_eq!(reader.integrity().await?, Vec::<String>::new());
    Ok(())
}

pub(crate) async fn register(
    store: &dyn Store,
    id: ServerId,
    lease: Duration,
) -> anyhow::Result<Lease> {
    let new =
        RegisterServer { id, name: "alpha".into(), url: "http://alpha.example".into(), lease };
    Ok(one(store, Change::RegisterServer(new)).await?.lease().expect("a lease"))
}

pub(crate) async fn a_server_that_started_again_fences_what_is_left_of_it() -> anyhow::Result<()> {
    let url = database().await?;
    let (old, new) = (open(&url).await?, open(&url).await?);
    let id = ServerId::generate();
    let first = register(old.as_ref(), id, LONG).await?;
    let s = session_with_chat(old.as_ref(), "s").await?;
    let run = one(old.as_ref(), Change::CreateRun(new_run(s))).await?.run().expect("a run");
    one(old.as_ref(), append(s, [0])).await?;
    register(new.as_ref(), id, LONG).await?;
    for change in [
        append(s, [1]),
        Change::UpdateRun(UpdateRun::of(run)),
        Change::RenewLease(RenewLease { lease: first, lasts: LONG }),
    ] {
        match one(old.as_ref(), change).await {
            Err(StoreError::Fenced { .. }) => {}
            other => panic!("what is left of a server wrote: {other:?}"),
        }
    }
    // One refused list of a group does not affect the others.
    let plain = Change::CreateSession(CreateSession::new("other", None));
    let (fenced, fine) = tokio::join!(one(old.as_ref(), append(s, [1])), one(old.as_ref(), plain));
    assert!(
        matches!(fenced, Err(StoreError::Fenced { .. })) && fine.is_ok(),
        "{fenced:?} {fine:?}"
    );
    one(new.as_ref(), append(s, [1])).await?;
    assert_eq!(new.chat(s, None).await?.total_events, 3);
    Ok(())
}

pub(crate) async fn a_takeover_and_a_late_write_never_both_happen() -> anyhow::Result<()> {
    let url = database().await?;
    let (dying, other) = (open(&url).await?, open(&url).await?);
    let id = ServerId::generate();
    for n in 0..8 {
        register(dying.as_ref(), id, LONG).await?;
        let s = session_with_chat(dying.as_ref(), &format!("s{n}")).await?;
        one(dying.as_ref(), Change::CreateRun(new_run(s))).await?;
        let lease = register(dying.as_ref(), id, Duration::from_millis(30)).await?;
        let take = || TakeOver { lease, reason: "gone".into(), at: UnixMillis::now() };
        let mut written = 0_u64;
        let writing = async {
            loop {
                match one(dying.as_ref(), append(s, [written])).await {
                    Ok(_) => written += 1,
                    Err(StoreError::Fenced { .. } | StoreError::Conflict { .. }) => {
                        return Ok::<_, StoreError>(());
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let taking = async {
            loop {
                match one(other.as_ref(), Change::TakeOver(take())).await {
                    Ok(done) => return Ok::<_, StoreError>(done),
                    Err(StoreError::Conflict { .. }) => {
                        tokio::time::sleep(Duration::from_millis(2)).await
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let (wrote, took) =
            wait::within("the takeover", PATIENCE, async { tokio::join!(writing, taking) }).await;
        wrote?;
        let [Outcome::TakenOver(taken)] = &took?.outcomes[..] else {
            panic!("nothing was taken over")
        };
        assert_eq!(taken.runs, vec![RunKey { session: s, n: 0 }]);
        // The start, the acknowledged events, and the end: nothing came after that.
        let chat = other.chat(s, None).await?;
        assert_eq!(u64::from(chat.total_events), 1 + written + 1, "{chat:?}");
        let last = other.read_events(s, 0, chat.total_events - 1, ReadLimit::events(10)).await?;
        assert_eq!(last.events[0].event_type, "error");
    }
    Ok(())
}

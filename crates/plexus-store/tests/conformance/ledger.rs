//! The audit log and the outbox.

use std::time::Duration;

use anyhow::Context as _;
use plexus_store::{
    Again, AuditLine, Change, Children, DecideApproval, DeleteSession, JsonText, MarkOutbox,
    NumberedLine, OpenApproval, OutboxDue, OutboxEntry, Page, PageRequest, Sending, Store,
    StoreError, Thing, Topic, UnixMillis, Waiting,
};
use serde_json::json;
use uuid::Uuid;

use crate::assert_err;
use crate::fixture::{allow, approval_of, decision, one, question, session};

pub(crate) async fn audit_lines_come_newest_first(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let line = |n: i64, session| AuditLine {
        at: UnixMillis(n),
        kind: "approval.decided".into(),
        session,
        body: JsonText::from(json!({ "n": n })),
    };
    let lines = [line(1, Some(s)), line(2, None), line(3, Some(s))];
    for it in &lines {
        one(store, Change::AppendAudit(it.clone())).await?;
    }
    one(store, Change::DeleteSession(DeleteSession { id: s, children: Children::Refuse })).await?;
    let [first, second, third] = lines;
    assert_eq!(
        lines_of(store.audit(None, PageRequest::default()).await?),
        vec![third.clone(), second, first.clone()]
    );
    let page = store.audit(Some(s), PageRequest::first(1)).await?;
    let next = page.next;
    assert_eq!(lines_of(page), vec![third], "the audit of a session outlives it");
    let rest = store.audit(Some(s), PageRequest { after: next, limit: 5 }).await?;
    assert_eq!((rest.next, lines_of(rest)), (None, vec![first]));
    Ok(())
}

fn lines_of(page: Page<NumberedLine>) -> Vec<AuditLine> {
    assert!(page.items.is_sorted_by(|newer, older| newer.number > older.number), "{page:?}");
    page.items.into_iter().map(|numbered| numbered.line).collect()
}

fn entry(target: &str, due: i64) -> OutboxEntry {
    OutboxEntry {
        id: Uuid::now_v7(),
        kind: "approval.requested".into(),
        target: target.into(),
        body: JsonText::from(json!({"a": 1})),
        created_at: UnixMillis(due / 2),
        due_at: UnixMillis(due),
        attempts: 0,
        last_error: None,
    }
}

pub(crate) async fn the_outbox_keeps_what_is_not_sent(store: &dyn Store) -> anyhow::Result<()> {
    let (late, early) = (entry("phone", 20), entry("phone", 10));
    for it in [&late, &early, &early] {
        one(store, Change::Enqueue(it.clone())).await?;
    }
    let due = async |now| store.outbox_due("phone", UnixMillis(now), 10).await;
    let found = |entries: &[&OutboxEntry], next: Option<i64>| OutboxDue {
        entries: entries.iter().copied().cloned().collect(),
        next: next.map(UnixMillis),
    };
    assert_eq!(due(15).await?, found(&[&early], Some(20)));
    assert_eq!(due(20).await?, found(&[&early, &late], None));
    let mark = |id, result| Change::MarkOutbox(MarkOutbox { id, result });
    let failed = Sending::Failed { retry_at: UnixMillis(30), error: "no route".into() };
    one(store, mark(early.id, failed)).await?;
    assert_eq!(due(20).await?, found(&[&late], Some(30)));
    let retried = OutboxEntry {
        due_at: UnixMillis(30),
        attempts: 1,
        last_error: Some("no route".into()),
        ..early.clone()
    };
    assert_eq!(due(30).await?, found(&[&late, &retried], None));
    one(store, mark(late.id, Sending::Sent)).await?;
    one(store, mark(early.id, Sending::GivenUp)).await?;
    assert_eq!(due(99).await?, OutboxDue::default());
    assert_err!(
        one(store, mark(late.id, Sending::Sent)).await,
        StoreError::NotFound { what: Thing::Outbox, .. }
    );
    Ok(())
}

pub(crate) async fn a_message_that_somebody_sends_is_left_alone_for_a_while(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let message = entry("phone", 10);
    one(store, Change::Enqueue(message.clone())).await?;
    let begin = |due_at, until| {
        let result = Sending::Begun { due_at: UnixMillis(due_at), until: UnixMillis(until) };
        Change::MarkOutbox(MarkOutbox { id: message.id, result })
    };
    let tries = futures::future::join_all((0..8).map(|n| one(store, begin(10, 50 + n)))).await;
    assert_eq!(tries.iter().filter(|begun| begun.is_ok()).count(), 1, "one of many begins");
    for lost in tries.into_iter().filter(Result::is_err) {
        assert_err!(lost, StoreError::NotFound { what: Thing::Outbox, .. });
    }
    let due = store.outbox_due("phone", UnixMillis(49), 10).await?;
    let until = due.next.context("it is still there")?;
    assert!(due.entries.is_empty() && (50..58).contains(&until.0), "{due:?}");
    // The sender that began never recorded a result.
    let again = OutboxEntry { due_at: until, ..message.clone() };
    assert_eq!(
        store.outbox_due("phone", until, 10).await?,
        OutboxDue { entries: vec![again], next: None }
    );
    one(store, begin(until.0, 90)).await?;
    one(store, Change::MarkOutbox(MarkOutbox { id: message.id, result: Sending::Sent })).await?;
    assert_err!(one(store, begin(90, 99)).await, StoreError::NotFound { what: Thing::Outbox, .. });
    Ok(())
}

pub(crate) async fn no_target_waits_behind_another(store: &dyn Store) -> anyhow::Result<()> {
    let mut wake = store.watch(Topic::Outbox);
    for due in 0..5 {
        one(store, Change::Enqueue(entry("down", due * 2))).await?;
    }
    let phone = entry("phone", 50);
    let commit = one(store, Change::Enqueue(phone.clone())).await?.commit;
    let heard = async { while wake.changed().await < commit {} };
    tokio::time::timeout(Duration::from_secs(60), heard)
        .await
        .context("whoever sends does not hear of an entry")?;
    let due = store.outbox_due("phone", UnixMillis(99), 2).await?;
    assert_eq!(due, OutboxDue { entries: vec![phone], next: None });
    let page = store.outbox_due("down", UnixMillis(99), 2).await?;
    assert_eq!((page.entries.len(), page.next), (2, Some(UnixMillis(4))));
    assert_eq!(store.outbox_due("nobody", UnixMillis(99), 2).await?, OutboxDue::default());
    let waiting =
        |target: &str, entries, oldest| Waiting { target: target.into(), entries, oldest };
    assert_eq!(
        store.outbox_waiting().await?,
        vec![waiting("down", 5, UnixMillis(0)), waiting("phone", 1, UnixMillis(25))]
    );
    Ok(())
}

pub(crate) async fn only_the_change_that_makes_it_so_tells_of_it(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let told =
        async || store.outbox_due("phone", UnixMillis(99), 10).await.map(|due| due.entries.len());
    let open = || OpenApproval { outbox: vec![entry("phone", 1)], ..question(s, "r", "ls") };
    let asked = approval_of(&one(store, Change::OpenApproval(open())).await?);
    one(store, Change::OpenApproval(open())).await?;
    assert_eq!(told().await?, 1, "a request that is joined was told of");
    let decide =
        || DecideApproval { outbox: vec![entry("phone", 1)], ..decision(asked.id, allow()) };
    one(store, Change::DecideApproval(decide())).await?;
    one(store, Change::DecideApproval(decide())).await?;
    assert_eq!(told().await?, 2, "so was a decision that stands");
    let strict = DecideApproval { again: Again::Refused, ..decide() };
    assert_err!(one(store, Change::DecideApproval(strict)).await, StoreError::Conflict { .. });
    assert_eq!(told().await?, 2);
    Ok(())
}

pub(crate) async fn the_newest_time_is_that_of_the_latest_change(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let before = UnixMillis::now();
    session(store, "a", None).await?;
    assert!(store.newest_time().await?.is_some_and(|newest| newest >= before));
    let later = before.plus(Duration::from_secs(3_600));
    let body = JsonText::from(json!({}));
    let line = AuditLine { at: later, kind: "test".to_owned(), session: None, body };
    one(store, Change::AppendAudit(line)).await?;
    assert_eq!(store.newest_time().await?, Some(later));
    Ok(())
}

//! The audit and the outbox.

use plexus_store::{
    AuditLine, Change, Children, DeleteSession, JsonText, MarkOutbox, OutboxEntry, PageRequest, Sending, Store,
    StoreError, Thing, UnixMillis,
};
use serde_json::json;
use uuid::Uuid;

use crate::assert_err;
use crate::fixture::{one, session};

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
    assert_eq!(store.audit(None, PageRequest::default()).await?.items, vec![third.clone(), second, first.clone()]);
    let page = store.audit(Some(s), PageRequest::first(1)).await?;
    assert_eq!(page.items, vec![third], "the audit of a session outlives it");
    let rest = store.audit(Some(s), PageRequest { after: page.next, limit: 5 }).await?;
    assert_eq!((rest.items, rest.next), (vec![first], None));
    Ok(())
}

pub(crate) async fn the_outbox_keeps_what_is_not_sent(store: &dyn Store) -> anyhow::Result<()> {
    let entry = |due| OutboxEntry {
        id: Uuid::now_v7(),
        kind: "approval.requested".into(),
        target: "phone".into(),
        body: JsonText::from(json!({"a": 1})),
        due_at: UnixMillis(due),
        attempts: 0,
        last_error: None,
    };
    let (late, early) = (entry(20), entry(10));
    for it in [&late, &early, &early] {
        one(store, Change::Enqueue(it.clone())).await?;
    }
    assert_eq!(store.outbox_due(UnixMillis(15), 10).await?, vec![early.clone()]);
    assert_eq!(store.outbox_due(UnixMillis(20), 10).await?, vec![early.clone(), late.clone()]);
    let mark = |id, result| Change::MarkOutbox(MarkOutbox { id, result });
    let failed = Sending::Failed { retry_at: UnixMillis(30), error: "no route".into() };
    one(store, mark(early.id, failed)).await?;
    assert_eq!(store.outbox_due(UnixMillis(20), 10).await?, vec![late.clone()]);
    let retried =
        OutboxEntry { due_at: UnixMillis(30), attempts: 1, last_error: Some("no route".into()), ..early.clone() };
    assert_eq!(store.outbox_due(UnixMillis(30), 10).await?, vec![late.clone(), retried]);
    one(store, mark(late.id, Sending::Sent)).await?;
    one(store, mark(early.id, Sending::GivenUp)).await?;
    assert_eq!(store.outbox_due(UnixMillis(99), 10).await?, vec![]);
    assert_err!(one(store, mark(late.id, Sending::Sent)).await, StoreError::NotFound { what: Thing::Outbox, .. });
    Ok(())
}

//! The audit log and the outbox in SQL.

use plexus_core::SessionId;

use super::sql::{Sql, params};
use super::tx::Tx;
use crate::contract::{
    AuditLine, MarkOutbox, NumberedLine, OutboxDue, OutboxEntry, Outcome, Page, PageRequest,
    Sending, StoreError, Thing, Topic, UnixMillis, Waiting,
};

pub(super) async fn append(
    tx: &mut Tx<'_, impl Sql>,
    line: &AuditLine,
) -> Result<Outcome, StoreError> {
    tx.conn
        .run(
            "INSERT INTO audit (at, kind, session, body) VALUES (?1, ?2, ?3, ?4)",
            params![line.at, line.kind, line.session, line.body],
        )
        .await?;
    Ok(Outcome::Done)
}

pub(crate) async fn list(
    conn: &impl Sql,
    session: Option<SessionId>,
    page: PageRequest,
) -> Result<Page<NumberedLine>, StoreError> {
    let limit = page.bounded();
    let which = if session.is_some() { "session = ?3" } else { "?3 IS NULL" };
    let rows = conn
        .all(
            &format!(
                "SELECT id, at, kind, session, body FROM audit WHERE id < ?1 AND {which}
                 ORDER BY id DESC LIMIT ?2"
            ),
            params![page.after.map_or(u64::MAX, |token| token.0), limit + 1, session],
            |row| {
                let (number, session) = (row.get(0)?, row.maybe(3)?);
                let line =
                    AuditLine { at: row.get(1)?, kind: row.get(2)?, session, body: row.get(4)? };
                Ok((number, NumberedLine { number, line }))
            },
        )
        .await?;
    Ok(Page::of(rows, limit))
}

pub(super) async fn enqueue(
    tx: &mut Tx<'_, impl Sql>,
    entry: &OutboxEntry,
) -> Result<Outcome, StoreError> {
    tx.conn
        .run(
            "INSERT INTO outbox (uuid, kind, target, created_at, due_at, attempts, last_error,
                 body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (uuid) DO NOTHING",
            params![
                entry.id,
                entry.kind,
                entry.target,
                entry.created_at,
                entry.due_at,
                entry.attempts,
                entry.last_error,
                entry.body
            ],
        )
        .await?;
    tx.topics.push(Topic::Outbox);
    Ok(Outcome::Done)
}

pub(crate) async fn due(
    conn: &impl Sql,
    target: &str,
    now: UnixMillis,
    limit: usize,
) -> Result<OutboxDue, StoreError> {
    let limit = PageRequest::first(limit).bounded();
    // One more entry than requested is read, to learn when the rest is due.
    let mut entries = conn
        .all(
            "SELECT uuid, kind, target, created_at, due_at, attempts, last_error, body
             FROM outbox WHERE target = ?1 ORDER BY due_at, id LIMIT ?2",
            params![target, limit + 1],
            |row| {
                Ok(OutboxEntry {
                    id: row.get(0)?,
                    kind: row.get(1)?,
                    target: row.get(2)?,
                    created_at: row.get(3)?,
                    due_at: row.get(4)?,
                    attempts: row.get(5)?,
                    last_error: row.maybe(6)?,
                    body: row.get(7)?,
                })
            },
        )
        .await?;
    let due = entries.partition_point(|entry| entry.due_at <= now).min(limit);
    let next = entries.get(due).map(|entry| entry.due_at);
    entries.truncate(due);
    Ok(OutboxDue { entries, next })
}

pub(crate) async fn waiting(conn: &impl Sql) -> Result<Vec<Waiting>, StoreError> {
    conn.all(
        "SELECT target, count(*), min(created_at) FROM outbox GROUP BY target ORDER BY target",
        &[],
        |row| Ok(Waiting { target: row.get(0)?, entries: row.get(1)?, oldest: row.get(2)? }),
    )
    .await
}

pub(super) async fn mark(
    tx: &mut Tx<'_, impl Sql>,
    mark: MarkOutbox,
) -> Result<Outcome, StoreError> {
    let id = mark.id;
    let changed = match mark.result {
        Sending::Begun { due_at, until } => {
            tx.conn
                .run(
                    "UPDATE outbox SET due_at = ?3 WHERE uuid = ?1 AND due_at = ?2",
                    params![id, due_at, until],
                )
                .await?
        }
        Sending::Sent | Sending::GivenUp => {
            tx.conn.run("DELETE FROM outbox WHERE uuid = ?1", params![id]).await?
        }
        Sending::Failed { retry_at, error } => {
            tx.conn
                .run(
                    "UPDATE outbox SET due_at = ?2, attempts = attempts + 1, last_error = ?3
                     WHERE uuid = ?1",
                    params![id, retry_at, error],
                )
                .await?
        }
    };
    if changed == 0 {
        Err(StoreError::not_found(Thing::Outbox, mark.id))
    } else {
        Ok(Outcome::Done)
    }
}

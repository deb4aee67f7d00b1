//! The audit and the outbox in SQL.

use plexus_core::SessionId;
use rusqlite::{Connection, params};

use super::sql::{Columns, Sql, blob, int};
use super::tx::Tx;
use crate::contract::{
    AuditLine, MarkOutbox, OutboxDue, OutboxEntry, Outcome, Page, PageRequest, Sending, StoreError,
    Thing, Topic, UnixMillis, Waiting,
};

pub(super) fn append(tx: &mut Tx<'_>, line: &AuditLine) -> Result<Outcome, StoreError> {
    tx.conn.run(
        "INSERT INTO audit (at, kind, session, body) VALUES (?1, ?2, ?3, ?4)",
        params![
            line.at.0,
            line.kind,
            line.session.map(|id| blob(id.as_uuid())),
            line.body.as_str()
        ],
    )?;
    Ok(Outcome::Done)
}

pub(super) fn list(
    conn: &Connection,
    session: Option<SessionId>,
    page: PageRequest,
) -> Result<Page<AuditLine>, StoreError> {
    let limit = page.bounded();
    let which = if session.is_some() { "session = ?3" } else { "?3 IS NULL" };
    let rows = conn.all(
        &format!("SELECT id, at, kind, session, body FROM audit WHERE id < ?1 AND {which} ORDER BY id DESC LIMIT ?2"),
        params![
            page.after.map_or(i64::MAX, |token| int(token.0)),
            int(limit as u64 + 1),
            session.map(|id| blob(id.as_uuid()))
        ],
        |row| {
            let session = row.maybe_uuid(3)?.map(SessionId::from_uuid);
            Ok((row.count(0)?, AuditLine { at: row.time(1)?, kind: row.get(2)?, session, body: row.json(4)? }))
        },
    )?;
    Ok(Page::of(rows, limit))
}

pub(super) fn enqueue(tx: &mut Tx<'_>, entry: &OutboxEntry) -> Result<Outcome, StoreError> {
    tx.conn.run(
        "INSERT INTO outbox (uuid, kind, target, created_at, due_at, attempts, last_error, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (uuid) DO NOTHING",
        params![
            blob(&entry.id),
            entry.kind,
            entry.target,
            entry.created_at.0,
            entry.due_at.0,
            entry.attempts,
            entry.last_error,
            entry.body.as_str()
        ],
    )?;
    tx.topics.push(Topic::Outbox);
    Ok(Outcome::Done)
}

pub(super) fn due(
    conn: &Connection,
    target: &str,
    now: UnixMillis,
    limit: usize,
) -> Result<OutboxDue, StoreError> {
    let limit = PageRequest::first(limit).bounded();
    // One more than is asked for says when the rest is due.
    let mut entries = conn.all(
        "SELECT uuid, kind, target, created_at, due_at, attempts, last_error, body FROM outbox WHERE target = ?1 ORDER BY due_at, id LIMIT ?2",
        params![target, int(limit as u64 + 1)],
        |row| {
            Ok(OutboxEntry {
                id: row.uuid(0)?,
                kind: row.get(1)?,
                target: row.get(2)?,
                created_at: row.time(3)?,
                due_at: row.time(4)?,
                attempts: row.get(5)?,
                last_error: row.get(6)?,
                body: row.json(7)?,
            })
        },
    )?;
    let due = entries.partition_point(|entry| entry.due_at <= now).min(limit);
    let next = entries.get(due).map(|entry| entry.due_at);
    entries.truncate(due);
    Ok(OutboxDue { entries, next })
}

pub(super) fn waiting(conn: &Connection) -> Result<Vec<Waiting>, StoreError> {
    conn.all(
        "SELECT target, count(*), min(created_at) FROM outbox GROUP BY target ORDER BY target",
        [],
        |row| Ok(Waiting { target: row.get(0)?, entries: row.count(1)?, oldest: row.time(2)? }),
    )
}

pub(super) fn mark(tx: &mut Tx<'_>, mark: MarkOutbox) -> Result<Outcome, StoreError> {
    let id = blob(&mark.id);
    let changed = match mark.result {
        Sending::Begun { due_at, until } => tx
            .conn
            .run("UPDATE outbox SET due_at = ?3 WHERE uuid = ?1 AND due_at = ?2", params![id, due_at.0, until.0])?,
        Sending::Sent | Sending::GivenUp => tx.conn.run("DELETE FROM outbox WHERE uuid = ?1", [id])?,
        Sending::Failed { retry_at, error } => tx.conn.run(
            "UPDATE outbox SET due_at = ?2, attempts = attempts + 1, last_error = ?3 WHERE uuid = ?1",
            params![id, retry_at.0, error],
        )?,
    };
    if changed == 0 {
        Err(StoreError::not_found(Thing::Outbox, mark.id))
    } else {
        Ok(Outcome::Done)
    }
}

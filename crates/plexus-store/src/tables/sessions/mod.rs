//! Sessions in SQL: reading them here, changing them in `changes`.

mod changes;

use plexus_core::SessionId;

pub(super) use self::changes::{create, delete, move_head, update};
use super::keys::EventKey;
use super::sql::{Row, Sql, params};
use crate::contract::limits::MAX_SESSIONS;
use crate::contract::{
    ChangedSessions, ChatFacts, Page, PageRequest, SessionFilter, SessionRecord, SessionStatus,
    StoreError, Thing, UnixMillis,
};

/// A session with everything its status is computed from. Deleted ones, kept for a fork's sake, are
/// never seen.
macro_rules! select_session {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.uuid, s.name, p.uuid, s.forked_from, t.uuid, s.head, s.config, s.state,
                    s.metadata, s.claude_session_id, s.revision, c.number, c.status,
                    (SELECT max(e.id) FROM chat_events e
                     WHERE e.id >= c.id << 32 AND e.id < (c.id + 1) << 32),
                    (SELECT count(*) FROM loopback_approvals a
                     WHERE a.session = s.id AND a.status = 0),
                    (SELECT coalesce(max(r.n) + 1, 0) FROM runs r WHERE r.session = s.id),
                    ch.changed, s.created_at, s.updated_at,
                    (SELECT count(*) FROM loopback_approvals a
                     WHERE a.session = s.id AND a.parking IS NOT NULL AND a.parking = 1)
             FROM sessions s
             JOIN trees t ON t.id = s.tree
             JOIN session_changes ch ON ch.session = s.id
             LEFT JOIN sessions p ON p.id = s.parent
             LEFT JOIN chat_streams c ON c.session = s.id
                 AND c.number = (SELECT max(number) FROM chat_streams WHERE session = s.id)
             WHERE s.deleted_at IS NULL ",
            $rest
        )
    };
}

/// The rows of all strict descendants of the session that a parameter names: `rows_below!("?4")`.
macro_rules! rows_below {
    ($session:literal) => {
        concat!(
            "(WITH RECURSIVE below (id) AS (
                  SELECT id FROM sessions WHERE parent = ",
            $session,
            "     UNION ALL SELECT x.id FROM sessions x JOIN below b ON x.parent = b.id
              ) SELECT id FROM below)"
        )
    };
}
pub(super) use rows_below;

fn read(row: &Row<'_>) -> Result<SessionRecord, StoreError> {
    let newest_chat = match row.maybe::<u32>(12)? {
        None => None,
        Some(number) => Some(ChatFacts {
            number,
            status: row.get(13)?,
            total_events: row.maybe(14)?.map_or(0, EventKey::next_seq),
        }),
    };
    Ok(SessionRecord {
        id: row.get(1)?,
        name: row.get(2)?,
        parent: row.maybe(3)?,
        forked_from: row.maybe(4)?,
        tree: row.get(5)?,
        head: row.get(6)?,
        config: row.get(7)?,
        state: row.get(8)?,
        metadata: row.get(9)?,
        claude_session_id: row.maybe(10)?,
        revision: row.get(11)?,
        newest_chat,
        pending_approvals: row.get(15)?,
        parked: row.get::<u32>(20)? > 0,
        next_run: row.get(16)?,
        changed: row.get(17)?,
        created_at: row.get(18)?,
        updated_at: row.get(19)?,
    })
}

/// Returns the row of a session.
pub(super) async fn row_of(conn: &impl Sql, id: SessionId) -> Result<i64, StoreError> {
    conn.one("SELECT id FROM sessions WHERE uuid = ?1 AND deleted_at IS NULL", params![id], |row| {
        row.get(0)
    })
    .await?
    .ok_or_else(|| StoreError::not_found(Thing::Session, id))
}

/// The same for one that may not be asked for.
pub(super) async fn maybe_row_of(
    conn: &impl Sql,
    id: Option<SessionId>,
) -> Result<Option<i64>, StoreError> {
    match id {
        Some(id) => row_of(conn, id).await.map(Some),
        None => Ok(None),
    }
}

pub(crate) async fn get(conn: &impl Sql, id: SessionId) -> Result<SessionRecord, StoreError> {
    conn.one(select_session!("AND s.uuid = ?1"), params![id], read)
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Session, id))
}

pub(crate) async fn named(
    conn: &impl Sql,
    parent: Option<SessionId>,
    name: &str,
) -> Result<SessionRecord, StoreError> {
    let parent = maybe_row_of(conn, parent).await?.unwrap_or(0);
    conn.one(
        select_session!("AND coalesce(s.parent, 0) = ?1 AND s.name = ?2"),
        params![parent, name],
        read,
    )
    .await?
    .ok_or_else(|| StoreError::not_found(Thing::Session, format_args!("{name:?}")))
}

/// Returns the conditions of a list. Only conditions that are asked for are written, so that the
/// planner can choose an index; the parameters are always the same.
fn conditions(filter: &SessionFilter) -> String {
    let parent = if filter.parent.is_some() { "coalesce(s.parent, 0) = ?2" } else { "?2 IS NULL" };
    let name = if filter.name.is_some() { "s.name = ?3" } else { "?3 IS NULL" };
    let under =
        if filter.under.is_some() { concat!("s.id IN ", rows_below!("?4")) } else { "?4 IS NULL" };
    let status = if filter.status.is_some() {
        "?5 = CASE
             WHEN c.status > 0 THEN c.status
             WHEN EXISTS (SELECT 1 FROM loopback_approvals a
                          WHERE a.session = s.id AND a.status = 0) THEN 10
             WHEN c.status = 0 THEN 0
             ELSE 11 END"
    } else {
        "?5 IS NULL"
    };
    let tree = if filter.tree.is_some() { "t.uuid = ?7" } else { "?7 IS NULL" };
    format!("AND {parent} AND {name} AND {under} AND {status} AND {tree}")
}

/// Returns the number that [`conditions`] computes for a status.
fn status_number(status: SessionStatus) -> i64 {
    match status {
        SessionStatus::Running => 0,
        SessionStatus::Complete => 1,
        SessionStatus::Failed => 2,
        SessionStatus::Cancelled => 3,
        SessionStatus::AwaitingPermission => 10,
        SessionStatus::Idle => 11,
    }
}

async fn filtered(
    conn: &impl Sql,
    sql: &str,
    after: u64,
    filter: &SessionFilter,
    limit: usize,
) -> Result<Vec<(u64, SessionRecord)>, StoreError> {
    let parent = match filter.parent {
        None => None,
        Some(None) => Some(0),
        Some(Some(id)) => Some(row_of(conn, id).await?),
    };
    let under = maybe_row_of(conn, filter.under).await?;
    let status = filter.status.map(status_number);
    let params = params![after, parent, filter.name, under, status, limit, filter.tree];
    conn.all(sql, params, |row| Ok((row.get(0)?, read(row)?))).await
}

pub(crate) async fn list(
    conn: &impl Sql,
    filter: &SessionFilter,
    page: PageRequest,
) -> Result<Page<SessionRecord>, StoreError> {
    let limit = page.bounded();
    let after = page.after.map_or(0, |token| token.0);
    let sql = format!(
        "{} {} ORDER BY s.id LIMIT ?6",
        select_session!("AND s.id > ?1"),
        conditions(filter)
    );
    Ok(Page::of(filtered(conn, &sql, after, filter, limit + 1).await?, limit))
}

pub(crate) async fn changed(
    conn: &impl Sql,
    after: u64,
    filter: &SessionFilter,
    limit: usize,
) -> Result<ChangedSessions, StoreError> {
    let limit = PageRequest::first(limit).bounded();
    let sql = format!(
        "{} {} ORDER BY ch.changed, s.id LIMIT ?6",
        select_session!("AND ch.changed > ?1"),
        conditions(filter)
    );
    let newest = newest_commit(conn).await?;
    let mut sessions: Vec<_> = filtered(conn, &sql, after, filter, limit + 1)
        .await?
        .into_iter()
        .map(|(_, session)| session)
        .collect();
    if sessions.len() <= limit {
        return Ok(ChangedSessions { after: newest.max(after), sessions });
    }
    // Sessions of one commit belong together: the cut falls before the commit of the first one that
    // does not fit.
    let cut = sessions[limit].changed;
    sessions.truncate(limit);
    if sessions.first().is_some_and(|first| first.changed < cut) {
        sessions.retain(|session| session.changed < cut);
        let after = sessions.last().map_or(after, |last| last.changed);
        return Ok(ChangedSessions { after, sessions });
    }
    // One commit changed more sessions than the limit. They are all told, because a part could not be
    // continued.
    let all = filtered(conn, &sql, cut - 1, filter, MAX_SESSIONS).await?;
    let sessions = all
        .into_iter()
        .map(|(_, session)| session)
        .filter(|session| session.changed == cut)
        .collect();
    Ok(ChangedSessions { after: cut, sessions })
}

pub(crate) async fn newest_commit(conn: &impl Sql) -> Result<u64, StoreError> {
    Ok(conn
        .one("SELECT value FROM store_meta WHERE key = 'commits'", &[], |row| row.get(0))
        .await?
        .unwrap_or(0))
}

/// Every change of a session, its approvals included, is noted in its row; rules and devices stand
/// for themselves, and the audit has every decision of a person.
pub(crate) async fn newest_time(conn: &impl Sql) -> Result<Option<UnixMillis>, StoreError> {
    let newest = "SELECT max(at) FROM (SELECT max(updated_at) AS at FROM sessions
                  UNION ALL SELECT max(created_at) FROM rules
                  UNION ALL SELECT max(paired_at) FROM devices
                  UNION ALL SELECT max(at) FROM audit) AS newest";
    Ok(conn.one(newest, &[], |row| row.maybe(0)).await?.flatten())
}

pub(crate) async fn ancestors(
    conn: &impl Sql,
    id: SessionId,
) -> Result<Vec<SessionId>, StoreError> {
    let row = row_of(conn, id).await?;
    conn.all(
        "WITH RECURSIVE above (id, uuid, parent, depth) AS (
             SELECT id, uuid, parent, 0 FROM sessions WHERE id = ?1
             UNION ALL SELECT s.id, s.uuid, s.parent, a.depth + 1
                       FROM sessions s JOIN above a ON s.id = a.parent
         ) SELECT uuid FROM above WHERE depth > 0 ORDER BY depth",
        params![row],
        |row| row.get(0),
    )
    .await
}

pub(crate) async fn descendants(
    conn: &impl Sql,
    id: SessionId,
) -> Result<Vec<SessionId>, StoreError> {
    let row = row_of(conn, id).await?;
    Ok(below(conn, row).await?.into_iter().map(|(_, id)| id).collect())
}

/// Returns the rows and ids of all strict descendants, parents before children.
async fn below(conn: &impl Sql, row: i64) -> Result<Vec<(i64, SessionId)>, StoreError> {
    conn.all(
        "WITH RECURSIVE below (id, uuid, depth) AS (
             SELECT id, uuid, 1 FROM sessions WHERE parent = ?1 AND deleted_at IS NULL
             UNION ALL SELECT s.id, s.uuid, b.depth + 1
                       FROM sessions s JOIN below b ON s.parent = b.id WHERE s.deleted_at IS NULL
         ) SELECT id, uuid FROM below ORDER BY depth, id",
        params![row],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
    .await
}

//! Sessions in SQL.

use plexus_core::{ApprovalId, NodeId, SessionId, TreeId};
use rusqlite::{Connection, Row, params};

use super::arbor;
use super::codes::{chat_status, owner};
use super::keys::EventKey;
use super::sql::{Columns, Sql, blob, int};
use super::tx::Tx;
use crate::contract::limits::MAX_SESSIONS;
use crate::contract::{
    ChangedSessions, ChatFacts, Children, CreateSession, CreateTree, DeleteSession, JsonText,
    Outcome, Page, PageRequest, Position, Session, SessionFilter, SessionStatus, StoreError, Thing,
    Topic, UpdateSession, refusal,
};

/// A session with everything its status is computed from. Deleted ones, kept for a fork's sake, are never seen.
macro_rules! select_session {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.uuid, s.name, p.uuid, s.forked_from, t.uuid, s.head, s.config, s.state, s.metadata, s.claude_session_id, s.revision,
                    c.number, c.status, (SELECT max(e.id) FROM chat_events e WHERE e.id >= c.id << 32 AND e.id < (c.id + 1) << 32),
                    (SELECT count(*) FROM loopback_approvals a WHERE a.session = s.id AND a.status = 0),
                    (SELECT coalesce(max(r.n) + 1, 0) FROM runs r WHERE r.session = s.id),
                    ch.changed, s.created_at, s.updated_at
             FROM sessions s
             JOIN trees t ON t.id = s.tree
             JOIN session_changes ch ON ch.session = s.id
             LEFT JOIN sessions p ON p.id = s.parent
             LEFT JOIN chat_streams c ON c.session = s.id AND c.number = (SELECT max(number) FROM chat_streams WHERE session = s.id)
             WHERE s.deleted_at IS NULL ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> rusqlite::Result<Session> {
    let newest_chat = match row.get::<_, Option<u32>>(12)? {
        None => None,
        Some(number) => Some(ChatFacts {
            number,
            status: chat_status(13, row.get(13)?)?,
            total_events: row.get::<_, Option<i64>>(14)?.map_or(0, |key| EventKey(key).seq() + 1),
        }),
    };
    Ok(Session {
        id: row.session(1)?,
        name: row.get(2)?,
        parent: row.maybe_uuid(3)?.map(SessionId::from_uuid),
        forked_from: row.maybe_uuid(4)?.map(SessionId::from_uuid),
        tree: TreeId::from_uuid(row.uuid(5)?),
        head: row.node(6)?,
        config: row.json(7)?,
        state: row.json(8)?,
        metadata: row.json(9)?,
        claude_session_id: row.get(10)?,
        revision: row.count(11)?,
        newest_chat,
        pending_approvals: row.get(15)?,
        next_run: row.get(16)?,
        changed: row.count(17)?,
        created_at: row.time(18)?,
        updated_at: row.time(19)?,
    })
}

/// Returns the row of a session.
pub(super) fn row_of(conn: &Connection, id: SessionId) -> Result<i64, StoreError> {
    conn.one(
        "SELECT id FROM sessions WHERE uuid = ?1 AND deleted_at IS NULL",
        [blob(id.as_uuid())],
        |row| row.get(0),
    )?
    .ok_or_else(|| StoreError::not_found(Thing::Session, id))
}

pub(super) fn get(conn: &Connection, id: SessionId) -> Result<Session, StoreError> {
    conn.one(select_session!("AND s.uuid = ?1"), [blob(id.as_uuid())], read)?
        .ok_or_else(|| StoreError::not_found(Thing::Session, id))
}

pub(super) fn named(
    conn: &Connection,
    parent: Option<SessionId>,
    name: &str,
) -> Result<Session, StoreError> {
    let parent = parent.map_or(Ok(0), |id| row_of(conn, id))?;
    conn.one(
        select_session!("AND coalesce(s.parent, 0) = ?1 AND s.name = ?2"),
        params![parent, name],
        read,
    )?
    .ok_or_else(|| StoreError::not_found(Thing::Session, format_args!("{name:?}")))
}

/// Returns the conditions of a list. Only what is asked for is written, so that SQLite sees which index serves; the parameters are always the same.
fn conditions(filter: &SessionFilter) -> String {
    let parent = if filter.parent.is_some() { "coalesce(s.parent, 0) = ?2" } else { "?2 IS NULL" };
    let name = if filter.name.is_some() { "s.name = ?3" } else { "?3 IS NULL" };
    let under = if filter.under.is_some() {
        "s.id IN (WITH RECURSIVE below (id) AS (
             SELECT id FROM sessions WHERE parent = ?4 UNION ALL SELECT x.id FROM sessions x JOIN below b ON x.parent = b.id
         ) SELECT id FROM below)"
    } else {
        "?4 IS NULL"
    };
    let status = if filter.status.is_some() {
        "?5 = CASE
             WHEN c.status > 0 THEN c.status
             WHEN EXISTS (SELECT 1 FROM loopback_approvals a WHERE a.session = s.id AND a.status = 0) THEN 10
             WHEN c.status = 0 THEN 0
             ELSE 11 END"
    } else {
        "?5 IS NULL"
    };
    format!("AND {parent} AND {name} AND {under} AND {status}")
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

fn filtered(
    conn: &Connection,
    sql: &str,
    after: i64,
    filter: &SessionFilter,
    limit: usize,
) -> Result<Vec<(u64, Session)>, StoreError> {
    let parent = match filter.parent {
        None => None,
        Some(None) => Some(0),
        Some(Some(id)) => Some(row_of(conn, id)?),
    };
    let under = filter.under.map(|id| row_of(conn, id)).transpose()?;
    let status = filter.status.map(status_number);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.all(sql, params![after, parent, filter.name, under, status, limit], |row| {
        Ok((row.count(0)?, read(row)?))
    })
}

pub(super) fn list(
    conn: &Connection,
    filter: &SessionFilter,
    page: PageRequest,
) -> Result<Page<Session>, StoreError> {
    let limit = page.bounded();
    let after = page.after.map_or(0, |token| int(token.0));
    let sql = format!(
        "{} {} ORDER BY s.id LIMIT ?6",
        select_session!("AND s.id > ?1"),
        conditions(filter)
    );
    Ok(Page::of(filtered(conn, &sql, after, filter, limit + 1)?, limit))
}

pub(super) fn changed(
    conn: &Connection,
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
    let newest = newest_commit(conn)?;
    let mut sessions: Vec<_> = filtered(conn, &sql, int(after), filter, limit + 1)?
        .into_iter()
        .map(|(_, session)| session)
        .collect();
    if sessions.len() <= limit {
        return Ok(ChangedSessions { after: newest.max(after), sessions });
    }
    // Sessions of one commit belong together: the cut falls before the commit of the first one that does not fit.
    let cut = sessions[limit].changed;
    sessions.truncate(limit);
    if sessions.first().is_some_and(|first| first.changed < cut) {
        sessions.retain(|session| session.changed < cut);
        let after = sessions.last().map_or(after, |last| last.changed);
        return Ok(ChangedSessions { after, sessions });
    }
    // One commit changed more sessions than the limit. They are all told, since a part could not be continued.
    let all = filtered(conn, &sql, int(cut) - 1, filter, MAX_SESSIONS)?;
    let sessions = all
        .into_iter()
        .map(|(_, session)| session)
        .filter(|session| session.changed == cut)
        .collect();
    Ok(ChangedSessions { after: cut, sessions })
}

pub(super) fn newest_commit(conn: &Connection) -> Result<u64, StoreError> {
    Ok(conn
        .one("SELECT value FROM store_meta WHERE key = 'commits'", [], |row| row.count(0))?
        .unwrap_or(0))
}

pub(super) fn ancestors(conn: &Connection, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
    let row = row_of(conn, id)?;
    conn.all(
        "WITH RECURSIVE above (id, uuid, parent, depth) AS (
             SELECT id, uuid, parent, 0 FROM sessions WHERE id = ?1
             UNION ALL SELECT s.id, s.uuid, s.parent, a.depth + 1 FROM sessions s JOIN above a ON s.id = a.parent
         ) SELECT uuid FROM above WHERE depth > 0 ORDER BY depth",
        [row],
        |row| row.session(0),
    )
}

pub(super) fn descendants(conn: &Connection, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
    let row = row_of(conn, id)?;
    Ok(below(conn, row)?.into_iter().map(|(_, id)| id).collect())
}

/// Returns the rows and ids of all strict descendants, parents before children.
fn below(conn: &Connection, row: i64) -> Result<Vec<(i64, SessionId)>, StoreError> {
    conn.all(
        "WITH RECURSIVE below (id, uuid, depth) AS (
             SELECT id, uuid, 1 FROM sessions WHERE parent = ?1 AND deleted_at IS NULL
             UNION ALL SELECT s.id, s.uuid, b.depth + 1 FROM sessions s JOIN below b ON s.parent = b.id WHERE s.deleted_at IS NULL
         ) SELECT id, uuid FROM below ORDER BY depth, id",
        [row],
        |row| Ok((row.get(0)?, row.session(1)?)),
    )
}

pub(super) fn create(tx: &mut Tx<'_>, new: CreateSession) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    let total: u64 =
        conn.one("SELECT count(*) FROM sessions", [], |row| row.count(0))?.unwrap_or(0);
    refusal::one_more_session(total)?;
    let parent = new.parent.map(|id| row_of(conn, id)).transpose()?;
    if let Some(id) = new.parent {
        refusal::one_level_more(ancestors(conn, id)?.len())?;
    }
    for room in &new.room {
        room.check(descendants(conn, room.above)?.len())?;
    }
    match named(conn, new.parent, &new.name) {
        Ok(standing) => return Err(refusal::name_taken(&new.name, standing.id)),
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let head = match new.fork {
        None => {
            let tree = CreateTree {
                id: TreeId::generate(),
                root: NodeId::generate(),
                metadata: JsonText::empty_object(),
            };
            arbor::create_tree(tx, &tree)?;
            Position { tree_id: tree.id, node_id: tree.root }
        }
        Some(fork) => {
            let source = get(conn, fork.of)?;
            let node = fork.at.unwrap_or(source.head);
            arbor::require_in_tree(conn, node, source.tree)?;
            Position { tree_id: source.tree, node_id: node }
        }
    };
    conn.run(
        "INSERT INTO sessions (uuid, name, parent, forked_from, tree, head, claude_session_id, created_at, updated_at, config, state, metadata)
         VALUES (?1, ?2, ?3, ?4, (SELECT id FROM trees WHERE uuid = ?5), ?6, ?7, ?8, ?8, ?9, '{}', ?10)",
        params![
            blob(new.id.as_uuid()),
            new.name,
            parent,
            new.fork.map(|fork| blob(fork.of.as_uuid())),
            blob(head.tree_id.as_uuid()),
            blob(head.node_id.as_uuid()),
            new.claude_session_id,
            tx.now.0,
            new.config.as_str(),
            new.metadata.as_str(),
        ],
    )?;
    let row = conn.last_insert_rowid();
    // Here already, and not only at the end of the list: the next change of the list may read this session.
    conn.run("INSERT INTO session_changes VALUES (?1, ?2)", params![row, int(tx.commit)])?;
    tx.touch(row, new.id);
    Ok(Outcome::Session { id: new.id, head })
}

pub(super) fn update(tx: &mut Tx<'_>, update: UpdateSession) -> Result<Outcome, StoreError> {
    let standing = get(tx.conn, update.id)?;
    refusal::update(&update, &standing)?;
    if let Some(head) = update.head {
        arbor::require_in_tree(tx.conn, head, standing.tree)?;
    }
    let row = row_of(tx.conn, update.id)?;
    tx.conn.run(
        "UPDATE sessions SET head = ?2, config = ?3, state = ?4, metadata = ?5, claude_session_id = ?6, revision = revision + 1, updated_at = ?7
         WHERE id = ?1",
        params![
            row,
            blob(update.head.unwrap_or(standing.head).as_uuid()),
            update.config.unwrap_or(standing.config).as_str(),
            update.state.unwrap_or(standing.state).as_str(),
            update.metadata.unwrap_or(standing.metadata).as_str(),
            update.claude_session_id.apply(standing.claude_session_id),
            tx.now.0,
        ],
    )?;
    tx.touch(row, update.id);
    Ok(Outcome::Done)
}

/// Moves a session's head at the end of a chat; the caller has checked that the node is there.
pub(super) fn move_head(tx: &Tx<'_>, row: i64, head: NodeId) -> Result<(), StoreError> {
    tx.conn.run(
        "UPDATE sessions SET head = ?2, updated_at = ?3 WHERE id = ?1",
        params![row, blob(head.as_uuid()), tx.now.0],
    )?;
    Ok(())
}

pub(super) fn delete(tx: &mut Tx<'_>, delete: DeleteSession) -> Result<Outcome, StoreError> {
    let row = row_of(tx.conn, delete.id)?;
    let mut doomed = below(tx.conn, row)?;
    if !doomed.is_empty() && delete.children == Children::Refuse {
        let ids: Vec<_> = doomed.iter().map(|(_, id)| *id).collect();
        return Err(refusal::has_children(&ids));
    }
    doomed.insert(0, (row, delete.id));
    doomed.reverse();
    for (row, id) in &doomed {
        delete_one(tx, *row, *id)?;
    }
    Ok(Outcome::Deleted(doomed.into_iter().map(|(_, id)| id).collect()))
}

fn delete_one(tx: &mut Tx<'_>, row: i64, id: SessionId) -> Result<(), StoreError> {
    let conn = tx.conn;
    let uuid = blob(id.as_uuid());
    // Whoever waits for one of them learns that it is gone.
    let waiting = conn.all(
        "SELECT uuid, owner FROM loopback_approvals WHERE session = ?1 AND status = 0",
        [row],
        |row| Ok((ApprovalId::from_uuid(row.uuid(0)?), owner(row.maybe_uuid(1)?))),
    )?;
    for (approval, owner) in waiting {
        tx.topics.extend([Topic::Approval(approval), Topic::PendingOf(owner), Topic::Pending]);
    }
    super::budget::bequeath(conn, row)?;
    for sql in [
        "DELETE FROM loopback_approvals WHERE session = ?1",
        "DELETE FROM consumers WHERE session = ?1",
        "DELETE FROM runs WHERE session = ?1",
        "DELETE FROM spend WHERE session = ?1",
        "DELETE FROM reservations WHERE session = ?1",
        "DELETE FROM session_changes WHERE session = ?1",
    ] {
        conn.run(sql, [row])?;
    }
    conn.run(
        "DELETE FROM rules WHERE scope_session = ?1 OR author = ?1 OR run_session = ?1",
        [uuid],
    )?;
    conn.run("DELETE FROM tokens WHERE session = ?1 OR run_session = ?1", [uuid])?;
    conn.run("UPDATE sessions SET deleted_at = ?2 WHERE id = ?1", params![row, tx.now.0])?;
    let tree: Option<i64> =
        conn.one("SELECT tree FROM sessions WHERE id = ?1", [row], |row| row.get(0))?;
    let Some(tree) = tree else { return Ok(()) };
    // A fork may still stand on these events. The last session of a tree takes it along, with those that were kept for its sake.
    let shared = conn
        .one("SELECT 1 FROM sessions WHERE tree = ?1 AND deleted_at IS NULL", [tree], |_| Ok(()))?
        .is_some();
    if !shared {
        let chats = conn.all(
            "SELECT c.id FROM chat_streams c JOIN sessions s ON s.id = c.session WHERE s.tree = ?1",
            [tree],
            |row| row.get::<_, i64>(0),
        )?;
        for chat in chats {
            conn.run(
                "DELETE FROM chat_events WHERE id >= ?1 AND id < ?2",
                [EventKey::new(chat, 0).0, EventKey::end(chat)],
            )?;
            conn.run("DELETE FROM chat_streams WHERE id = ?1", [chat])?;
        }
        // A kept session may be the parent of another kept one; children go first.
        conn.run("UPDATE sessions SET parent = NULL WHERE parent IN (SELECT id FROM sessions WHERE tree = ?1) AND deleted_at IS NOT NULL", [tree])?;
        conn.run("DELETE FROM sessions WHERE tree = ?1", [tree])?;
        arbor::delete_tree(conn, tree)?;
    }
    tx.gone(row, id);
    Ok(())
}

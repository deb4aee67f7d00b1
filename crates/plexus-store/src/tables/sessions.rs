//! Sessions in SQL.

use plexus_core::{NodeId, SessionId, TreeId};

use super::arbor;
use super::codes::owner;
use super::keys::EventKey;
use super::sql::{Row, Sql, params};
use super::tx::Tx;
use crate::contract::limits::MAX_SESSIONS;
use crate::contract::{
    ChangedSessions, ChatFacts, Children, CreateSession, CreateTree, DeleteSession, JsonText,
    Outcome, Page, PageRequest, Position, Session, SessionFilter, SessionStatus, StoreError, Thing,
    Topic, UpdateSession, refusal,
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
                    ch.changed, s.created_at, s.updated_at
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

fn read(row: &Row<'_>) -> Result<Session, StoreError> {
    let newest_chat = match row.maybe::<u32>(12)? {
        None => None,
        Some(number) => Some(ChatFacts {
            number,
            status: row.get(13)?,
            total_events: row.maybe(14)?.map_or(0, EventKey::next_seq),
        }),
    };
    Ok(Session {
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

pub(crate) async fn get(conn: &impl Sql, id: SessionId) -> Result<Session, StoreError> {
    conn.one(select_session!("AND s.uuid = ?1"), params![id], read)
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Session, id))
}

pub(crate) async fn named(
    conn: &impl Sql,
    parent: Option<SessionId>,
    name: &str,
) -> Result<Session, StoreError> {
    let parent = maybe_row_of(conn, parent).await?.unwrap_or(0);
    conn.one(
        select_session!("AND coalesce(s.parent, 0) = ?1 AND s.name = ?2"),
        params![parent, name],
        read,
    )
    .await?
    .ok_or_else(|| StoreError::not_found(Thing::Session, format_args!("{name:?}")))
}

/// Returns the conditions of a list. Only what is asked for is written, so that it is seen which
/// index serves; the parameters are always the same.
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

async fn filtered(
    conn: &impl Sql,
    sql: &str,
    after: u64,
    filter: &SessionFilter,
    limit: usize,
) -> Result<Vec<(u64, Session)>, StoreError> {
    let parent = match filter.parent {
        None => None,
        Some(None) => Some(0),
        Some(Some(id)) => Some(row_of(conn, id).await?),
    };
    let under = maybe_row_of(conn, filter.under).await?;
    let status = filter.status.map(status_number);
    conn.all(sql, params![after, parent, filter.name, under, status, limit], |row| {
        Ok((row.get(0)?, read(row)?))
    })
    .await
}

pub(crate) async fn list(
    conn: &impl Sql,
    filter: &SessionFilter,
    page: PageRequest,
) -> Result<Page<Session>, StoreError> {
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
    // One commit changed more sessions than the limit. They are all told, since a part could not be
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

pub(super) async fn create(
    tx: &mut Tx<'_, impl Sql>,
    new: CreateSession,
) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    let total: u64 =
        conn.one("SELECT count(*) FROM sessions", &[], |row| row.get(0)).await?.unwrap_or(0);
    refusal::one_more_session(total)?;
    let parent = maybe_row_of(conn, new.parent).await?;
    if let Some(id) = new.parent {
        refusal::one_level_more(ancestors(conn, id).await?.len())?;
    }
    for room in &new.room {
        room.check(descendants(conn, room.above).await?.len())?;
    }
    match named(conn, new.parent, &new.name).await {
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
            arbor::create_tree(tx, &tree).await?;
            Position { tree_id: tree.id, node_id: tree.root }
        }
        Some(fork) => {
            let source = get(conn, fork.of).await?;
            let node = fork.at.unwrap_or(source.head);
            arbor::require_in_tree(conn, node, source.tree).await?;
            Position { tree_id: source.tree, node_id: node }
        }
    };
    let row = conn
        .insert(
            "INSERT INTO sessions (uuid, name, parent, forked_from, tree, head,
                 claude_session_id, created_at, updated_at, config, state, metadata)
             VALUES (?1, ?2, ?3, ?4, (SELECT id FROM trees WHERE uuid = ?5), ?6, ?7, ?8, ?8, ?9,
                 '{}', ?10) RETURNING id",
            params![
                new.id,
                new.name,
                parent,
                new.fork.map(|fork| fork.of),
                head.tree_id,
                head.node_id,
                new.claude_session_id,
                tx.now,
                new.config,
                new.metadata,
            ],
        )
        .await?;
    // Here already, and not only at the end of the list: the next change of the list may read this
    // session.
    conn.run("INSERT INTO session_changes VALUES (?1, ?2)", params![row, 0_u64]).await?;
    tx.touch(row, new.id);
    Ok(Outcome::Session { id: new.id, head })
}

pub(super) async fn update(
    tx: &mut Tx<'_, impl Sql>,
    update: UpdateSession,
) -> Result<Outcome, StoreError> {
    let standing = get(tx.conn, update.id).await?;
    refusal::update(&update, &standing)?;
    if let Some(head) = update.head {
        arbor::require_in_tree(tx.conn, head, standing.tree).await?;
    }
    let row = row_of(tx.conn, update.id).await?;
    tx.conn
        .run(
            "UPDATE sessions
             SET head = ?2, config = ?3, state = ?4, metadata = ?5, claude_session_id = ?6,
                 revision = revision + 1, updated_at = ?7 WHERE id = ?1",
            params![
                row,
                update.head.unwrap_or(standing.head),
                update.config.unwrap_or(standing.config),
                update.state.unwrap_or(standing.state),
                update.metadata.unwrap_or(standing.metadata),
                update.claude_session_id.apply(standing.claude_session_id),
                tx.now,
            ],
        )
        .await?;
    tx.touch(row, update.id);
    Ok(Outcome::Done)
}

/// Moves a session's head at the end of a chat; the caller has checked that the node is there.
pub(super) async fn move_head(
    tx: &Tx<'_, impl Sql>,
    row: i64,
    head: NodeId,
) -> Result<(), StoreError> {
    tx.conn
        .run(
            "UPDATE sessions SET head = ?2, updated_at = ?3 WHERE id = ?1",
            params![row, head, tx.now],
        )
        .await?;
    Ok(())
}

pub(super) async fn delete(
    tx: &mut Tx<'_, impl Sql>,
    delete: DeleteSession,
) -> Result<Outcome, StoreError> {
    let row = row_of(tx.conn, delete.id).await?;
    // Whoever creates a child session holds its parent: once all are locked, no more can come.
    let mut doomed = Vec::new();
    loop {
        tx.conn
            .lock(
                concat!(
                    "SELECT id FROM sessions WHERE id IN ",
                    rows_below!("?1"),
                    " ORDER BY id FOR UPDATE"
                ),
                params![row],
            )
            .await?;
        let found = below(tx.conn, row).await?;
        if found == doomed {
            break;
        }
        doomed = found;
    }
    if !doomed.is_empty() && delete.children == Children::Refuse {
        let ids: Vec<_> = doomed.iter().map(|(_, id)| *id).collect();
        return Err(refusal::has_children(&ids));
    }
    doomed.insert(0, (row, delete.id));
    doomed.reverse();
    for (row, id) in &doomed {
        delete_one(tx, *row, *id).await?;
    }
    Ok(Outcome::Deleted(doomed.into_iter().map(|(_, id)| id).collect()))
}

async fn delete_one(tx: &mut Tx<'_, impl Sql>, row: i64, id: SessionId) -> Result<(), StoreError> {
    let conn = tx.conn;
    // Whoever waits for one of them learns that it is gone.
    let waiting = conn
        .all(
            "SELECT uuid, owner FROM loopback_approvals WHERE session = ?1 AND status = 0",
            params![row],
            |row| Ok((row.get(0)?, owner(row.maybe(1)?))),
        )
        .await?;
    for (approval, owner) in waiting {
        tx.topics.extend([Topic::Approval(approval), Topic::PendingOf(owner), Topic::Pending]);
    }
    super::budget::bequeath(conn, row).await?;
    for sql in [
        "DELETE FROM loopback_approvals WHERE session = ?1",
        "DELETE FROM consumers WHERE session = ?1",
        "DELETE FROM runs WHERE session = ?1",
        "DELETE FROM spend WHERE session = ?1",
        "DELETE FROM reservations WHERE session = ?1",
        "DELETE FROM session_changes WHERE session = ?1",
    ] {
        conn.run(sql, params![row]).await?;
    }
    conn.run(
        "DELETE FROM rules WHERE scope_session = ?1 OR author = ?1 OR run_session = ?1",
        params![id],
    )
    .await?;
    conn.run("DELETE FROM tokens WHERE session = ?1 OR run_session = ?1", params![id]).await?;
    conn.run("UPDATE sessions SET deleted_at = ?2 WHERE id = ?1", params![row, tx.now]).await?;
    let tree: Option<i64> =
        conn.one("SELECT tree FROM sessions WHERE id = ?1", params![row], |row| row.get(0)).await?;
    let Some(tree) = tree else { return Ok(()) };
    // Two sessions of one tree may go at once, on two servers: the second sees that the first is
    // gone.
    conn.lock("SELECT id FROM trees WHERE id = ?1 FOR UPDATE", params![tree]).await?;
    // A fork may still stand on these events. The last session of a tree takes it along, with those
    // that were kept for its sake.
    let shared = conn
        .any("SELECT 1 FROM sessions WHERE tree = ?1 AND deleted_at IS NULL", params![tree])
        .await?;
    if !shared {
        let chats = conn
            .all(
                "SELECT c.id FROM chat_streams c JOIN sessions s ON s.id = c.session
                 WHERE s.tree = ?1",
                params![tree],
                |row| row.get::<i64>(0),
            )
            .await?;
        for chat in chats {
            conn.run(
                "DELETE FROM chat_events WHERE id >= ?1 AND id < ?2",
                params![EventKey::new(chat, 0), EventKey::end(chat)],
            )
            .await?;
            conn.run("DELETE FROM chat_streams WHERE id = ?1", params![chat]).await?;
        }
        // A kept session may be the parent of another kept one; children go first.
        conn.run(
            "UPDATE sessions SET parent = NULL
             WHERE parent IN (SELECT id FROM sessions WHERE tree = ?1) AND deleted_at IS NOT NULL",
            params![tree],
        )
        .await?;
        conn.run("DELETE FROM sessions WHERE tree = ?1", params![tree]).await?;
        arbor::delete_tree(conn, tree).await?;
    }
    tx.gone(row, id);
    Ok(())
}

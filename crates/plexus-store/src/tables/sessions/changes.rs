//! Sessions in SQL, the writing part: creating, updating, deleting.

use plexus_core::{NodeId, SessionId, TreeId};

use super::{ancestors, below, descendants, get, maybe_row_of, named, row_of, rows_below};
use crate::contract::{
    Children, CreateSession, CreateTree, DeleteSession, JsonText, Outcome, Position, StoreError,
    Topic, UpdateSession, refusal,
};
use crate::tables::approvals::waits_for;
use crate::tables::codes::owner;
use crate::tables::keys::EventKey;
use crate::tables::sql::{Sql, params};
use crate::tables::tx::Tx;
use crate::tables::{arbor, budget, search};

pub(in crate::tables) async fn create(
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
        if !room.has_place(descendants(conn, room.above).await?.len()) {
            return Err(room.full(&get(conn, room.above).await?.name));
        }
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

pub(in crate::tables) async fn update(
    tx: &mut Tx<'_, impl Sql>,
    update: UpdateSession,
) -> Result<Outcome, StoreError> {
    let standing = get(tx.conn, update.id).await?;
    refusal::update(&update, &standing)?;
    if let Some(head) = update.head {
        arbor::require_in_tree(tx.conn, head, standing.tree).await?;
    }
    if let Some(name) = update.name.as_deref().filter(|name| **name != *standing.name) {
        match named(tx.conn, standing.parent, name).await {
            Ok(holder) => return Err(refusal::new_name_taken(name, holder.id)),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let row = row_of(tx.conn, update.id).await?;
    tx.conn
        .run(
            "UPDATE sessions
             SET head = ?2, config = ?3, state = ?4, metadata = ?5, claude_session_id = ?6,
                 revision = revision + 1, updated_at = ?7, name = ?8 WHERE id = ?1",
            params![
                row,
                update.head.unwrap_or(standing.head),
                update.config.unwrap_or(standing.config),
                update.state.unwrap_or(standing.state),
                update.metadata.unwrap_or(standing.metadata),
                update.claude_session_id.apply(standing.claude_session_id),
                tx.now,
                update.name.unwrap_or(standing.name),
            ],
        )
        .await?;
    tx.touch(row, update.id);
    Ok(Outcome::Done)
}

/// Moves a session's head at the end of a chat; the caller has checked that the node is there.
pub(in crate::tables) async fn move_head(
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

pub(in crate::tables) async fn delete(
    tx: &mut Tx<'_, impl Sql>,
    delete: DeleteSession,
) -> Result<Outcome, StoreError> {
    let row = row_of(tx.conn, delete.id).await?;
    // A transaction that creates a child session holds its parent: once all are locked, no more can
    // come.
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
    // Callers that wait for one of them learn that it is gone.
    let waiting = conn
        .all(
            "SELECT uuid, owner FROM loopback_approvals WHERE session = ?1 AND status = 0",
            params![row],
            |row| Ok((row.get(0)?, owner(row.maybe(1)?))),
        )
        .await?;
    for (approval, owner) in waiting {
        tx.topics.push(Topic::Approval(approval));
        tx.topics.extend(waits_for(id, owner));
    }
    budget::bequeath(conn, row).await?;
    for sql in [
        "DELETE FROM parked_transcripts
         WHERE chat IN (SELECT id FROM chat_streams WHERE session = ?1)",
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
    let chats = "SELECT id FROM chat_streams WHERE session = ?1";
    for chat in conn.all(chats, params![row], |row| row.get::<i64>(0)).await? {
        search::forget_chat(conn, chat).await?;
    }
    let tree: Option<i64> =
        conn.one("SELECT tree FROM sessions WHERE id = ?1", params![row], |row| row.get(0)).await?;
    let Some(tree) = tree else { return Ok(()) };
    // Two sessions of one tree may go at once, on two servers: the second sees that the first is
    // gone.
    conn.lock("SELECT id FROM trees WHERE id = ?1 FOR UPDATE", params![tree]).await?;
    // A fork may still need these events. They are removed with the last session of the tree,
    // together with the sessions that were kept for that fork.
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
            conn.run("DELETE FROM chat_images WHERE chat = ?1", params![chat]).await?;
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

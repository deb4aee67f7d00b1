//! Arbor in SQL, the writing part: adds trees and nodes, and removes trees.

use plexus_core::NodeId;

use super::{chain, chain_end, find_place, place_of, require_in_tree, tree_row};
use crate::contract::{
    AppendNode, CreateTree, JsonText, NodeData, Outcome, Position, StoreError, refusal,
};
use crate::tables::codes::node_columns;
use crate::tables::keys::Place;
use crate::tables::sql::{Sql, params};
use crate::tables::tx::Tx;

pub(in crate::tables) async fn create_tree(
    tx: &mut Tx<'_, impl Sql>,
    new: &CreateTree,
) -> Result<Outcome, StoreError> {
    if find_place(tx.conn, new.root).await?.is_some() || tree_row(tx.conn, new.id).await.is_ok() {
        return Err(refusal::tree_there(new.id));
    }
    let sql =
        "INSERT INTO trees (uuid, root, created_at, metadata) VALUES (?1, ?2, ?3, ?4) RETURNING id";
    let (id, root) = (new.id, new.root);
    let tree = tx.conn.insert(sql, params![id, root, tx.now, new.metadata]).await?;
    let sql = "INSERT INTO chains (tree, parent, depth) VALUES (?1, NULL, 0) RETURNING id";
    let place = Place::new(tx.conn.insert(sql, params![tree]).await?, 0);
    insert(
        tx,
        place,
        new.root,
        &NodeData::Text { content: String::new() },
        &JsonText::empty_object(),
    )
    .await?;
    Ok(Outcome::Node(Position { tree_id: new.id, node_id: new.root }))
}

pub(in crate::tables) async fn append_node(
    tx: &mut Tx<'_, impl Sql>,
    new: AppendNode,
) -> Result<Outcome, StoreError> {
    require_in_tree(tx.conn, new.parent, new.tree).await?;
    if find_place(tx.conn, new.id).await?.is_some() {
        return Err(refusal::node_there(new.id));
    }
    let parent = place_of(tx.conn, new.parent).await?;
    append_plain(tx, parent, new.id, &new.data, &new.metadata).await?;
    Ok(Outcome::Node(Position { tree_id: new.tree, node_id: new.id }))
}

/// Appends a plain node (not an event) after `parent`: in its chain when `parent` is the free end
/// of it, otherwise as a branch.
pub(in crate::tables) async fn append_plain(
    tx: &Tx<'_, impl Sql>,
    parent: Place,
    id: NodeId,
    data: &NodeData,
    metadata: &JsonText,
) -> Result<Place, StoreError> {
    // Forked sessions share a tree. The lock makes writers append one after the other, so that each
    // sees the real end.
    let lock = "SELECT t.id FROM trees t JOIN chains c ON c.tree = t.id WHERE c.id = ?1
                FOR NO KEY UPDATE OF t";
    tx.conn.lock(lock, params![parent.chain()]).await?;
    let end = chain_end(tx.conn, parent.chain()).await?;
    let place = if end.position == parent.position() && !end.chat_open {
        Place(parent.0 + 1)
    } else {
        let chain = chain(tx.conn, parent.chain()).await?;
        let sql = "INSERT INTO chains (tree, parent, depth) VALUES (?1, ?2, ?3) RETURNING id";
        let depth = chain.depth + parent.position() + 1;
        Place::new(tx.conn.insert(sql, params![chain.tree, parent, depth]).await?, 0)
    };
    insert(tx, place, id, data, metadata).await?;
    Ok(place)
}

async fn insert(
    tx: &Tx<'_, impl Sql>,
    place: Place,
    id: NodeId,
    data: &NodeData,
    metadata: &JsonText,
) -> Result<(), StoreError> {
    let (kind, text) = node_columns(data);
    tx.conn
        .run(
            "INSERT INTO nodes (id, uuid, created_at, kind, metadata, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![place, id, tx.now, kind, metadata, text],
        )
        .await?;
    Ok(())
}

/// Removes a tree whose chats are gone.
pub(in crate::tables) async fn delete_tree(conn: &impl Sql, tree: i64) -> Result<(), StoreError> {
    for chain in conn
        .all("SELECT id FROM chains WHERE tree = ?1", params![tree], |row| row.get::<i64>(0))
        .await?
    {
        conn.run(
            "DELETE FROM nodes WHERE id >= ?1 AND id < ?2",
            params![Place::new(chain, 0), Place::new(chain + 1, 0)],
        )
        .await?;
    }
    conn.run("DELETE FROM chains WHERE tree = ?1", params![tree]).await?;
    conn.run("DELETE FROM trees WHERE id = ?1", params![tree]).await?;
    Ok(())
}

//! Arbor in SQL: nodes by place, a chain being one range of keys.
//!
//! The nodes of a chat's events are the rows of `chat_events`: a chat occupies consecutive places of one chain, so place and seq are
//! computed from each other. While a chat is open the end of its chain is its own; whoever else appends there starts a branch.

use plexus_core::{Handle, NodeId, TreeId};
use rusqlite::{Connection, Row, params};

use super::codes::{TEXT_NODE, node_code};
use super::events;
use super::keys::{EventKey, Place};
use super::sql::{Columns, Sql, blob, int};
use super::tx::Tx;
use crate::contract::limits::MAX_PATH_NODES;
use crate::contract::{
    AppendNode, CreateTree, JsonText, Node, NodeData, Outcome, OutlineEntry, Page, PageRequest,
    Position, StoreError, Thing, Tree, event_handle, refusal,
};

// Writing.

pub(super) fn create_tree(tx: &mut Tx<'_>, new: &CreateTree) -> Result<Outcome, StoreError> {
    if find_place(tx.conn, new.root)?.is_some() || tree_row(tx.conn, new.id).is_ok() {
        return Err(refusal::tree_there(new.id));
    }
    tx.conn.run(
        "INSERT INTO trees (uuid, root, created_at, metadata) VALUES (?1, ?2, ?3, ?4)",
        params![blob(new.id.as_uuid()), blob(new.root.as_uuid()), tx.now.0, new.metadata.as_str()],
    )?;
    let tree = tx.conn.last_insert_rowid();
    tx.conn.run("INSERT INTO chains (tree, parent, depth) VALUES (?1, NULL, 0)", [tree])?;
    let place = Place::new(tx.conn.last_insert_rowid(), 0);
    insert(
        tx,
        place,
        new.root,
        &NodeData::Text { content: String::new() },
        &JsonText::empty_object(),
    )?;
    Ok(Outcome::Node(Position { tree_id: new.id, node_id: new.root }))
}

pub(super) fn append_node(tx: &mut Tx<'_>, new: AppendNode) -> Result<Outcome, StoreError> {
    require_in_tree(tx.conn, new.parent, new.tree)?;
    if find_place(tx.conn, new.id)?.is_some() {
        return Err(refusal::node_there(new.id));
    }
    let parent = place_of(tx.conn, new.parent)?;
    append_plain(tx, parent, new.id, &new.data, &new.metadata)?;
    Ok(Outcome::Node(Position { tree_id: new.tree, node_id: new.id }))
}

/// Appends a node that is no event behind `parent`: in its chain when `parent` is the free end of it, else as a branch.
pub(super) fn append_plain(
    tx: &Tx<'_>,
    parent: Place,
    id: NodeId,
    data: &NodeData,
    metadata: &JsonText,
) -> Result<Place, StoreError> {
    let end = chain_end(tx.conn, parent.chain())?;
    let place = if end.position == parent.position() && !end.chat_open {
        Place(parent.0 + 1)
    } else {
        let chain = chain(tx.conn, parent.chain())?;
        tx.conn.run(
            "INSERT INTO chains (tree, parent, depth) VALUES (?1, ?2, ?3)",
            [chain.tree, parent.0, chain.depth + parent.position() + 1],
        )?;
        Place::new(tx.conn.last_insert_rowid(), 0)
    };
    insert(tx, place, id, data, metadata)?;
    Ok(place)
}

fn insert(
    tx: &Tx<'_>,
    place: Place,
    id: NodeId,
    data: &NodeData,
    metadata: &JsonText,
) -> Result<(), StoreError> {
    let (kind, text) = node_code(data);
    tx.conn.run(
        "INSERT INTO nodes (id, uuid, created_at, kind, metadata, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![place.0, blob(id.as_uuid()), tx.now.0, kind, metadata.as_str(), text],
    )?;
    Ok(())
}

/// Removes a tree whose chats are gone.
pub(super) fn delete_tree(conn: &Connection, tree: i64) -> Result<(), StoreError> {
    for chain in
        conn.all("SELECT id FROM chains WHERE tree = ?1", [tree], |row| row.get::<_, i64>(0))?
    {
        conn.run(
            "DELETE FROM nodes WHERE id >= ?1 AND id < ?2",
            [Place::new(chain, 0).0, Place::new(chain + 1, 0).0],
        )?;
    }
    conn.run("DELETE FROM chains WHERE tree = ?1", [tree])?;
    conn.run("DELETE FROM trees WHERE id = ?1", [tree])?;
    Ok(())
}

// Finding.

struct Chain {
    tree: i64,
    parent: Option<Place>,
    depth: i64,
}

fn chain(conn: &Connection, id: i64) -> Result<Chain, StoreError> {
    conn.one("SELECT tree, parent, depth FROM chains WHERE id = ?1", [id], |row| {
        Ok(Chain {
            tree: row.get(0)?,
            parent: row.get::<_, Option<i64>>(1)?.map(Place),
            depth: row.get(2)?,
        })
    })?
    .ok_or_else(|| StoreError::Corrupt {
        message: format!("a node names chain {id}, which is not there"),
    })
}

struct ChainEnd {
    position: i64,
    /// Whether the end belongs to a chat to which events are still appended.
    chat_open: bool,
}

fn chain_end(conn: &Connection, chain: i64) -> Result<ChainEnd, StoreError> {
    let node = conn.one(
        "SELECT max(id) FROM nodes WHERE id >= ?1 AND id < ?2",
        [Place::new(chain, 0).0, Place::new(chain + 1, 0).0],
        |row| row.get::<_, Option<i64>>(0),
    )?;
    let node = node.flatten().map_or(-1, |place| Place(place).position());
    let chat = conn.one(
        "SELECT id, first_pos, status FROM chat_streams WHERE chain = ?1 ORDER BY first_pos DESC LIMIT 1",
        [chain],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)),
    )?;
    Ok(match chat {
        Some((chat, first, status)) if first > node => ChainEnd {
            position: first - 1 + i64::from(events::total(conn, chat)?),
            chat_open: status == 0,
        },
        _ => ChainEnd { position: node, chat_open: false },
    })
}

fn find_place(conn: &Connection, id: NodeId) -> Result<Option<Place>, StoreError> {
    let uuid = blob(id.as_uuid());
    if let Some(place) =
        conn.one("SELECT id FROM nodes WHERE uuid = ?1", [uuid], |row| row.get(0).map(Place))?
    {
        return Ok(Some(place));
    }
    conn.one(
        "SELECT c.chain, c.first_pos, e.id FROM chat_events e JOIN chat_streams c ON c.id = e.id >> 32 WHERE e.uuid = ?1",
        [uuid],
        |row| Ok(Place::new(row.get(0)?, row.get::<_, i64>(1)? + i64::from(EventKey(row.get(2)?).seq()))),
    )
}

pub(super) fn place_of(conn: &Connection, id: NodeId) -> Result<Place, StoreError> {
    find_place(conn, id)?.ok_or_else(|| StoreError::not_found(Thing::Node, id))
}

fn tree_row(conn: &Connection, id: TreeId) -> Result<i64, StoreError> {
    conn.one("SELECT id FROM trees WHERE uuid = ?1", [blob(id.as_uuid())], |row| row.get(0))?
        .ok_or_else(|| StoreError::not_found(Thing::Tree, id))
}

fn tree_id(conn: &Connection, row: i64) -> Result<TreeId, StoreError> {
    conn.one("SELECT uuid FROM trees WHERE id = ?1", [row], |row| {
        row.uuid(0).map(TreeId::from_uuid)
    })?
    .ok_or_else(|| StoreError::Corrupt {
        message: format!("a chain names tree {row}, which is not there"),
    })
}

/// Refuses a node of another tree.
pub(super) fn require_in_tree(
    conn: &Connection,
    node: NodeId,
    tree: TreeId,
) -> Result<(), StoreError> {
    let row = tree_row(conn, tree)?;
    if chain(conn, place_of(conn, node)?.chain())?.tree == row {
        return Ok(());
    }
    Err(refusal::other_tree(node, tree))
}

// Reading.

fn read_tree(row: &Row<'_>) -> rusqlite::Result<(u64, Tree)> {
    let tree = Tree {
        id: TreeId::from_uuid(row.uuid(1)?),
        root: row.node(2)?,
        created_at: row.time(3)?,
        metadata: row.json(4)?,
    };
    Ok((row.count(0)?, tree))
}

pub(super) fn tree(conn: &Connection, id: TreeId) -> Result<Tree, StoreError> {
    conn.one(
        "SELECT id, uuid, root, created_at, metadata FROM trees WHERE uuid = ?1",
        [blob(id.as_uuid())],
        read_tree,
    )?
    .map(|(_, tree)| tree)
    .ok_or_else(|| StoreError::not_found(Thing::Tree, id))
}

pub(super) fn trees(conn: &Connection, page: PageRequest) -> Result<Page<Tree>, StoreError> {
    let limit = page.bounded();
    let rows = conn.all(
        "SELECT id, uuid, root, created_at, metadata FROM trees WHERE id > ?1 ORDER BY id LIMIT ?2",
        params![page.after.map_or(0, |token| int(token.0)), int(limit as u64 + 1)],
        read_tree,
    )?;
    Ok(Page::of(rows, limit))
}

/// Reads the places `first..=last` of one chain, in order. Pays for what it returns, and a seek for each chat in between.
fn range(conn: &Connection, chain_id: i64, first: i64, last: i64) -> Result<Vec<Node>, StoreError> {
    let chain = chain(conn, chain_id)?;
    let tree_id = tree_id(conn, chain.tree)?;
    let bare = |id: NodeId, data: NodeData, created_at, metadata| Node {
        id,
        tree_id,
        parent: None,
        data,
        created_at,
        metadata,
    };
    let mut found: Vec<(i64, Node)> = conn.all(
        "SELECT id, uuid, created_at, kind, metadata, data FROM nodes WHERE id >= ?1 AND id <= ?2",
        [Place::new(chain_id, first).0, Place::new(chain_id, last).0],
        |row| {
            let data = node_data(row.get(3)?, row.get(5)?)?;
            Ok((
                Place(row.get(0)?).position(),
                bare(row.node(1)?, data, row.time(2)?, row.json(4)?),
            ))
        },
    )?;
    let chats = conn.all(
        "SELECT id, first_pos FROM chat_streams WHERE chain = ?1 AND first_pos <= ?3
         AND first_pos >= coalesce((SELECT max(first_pos) FROM chat_streams WHERE chain = ?1 AND first_pos <= ?2), 0)",
        [chain_id, first, last],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
    )?;
    for (chat, start) in chats {
        let seq = |position: i64| u32::try_from(position - start).unwrap_or(0);
        found.extend(conn.all(
            "SELECT id, uuid, created_at, type FROM chat_events WHERE id >= ?1 AND id <= ?2",
            [EventKey::new(chat, seq(first)).0, EventKey::new(chat, seq(last)).0],
            |row| {
                let handle = event_handle(row.event(1)?, &row.get::<_, String>(3)?);
                let node = bare(
                    row.node(1)?,
                    NodeData::External { handle },
                    row.time(2)?,
                    JsonText::empty_object(),
                );
                Ok((start + i64::from(EventKey(row.get(0)?).seq()), node))
            },
        )?);
    }
    found.sort_by_key(|(position, _)| *position);
    let mut parent = match (first, chain.parent) {
        (0, None) => None,
        (0, Some(place)) => id_at(conn, place)?,
        (_, _) => id_at(conn, Place::new(chain_id, first - 1))?,
    };
    Ok(found
        .into_iter()
        .map(|(_, node)| {
            let node = Node { parent, ..node };
            parent = Some(node.id);
            node
        })
        .collect())
}

fn node_data(kind: i64, text: String) -> rusqlite::Result<NodeData> {
    if kind == TEXT_NODE {
        return Ok(NodeData::Text { content: text });
    }
    let handle: Handle = text.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(5, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(NodeData::External { handle })
}

/// Returns the id of the node at a place, plain or event.
fn id_at(conn: &Connection, place: Place) -> Result<Option<NodeId>, StoreError> {
    if let Some(id) =
        conn.one("SELECT uuid FROM nodes WHERE id = ?1", [place.0], |row| row.node(0))?
    {
        return Ok(Some(id));
    }
    let chat = conn.one(
        "SELECT id, first_pos FROM chat_streams WHERE chain = ?1 AND first_pos <= ?2 ORDER BY first_pos DESC LIMIT 1",
        [place.chain(), place.position()],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
    )?;
    let Some((chat, start)) = chat else { return Ok(None) };
    let seq = u32::try_from(place.position() - start).unwrap_or(u32::MAX);
    conn.one("SELECT uuid FROM chat_events WHERE id = ?1", [EventKey::new(chat, seq).0], |row| {
        row.node(0)
    })
}

pub(super) fn node(conn: &Connection, id: NodeId) -> Result<Node, StoreError> {
    let place = place_of(conn, id)?;
    let found = range(conn, place.chain(), place.position(), place.position())?;
    found.into_iter().next().ok_or_else(|| StoreError::not_found(Thing::Node, id))
}

pub(super) fn children(conn: &Connection, id: NodeId) -> Result<Vec<Node>, StoreError> {
    let place = place_of(conn, id)?;
    let mut found = range(conn, place.chain(), place.position() + 1, place.position() + 1)?;
    for branch in
        conn.all("SELECT id FROM chains WHERE parent = ?1 ORDER BY id", [place.0], |row| {
            row.get::<_, i64>(0)
        })?
    {
        found.extend(range(conn, branch, 0, 0)?);
    }
    Ok(found)
}

pub(super) fn path(conn: &Connection, id: NodeId, limit: usize) -> Result<Vec<Node>, StoreError> {
    let mut left = int(limit.clamp(1, MAX_PATH_NODES) as u64);
    let mut pieces = Vec::new();
    let mut at = Some(place_of(conn, id)?);
    while let Some(place) = at.take()
        && left > 0
    {
        let first = (place.position() + 1 - left).max(0);
        left -= place.position() + 1 - first;
        pieces.push(range(conn, place.chain(), first, place.position())?);
        at = chain(conn, place.chain())?.parent;
    }
    Ok(pieces.into_iter().rev().flatten().collect())
}

pub(super) fn path_between(
    conn: &Connection,
    from: NodeId,
    to: NodeId,
) -> Result<Vec<Node>, StoreError> {
    let (start, end) = (place_of(conn, from)?, place_of(conn, to)?);
    let depth =
        |place: Place| Ok::<_, StoreError>(chain(conn, place.chain())?.depth + place.position());
    let length = depth(end)? - depth(start)? + 1;
    let length = usize::try_from(length).ok().filter(|length| *length > 0);
    let length = length.ok_or_else(|| refusal::not_above(from, to))?;
    refusal::path_length(length)?;
    let nodes = path(conn, to, length)?;
    if nodes.first().is_some_and(|first| first.id == from) {
        Ok(nodes)
    } else {
        Err(refusal::not_above(from, to))
    }
}

pub(super) fn leaves(
    conn: &Connection,
    tree: TreeId,
    page: PageRequest,
) -> Result<Page<Node>, StoreError> {
    let row = tree_row(conn, tree)?;
    let limit = page.bounded();
    let mut after = page.after.map_or(0, |token| int(token.0));
    let mut found = Vec::new();
    // Nearly every chain ends in a leaf: one that does not has a branch at its very end.
    while found.len() <= limit {
        let chains = conn.all(
            "SELECT id FROM chains WHERE tree = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            params![row, after, int(limit as u64 + 1)],
            |row| row.get::<_, i64>(0),
        )?;
        let Some(last) = chains.last() else { break };
        after = *last;
        for chain in chains {
            let end = Place::new(chain, chain_end(conn, chain)?.position);
            if conn.one("SELECT 1 FROM chains WHERE parent = ?1", [end.0], |_| Ok(()))?.is_none() {
                for leaf in range(conn, chain, end.position(), end.position())? {
                    found.push((u64::try_from(chain).unwrap_or(0), leaf));
                }
            }
        }
    }
    Ok(Page::of(found.into_iter().take(limit + 1).collect(), limit))
}

pub(super) fn outline(
    conn: &Connection,
    tree: TreeId,
    limit: usize,
) -> Result<Vec<OutlineEntry>, StoreError> {
    let row = tree_row(conn, tree)?;
    let mut left = limit.clamp(1, MAX_PATH_NODES);
    let mut found = Vec::new();
    let chains = conn.all(
        "SELECT id, depth FROM chains WHERE tree = ?1 ORDER BY id LIMIT ?2",
        params![row, int(left as u64)],
        |row| Ok((row.get::<_, i64>(0)?, row.count(1)?)),
    )?;
    for (chain, depth) in chains {
        let nodes = range(conn, chain, 0, int(left as u64) - 1)?;
        left -= nodes.len().min(left);
        found.extend(
            nodes.into_iter().zip(depth..).map(|(node, depth)| OutlineEntry { node, depth }),
        );
        if left == 0 {
            break;
        }
    }
    Ok(found)
}

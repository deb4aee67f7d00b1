//! Arbor in SQL: nodes by place, a chain being one range of keys.
//!
//! The nodes of a chat's events are the rows of `chat_events`: a chat occupies consecutive places of one chain, so place and seq are
//! computed from each other. While a chat is open the end of its chain is its own; whoever else appends there starts a branch.

use plexus_core::{Handle, NodeId, TreeId};
use tokio_postgres::Row;

use super::codes::{TEXT_NODE, node_code};
use super::events;
use super::sql::{Columns, Conn, blob, int, params};
use super::tx::Tx;
use crate::contract::limits::MAX_PATH_NODES;
use crate::contract::{
    AppendNode, CreateTree, JsonText, Node, NodeData, Outcome, OutlineEntry, Page, PageRequest,
    Position, StoreError, Thing, Tree, event_handle, refusal,
};
use crate::sqlite::keys::{EventKey, Place};

// Writing.

pub(super) async fn create_tree(tx: &mut Tx<'_>, new: &CreateTree) -> Result<Outcome, StoreError> {
    if find_place(tx.conn, new.root).await?.is_some() || tree_row(tx.conn, new.id).await.is_ok() {
        return Err(refusal::tree_there(new.id));
    }
    let sql =
        "INSERT INTO trees (uuid, root, created_at, metadata) VALUES ($1, $2, $3, $4) RETURNING id";
    let (id, root) = (blob(new.id.as_uuid()), blob(new.root.as_uuid()));
    let tree = tx.conn.insert(sql, params![id, root, tx.now.0, new.metadata.as_str()]).await?;
    let sql = "INSERT INTO chains (tree, parent, depth) VALUES ($1, NULL, 0) RETURNING id";
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

pub(super) async fn append_node(tx: &mut Tx<'_>, new: AppendNode) -> Result<Outcome, StoreError> {
    require_in_tree(tx.conn, new.parent, new.tree).await?;
    if find_place(tx.conn, new.id).await?.is_some() {
        return Err(refusal::node_there(new.id));
    }
    let parent = place_of(tx.conn, new.parent).await?;
    append_plain(tx, parent, new.id, &new.data, &new.metadata).await?;
    Ok(Outcome::Node(Position { tree_id: new.tree, node_id: new.id }))
}

/// Appends a node that is no event behind `parent`: in its chain when `parent` is the free end of it, else as a branch.
pub(super) async fn append_plain(
    tx: &Tx<'_>,
    parent: Place,
    id: NodeId,
    data: &NodeData,
    metadata: &JsonText,
) -> Result<Place, StoreError> {
    // Sessions that were forked share a tree: whoever appends to it waits for the others, and finds the end where it is.
    let lock = "SELECT t.id FROM trees t JOIN chains c ON c.tree = t.id WHERE c.id = $1 FOR NO KEY UPDATE OF t";
    tx.conn.run(lock, params![parent.chain()]).await?;
    let end = chain_end(tx.conn, parent.chain()).await?;
    let place = if end.position == parent.position() && !end.chat_open {
        Place(parent.0 + 1)
    } else {
        let chain = chain(tx.conn, parent.chain()).await?;
        let sql = "INSERT INTO chains (tree, parent, depth) VALUES ($1, $2, $3) RETURNING id";
        let depth = chain.depth + parent.position() + 1;
        Place::new(tx.conn.insert(sql, params![chain.tree, parent.0, depth]).await?, 0)
    };
    insert(tx, place, id, data, metadata).await?;
    Ok(place)
}

async fn insert(
    tx: &Tx<'_>,
    place: Place,
    id: NodeId,
    data: &NodeData,
    metadata: &JsonText,
) -> Result<(), StoreError> {
    let (kind, text) = node_code(data);
    tx.conn
        .run(
            "INSERT INTO nodes (id, uuid, created_at, kind, metadata, data) VALUES ($1, $2, $3, $4, $5, $6)",
            params![place.0, blob(id.as_uuid()), tx.now.0, kind, metadata.as_str(), text],
        )
        .await?;
    Ok(())
}

/// Removes a tree whose chats are gone.
pub(super) async fn delete_tree(conn: &Conn, tree: i64) -> Result<(), StoreError> {
    for chain in conn
        .all("SELECT id FROM chains WHERE tree = $1", params![tree], |row| row.col::<i64>(0))
        .await?
    {
        conn.run(
            "DELETE FROM nodes WHERE id >= $1 AND id < $2",
            params![Place::new(chain, 0).0, Place::new(chain + 1, 0).0],
        )
        .await?;
    }
    conn.run("DELETE FROM chains WHERE tree = $1", params![tree]).await?;
    conn.run("DELETE FROM trees WHERE id = $1", params![tree]).await?;
    Ok(())
}

// Finding.

struct Chain {
    tree: i64,
    parent: Option<Place>,
    depth: i64,
}

async fn chain(conn: &Conn, id: i64) -> Result<Chain, StoreError> {
    conn.one("SELECT tree, parent, depth FROM chains WHERE id = $1", params![id], |row| {
        Ok(Chain {
            tree: row.col(0)?,
            parent: row.col::<Option<i64>>(1)?.map(Place),
            depth: row.col(2)?,
        })
    })
    .await?
    .ok_or_else(|| StoreError::Corrupt {
        message: format!("a node names chain {id}, which is not there"),
    })
}

struct ChainEnd {
    position: i64,
    /// Whether the end belongs to a chat to which events are still appended.
    chat_open: bool,
}

async fn chain_end(conn: &Conn, chain: i64) -> Result<ChainEnd, StoreError> {
    let node = conn
        .one(
            "SELECT max(id) FROM nodes WHERE id >= $1 AND id < $2",
            params![Place::new(chain, 0).0, Place::new(chain + 1, 0).0],
            |row| row.col::<Option<i64>>(0),
        )
        .await?;
    let node = node.flatten().map_or(-1, |place| Place(place).position());
    let chat = conn
        .one(
            "SELECT id, first_pos, status FROM chat_streams WHERE chain = $1 ORDER BY first_pos DESC LIMIT 1",
            params![chain],
            |row| Ok((row.col::<i64>(0)?, row.col::<i64>(1)?, row.col::<i64>(2)?)),
        )
        .await?;
    Ok(match chat {
        Some((chat, first, status)) if first > node => ChainEnd {
            position: first - 1 + i64::from(events::total(conn, chat).await?),
            chat_open: status == 0,
        },
        _ => ChainEnd { position: node, chat_open: false },
    })
}

async fn find_place(conn: &Conn, id: NodeId) -> Result<Option<Place>, StoreError> {
    let uuid = blob(id.as_uuid());
    if let Some(place) = conn
        .one("SELECT id FROM nodes WHERE uuid = $1", params![uuid], |row| row.col(0).map(Place))
        .await?
    {
        return Ok(Some(place));
    }
    conn.one(
        "SELECT c.chain, c.first_pos, e.id FROM chat_events e JOIN chat_streams c ON c.id = e.id >> 32 WHERE e.uuid = $1",
        params![uuid],
        |row| Ok(Place::new(row.col(0)?, row.col::<i64>(1)? + i64::from(EventKey(row.col(2)?).seq()))),
    ).await
}

pub(super) async fn place_of(conn: &Conn, id: NodeId) -> Result<Place, StoreError> {
    find_place(conn, id).await?.ok_or_else(|| StoreError::not_found(Thing::Node, id))
}

async fn tree_row(conn: &Conn, id: TreeId) -> Result<i64, StoreError> {
    conn.one("SELECT id FROM trees WHERE uuid = $1", params![blob(id.as_uuid())], |row| row.col(0))
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Tree, id))
}

async fn tree_id(conn: &Conn, row: i64) -> Result<TreeId, StoreError> {
    conn.one("SELECT uuid FROM trees WHERE id = $1", params![row], |row| {
        row.uuid(0).map(TreeId::from_uuid)
    })
    .await?
    .ok_or_else(|| StoreError::Corrupt {
        message: format!("a chain names tree {row}, which is not there"),
    })
}

/// Refuses a node of another tree.
pub(super) async fn require_in_tree(
    conn: &Conn,
    node: NodeId,
    tree: TreeId,
) -> Result<(), StoreError> {
    let row = tree_row(conn, tree).await?;
    if chain(conn, place_of(conn, node).await?.chain()).await?.tree == row {
        return Ok(());
    }
    Err(refusal::other_tree(node, tree))
}

// Reading.

fn read_tree(row: &Row) -> Result<(u64, Tree), StoreError> {
    let tree = Tree {
        id: TreeId::from_uuid(row.uuid(1)?),
        root: row.node(2)?,
        created_at: row.time(3)?,
        metadata: row.json(4)?,
    };
    Ok((row.count(0)?, tree))
}

pub(super) async fn tree(conn: &Conn, id: TreeId) -> Result<Tree, StoreError> {
    conn.one(
        "SELECT id, uuid, root, created_at, metadata FROM trees WHERE uuid = $1",
        params![blob(id.as_uuid())],
        read_tree,
    )
    .await?
    .map(|(_, tree)| tree)
    .ok_or_else(|| StoreError::not_found(Thing::Tree, id))
}

pub(super) async fn trees(conn: &Conn, page: PageRequest) -> Result<Page<Tree>, StoreError> {
    let limit = page.bounded();
    let rows = conn
        .all(
            "SELECT id, uuid, root, created_at, metadata FROM trees WHERE id > $1 ORDER BY id LIMIT $2",
            params![page.after.map_or(0, |token| int(token.0)), int(limit as u64 + 1)],
            read_tree,
        )
        .await?;
    Ok(Page::of(rows, limit))
}

/// Reads the places `first..=last` of one chain, in order. Pays for what it returns, and a seek for each chat in between.
async fn range(conn: &Conn, chain_id: i64, first: i64, last: i64) -> Result<Vec<Node>, StoreError> {
    let chain = chain(conn, chain_id).await?;
    let tree_id = tree_id(conn, chain.tree).await?;
    let bare = |id: NodeId, data: NodeData, created_at, metadata| Node {
        id,
        tree_id,
        parent: None,
        data,
        created_at,
        metadata,
    };
    let mut found: Vec<(i64, Node)> = conn
        .all(
            "SELECT id, uuid, created_at, kind, metadata, data FROM nodes WHERE id >= $1 AND id <= $2",
            params![Place::new(chain_id, first).0, Place::new(chain_id, last).0],
            |row| {
                let data = node_data(row.col(3)?, row.col(5)?)?;
                Ok((Place(row.col(0)?).position(), bare(row.node(1)?, data, row.time(2)?, row.json(4)?)))
            },
        )
        .await?;
    let chats = conn
        .all(
            "SELECT id, first_pos FROM chat_streams WHERE chain = $1 AND first_pos <= $3
         AND first_pos >= coalesce((SELECT max(first_pos) FROM chat_streams WHERE chain = $1 AND first_pos <= $2), 0)",
            params![chain_id, first, last],
            |row| Ok((row.col::<i64>(0)?, row.col::<i64>(1)?)),
        )
        .await?;
    for (chat, start) in chats {
        let seq = |position: i64| u32::try_from(position - start).unwrap_or(0);
        found.extend(
            conn.all(
                "SELECT id, uuid, created_at, type FROM chat_events WHERE id >= $1 AND id <= $2",
                params![EventKey::new(chat, seq(first)).0, EventKey::new(chat, seq(last)).0],
                |row| {
                    let handle = event_handle(row.event(1)?, &row.col::<String>(3)?);
                    let node = bare(
                        row.node(1)?,
                        NodeData::External { handle },
                        row.time(2)?,
                        JsonText::empty_object(),
                    );
                    Ok((start + i64::from(EventKey(row.col(0)?).seq()), node))
                },
            )
            .await?,
        );
    }
    found.sort_by_key(|(position, _)| *position);
    let mut parent = match (first, chain.parent) {
        (0, None) => None,
        (0, Some(place)) => id_at(conn, place).await?,
        (_, _) => id_at(conn, Place::new(chain_id, first - 1)).await?,
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

fn node_data(kind: i64, text: String) -> Result<NodeData, StoreError> {
    if kind == TEXT_NODE {
        return Ok(NodeData::Text { content: text });
    }
    let handle: Handle = text.parse().map_err(|error| StoreError::Corrupt {
        message: format!("a node's handle cannot be read: {error}"),
    })?;
    Ok(NodeData::External { handle })
}

/// Returns the id of the node at a place, plain or event.
async fn id_at(conn: &Conn, place: Place) -> Result<Option<NodeId>, StoreError> {
    if let Some(id) = conn
        .one("SELECT uuid FROM nodes WHERE id = $1", params![place.0], |row| row.node(0))
        .await?
    {
        return Ok(Some(id));
    }
    let chat = conn.one(
        "SELECT id, first_pos FROM chat_streams WHERE chain = $1 AND first_pos <= $2 ORDER BY first_pos DESC LIMIT 1",
        params![place.chain(), place.position()],
        |row| Ok((row.col::<i64>(0)?, row.col::<i64>(1)?)),
    ).await?;
    let Some((chat, start)) = chat else { return Ok(None) };
    let seq = u32::try_from(place.position() - start).unwrap_or(u32::MAX);
    conn.one(
        "SELECT uuid FROM chat_events WHERE id = $1",
        params![EventKey::new(chat, seq).0],
        |row| row.node(0),
    )
    .await
}

pub(super) async fn node(conn: &Conn, id: NodeId) -> Result<Node, StoreError> {
    let place = place_of(conn, id).await?;
    let found = range(conn, place.chain(), place.position(), place.position()).await?;
    found.into_iter().next().ok_or_else(|| StoreError::not_found(Thing::Node, id))
}

pub(super) async fn children(conn: &Conn, id: NodeId) -> Result<Vec<Node>, StoreError> {
    let place = place_of(conn, id).await?;
    let mut found = range(conn, place.chain(), place.position() + 1, place.position() + 1).await?;
    for branch in conn
        .all("SELECT id FROM chains WHERE parent = $1 ORDER BY id", params![place.0], |row| {
            row.col::<i64>(0)
        })
        .await?
    {
        found.extend(range(conn, branch, 0, 0).await?);
    }
    Ok(found)
}

pub(super) async fn path(conn: &Conn, id: NodeId, limit: usize) -> Result<Vec<Node>, StoreError> {
    let mut left = int(limit.clamp(1, MAX_PATH_NODES) as u64);
    let mut pieces = Vec::new();
    let mut at = Some(place_of(conn, id).await?);
    while let Some(place) = at.take()
        && left > 0
    {
        let first = (place.position() + 1 - left).max(0);
        left -= place.position() + 1 - first;
        pieces.push(range(conn, place.chain(), first, place.position()).await?);
        at = chain(conn, place.chain()).await?.parent;
    }
    Ok(pieces.into_iter().rev().flatten().collect())
}

pub(super) async fn path_between(
    conn: &Conn,
    from: NodeId,
    to: NodeId,
) -> Result<Vec<Node>, StoreError> {
    let (start, end) = (place_of(conn, from).await?, place_of(conn, to).await?);
    let (above, below) = (chain(conn, start.chain()).await?, chain(conn, end.chain()).await?);
    let length = (below.depth + end.position()) - (above.depth + start.position()) + 1;
    let length = usize::try_from(length).ok().filter(|length| *length > 0);
    let length = length.ok_or_else(|| refusal::not_above(from, to))?;
    refusal::path_length(length)?;
    let nodes = path(conn, to, length).await?;
    if nodes.first().is_some_and(|first| first.id == from) {
        Ok(nodes)
    } else {
        Err(refusal::not_above(from, to))
    }
}

pub(super) async fn leaves(
    conn: &Conn,
    tree: TreeId,
    page: PageRequest,
) -> Result<Page<Node>, StoreError> {
    let row = tree_row(conn, tree).await?;
    let limit = page.bounded();
    let mut after = page.after.map_or(0, |token| int(token.0));
    let mut found = Vec::new();
    // Nearly every chain ends in a leaf: one that does not has a branch at its very end.
    while found.len() <= limit {
        let chains = conn
            .all(
                "SELECT id FROM chains WHERE tree = $1 AND id > $2 ORDER BY id LIMIT $3",
                params![row, after, int(limit as u64 + 1)],
                |row| row.col::<i64>(0),
            )
            .await?;
        let Some(last) = chains.last() else { break };
        after = *last;
        for chain in chains {
            let end = Place::new(chain, chain_end(conn, chain).await?.position);
            if conn
                .one("SELECT 1 FROM chains WHERE parent = $1", params![end.0], |_| Ok(()))
                .await?
                .is_none()
            {
                for leaf in range(conn, chain, end.position(), end.position()).await? {
                    found.push((u64::try_from(chain).unwrap_or(0), leaf));
                }
            }
        }
    }
    Ok(Page::of(found.into_iter().take(limit + 1).collect(), limit))
}

pub(super) async fn outline(
    conn: &Conn,
    tree: TreeId,
    limit: usize,
) -> Result<Vec<OutlineEntry>, StoreError> {
    let row = tree_row(conn, tree).await?;
    let mut left = limit.clamp(1, MAX_PATH_NODES);
    let mut found = Vec::new();
    let chains = conn
        .all(
            "SELECT id, depth FROM chains WHERE tree = $1 ORDER BY id LIMIT $2",
            params![row, int(left as u64)],
            |row| Ok((row.col::<i64>(0)?, row.count(1)?)),
        )
        .await?;
    for (chain, depth) in chains {
        let nodes = range(conn, chain, 0, int(left as u64) - 1).await?;
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

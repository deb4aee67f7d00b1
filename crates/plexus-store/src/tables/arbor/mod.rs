//! Arbor in SQL: nodes are found by place, and a chain is one range of keys.
//!
//! The nodes of a chat's events are the rows of `chat_events`: a chat occupies consecutive places
//! of one chain, so place and seq are computed from each other. While a chat is open it owns the
//! end of its chain; any other node that is appended there starts a branch. `changes` has the
//! writing part.

mod changes;

use plexus_core::{NodeId, TreeId};
use serde_json::Value;

pub(super) use self::changes::{append_node, append_plain, create_tree, delete_tree};
use super::codes::node_data;
use super::keys::{EventKey, Place};
use super::sql::{Row, Sql, int, params};
use super::{chats, events};
use crate::contract::limits::MAX_PATH_NODES;
use crate::contract::{
    ChatStatus, JsonText, Node, NodeData, OutlineEntry, Page, PageRequest, StoreError, Thing, Tree,
    event_handle, refusal,
};

// Finding.

struct Chain {
    tree: i64,
    parent: Option<Place>,
    depth: i64,
}

async fn chain(conn: &impl Sql, id: i64) -> Result<Chain, StoreError> {
    conn.one("SELECT tree, parent, depth FROM chains WHERE id = ?1", params![id], |row| {
        Ok(Chain { tree: row.get(0)?, parent: row.maybe(1)?, depth: row.get(2)? })
    })
    .await?
    .ok_or_else(|| StoreError::Corrupt {
        message: format!("a node names chain {id}, which is not there"),
    })
}

struct ChainEnd {
    position: i64,
    /// Whether the end belongs to an open chat, which may get more events.
    chat_open: bool,
}

async fn chain_end(conn: &impl Sql, chain: i64) -> Result<ChainEnd, StoreError> {
    let node = conn
        .one(
            "SELECT max(id) FROM nodes WHERE id >= ?1 AND id < ?2",
            params![Place::new(chain, 0), Place::new(chain + 1, 0)],
            |row| row.maybe(0),
        )
        .await?;
    let node = node.flatten().map_or(-1, Place::position);
    let chat = conn
        .one(
            "SELECT id, first_pos, status FROM chat_streams WHERE chain = ?1
             ORDER BY first_pos DESC LIMIT 1",
            params![chain],
            |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<ChatStatus>(2)?)),
        )
        .await?;
    Ok(match chat {
        Some((chat, first, status)) if first > node => ChainEnd {
            position: first - 1 + i64::from(events::total(conn, chat).await?),
            chat_open: status == ChatStatus::Running,
        },
        _ => ChainEnd { position: node, chat_open: false },
    })
}

async fn find_place(conn: &impl Sql, id: NodeId) -> Result<Option<Place>, StoreError> {
    if let Some(place) =
        conn.one("SELECT id FROM nodes WHERE uuid = ?1", params![id], |row| row.get(0)).await?
    {
        return Ok(Some(place));
    }
    conn.one(
        "SELECT c.chain, c.first_pos, e.id FROM chat_events e
         JOIN chat_streams c ON c.id = e.id >> 32 WHERE e.uuid = ?1",
        params![id],
        |row| {
            Ok(Place::new(
                row.get(0)?,
                row.get::<i64>(1)? + i64::from(row.get::<EventKey>(2)?.seq()),
            ))
        },
    )
    .await
}

pub(super) async fn place_of(conn: &impl Sql, id: NodeId) -> Result<Place, StoreError> {
    find_place(conn, id).await?.ok_or_else(|| StoreError::not_found(Thing::Node, id))
}

async fn tree_row(conn: &impl Sql, id: TreeId) -> Result<i64, StoreError> {
    conn.one("SELECT id FROM trees WHERE uuid = ?1", params![id], |row| row.get(0))
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Tree, id))
}

async fn tree_id(conn: &impl Sql, row: i64) -> Result<TreeId, StoreError> {
    conn.one("SELECT uuid FROM trees WHERE id = ?1", params![row], |row| row.get(0))
        .await?
        .ok_or_else(|| StoreError::Corrupt {
            message: format!("a chain names tree {row}, which is not there"),
        })
}

/// Refuses a node of another tree.
pub(super) async fn require_in_tree(
    conn: &impl Sql,
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

fn read_tree(row: &Row<'_>) -> Result<(u64, Tree), StoreError> {
    let tree =
        Tree { id: row.get(1)?, root: row.get(2)?, created_at: row.get(3)?, metadata: row.get(4)? };
    Ok((row.get(0)?, tree))
}

pub(crate) async fn tree(conn: &impl Sql, id: TreeId) -> Result<Tree, StoreError> {
    conn.one(
        "SELECT id, uuid, root, created_at, metadata FROM trees WHERE uuid = ?1",
        params![id],
        read_tree,
    )
    .await?
    .map(|(_, tree)| tree)
    .ok_or_else(|| StoreError::not_found(Thing::Tree, id))
}

pub(crate) async fn trees(conn: &impl Sql, page: PageRequest) -> Result<Page<Tree>, StoreError> {
    let limit = page.bounded();
    let rows = conn
        .all(
            "SELECT id, uuid, root, created_at, metadata FROM trees WHERE id > ?1 ORDER BY id
             LIMIT ?2",
            params![page.after.map_or(0, |token| token.0), limit + 1],
            read_tree,
        )
        .await?;
    Ok(Page::of(rows, limit))
}

/// Reads the places `first..=last` of one chain, in order. The cost is proportional to the result,
/// plus a seek for each chat in between.
async fn range(
    conn: &impl Sql,
    chain_id: i64,
    first: i64,
    last: i64,
) -> Result<Vec<Node>, StoreError> {
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
            "SELECT id, uuid, created_at, kind, metadata, data FROM nodes
             WHERE id >= ?1 AND id <= ?2",
            params![Place::new(chain_id, first), Place::new(chain_id, last)],
            |row| {
                let metadata: JsonText = row.get(4)?;
                let data = pruned_or(node_data(row.get(3)?, row.get(5)?)?, &metadata);
                Ok((
                    row.get::<Place>(0)?.position(),
                    bare(row.get(1)?, data, row.get(2)?, metadata),
                ))
            },
        )
        .await?;
    let chats = conn
        .all(
            "SELECT id, first_pos,
                 (SELECT data FROM nodes WHERE id = (chain << 32 | first_pos) - 1)
             FROM chat_streams
             WHERE chain = ?1 AND first_pos <= ?3
                         AND first_pos >= coalesce((SELECT max(first_pos)
                             FROM chat_streams WHERE chain = ?1 AND first_pos <= ?2), 0)",
            params![chain_id, first, last],
            |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, chats::owner_of(row, 2)?)),
        )
        .await?;
    for (chat, start, owner) in chats {
        let seq = |position: i64| u32::try_from(position - start).unwrap_or(0);
        found.extend(
            conn.all(
                "SELECT id, uuid, created_at, type FROM chat_events WHERE id >= ?1 AND id <= ?2",
                params![EventKey::new(chat, seq(first)), EventKey::new(chat, seq(last))],
                |row| {
                    let handle = event_handle(owner, row.get(1)?, &row.get::<String>(3)?);
                    let node = bare(
                        row.get(1)?,
                        NodeData::External { handle },
                        row.get(2)?,
                        JsonText::empty_object(),
                    );
                    Ok((start + i64::from(row.get::<EventKey>(0)?.seq()), node))
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

/// Restores the mark of pruning: no chat starts with an empty prompt, so an empty one was pruned.
fn pruned_or(data: NodeData, metadata: &JsonText) -> NodeData {
    let is_empty = matches!(&data, NodeData::Text { content } if content.is_empty());
    let prompt = |metadata: &Value| metadata["role"] == "user" && metadata["chat"].is_u64();
    if is_empty && prompt(&metadata.to_value()) { NodeData::Pruned {} } else { data }
}

/// Returns the id of the node at a place, plain or event.
async fn id_at(conn: &impl Sql, place: Place) -> Result<Option<NodeId>, StoreError> {
    if let Some(id) =
        conn.one("SELECT uuid FROM nodes WHERE id = ?1", params![place], |row| row.get(0)).await?
    {
        return Ok(Some(id));
    }
    let chat = conn
        .one(
            "SELECT id, first_pos FROM chat_streams WHERE chain = ?1 AND first_pos <= ?2
             ORDER BY first_pos DESC LIMIT 1",
            params![place.chain(), place.position()],
            |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)),
        )
        .await?;
    let Some((chat, start)) = chat else { return Ok(None) };
    let seq = u32::try_from(place.position() - start).unwrap_or(u32::MAX);
    conn.one(
        "SELECT uuid FROM chat_events WHERE id = ?1",
        params![EventKey::new(chat, seq)],
        |row| row.get(0),
    )
    .await
}

pub(crate) async fn node(conn: &impl Sql, id: NodeId) -> Result<Node, StoreError> {
    let place = place_of(conn, id).await?;
    let found = range(conn, place.chain(), place.position(), place.position()).await?;
    found.into_iter().next().ok_or_else(|| StoreError::not_found(Thing::Node, id))
}

pub(crate) async fn children(conn: &impl Sql, id: NodeId) -> Result<Vec<Node>, StoreError> {
    let place = place_of(conn, id).await?;
    let mut found = range(conn, place.chain(), place.position() + 1, place.position() + 1).await?;
    for branch in conn
        .all("SELECT id FROM chains WHERE parent = ?1 ORDER BY id", params![place], |row| {
            row.get::<i64>(0)
        })
        .await?
    {
        found.extend(range(conn, branch, 0, 0).await?);
    }
    Ok(found)
}

pub(crate) async fn path(
    conn: &impl Sql,
    id: NodeId,
    limit: usize,
) -> Result<Vec<Node>, StoreError> {
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

pub(crate) async fn path_between(
    conn: &impl Sql,
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

pub(crate) async fn leaves(
    conn: &impl Sql,
    tree: TreeId,
    page: PageRequest,
) -> Result<Page<Node>, StoreError> {
    let row = tree_row(conn, tree).await?;
    let limit = page.bounded();
    let mut after = page.after.map_or(0, |token| token.0);
    let mut found = Vec::new();
    // Nearly every chain ends in a leaf; only a branch at its last node makes an exception.
    while found.len() <= limit {
        let chains = conn
            .all(
                "SELECT id FROM chains WHERE tree = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
                params![row, after, limit + 1],
                |row| row.get::<i64>(0),
            )
            .await?;
        let Some(last) = chains.last() else { break };
        after = u64::try_from(*last).unwrap_or(u64::MAX);
        for chain in chains {
            let end = Place::new(chain, chain_end(conn, chain).await?.position);
            if !conn.any("SELECT 1 FROM chains WHERE parent = ?1", params![end]).await? {
                for leaf in range(conn, chain, end.position(), end.position()).await? {
                    found.push((u64::try_from(chain).unwrap_or(0), leaf));
                }
            }
        }
    }
    Ok(Page::of(found.into_iter().take(limit + 1).collect(), limit))
}

pub(crate) async fn outline(
    conn: &impl Sql,
    tree: TreeId,
    limit: usize,
) -> Result<Vec<OutlineEntry>, StoreError> {
    let row = tree_row(conn, tree).await?;
    let mut left = limit.clamp(1, MAX_PATH_NODES);
    let mut found = Vec::new();
    let chains = conn
        .all(
            "SELECT id, depth FROM chains WHERE tree = ?1 ORDER BY id LIMIT ?2",
            params![row, left],
            |row| Ok((row.get::<i64>(0)?, row.get(1)?)),
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

//! Arbor over maps: chains are vectors.

use plexus_core::{NodeId, TreeId};

use super::state::{Chain, NodeRecord, State, ascending};
use crate::contract::limits::MAX_PATH_NODES;
use crate::contract::{
    AppendNode, ChatStatus, CreateTree, Event, JsonText, Node, NodeData, Outcome, OutlineEntry,
    Page, PageRequest, Position, StoreError, Thing, Tree, UnixMillis, refusal,
};

fn find(state: &State, id: NodeId) -> Result<&NodeRecord, StoreError> {
    state.nodes.get(&id).ok_or_else(|| StoreError::not_found(Thing::Node, id))
}

fn find_tree(state: &State, id: TreeId) -> Result<(u64, &Tree), StoreError> {
    let found = state.trees.iter().find(|(_, tree)| tree.id == id);
    found.map(|(key, tree)| (*key, tree)).ok_or_else(|| StoreError::not_found(Thing::Tree, id))
}

pub(super) fn create_tree(state: &mut State, new: CreateTree) -> Result<Outcome, StoreError> {
    if state.nodes.contains_key(&new.root) || find_tree(state, new.id).is_ok() {
        return Err(refusal::tree_there(new.id));
    }
    let created_at = UnixMillis::now();
    let tree = state.next_key();
    state
        .trees
        .insert(tree, Tree { id: new.id, root: new.root, created_at, metadata: new.metadata });
    let chain = state.next_key();
    state.chains.insert(chain, Chain { tree, parent: None, nodes: vec![new.root] });
    let data = NodeData::Text { content: String::new() };
    let node = Node {
        id: new.root,
        tree_id: new.id,
        parent: None,
        data,
        created_at,
        metadata: JsonText::empty_object(),
    };
    state.nodes.insert(new.root, NodeRecord { node, chain, position: 0 });
    Ok(Outcome::Node(Position { tree_id: new.id, node_id: new.root }))
}

pub(super) fn append_node(state: &mut State, new: AppendNode) -> Result<Outcome, StoreError> {
    require_in_tree(state, new.parent, new.tree)?;
    if state.nodes.contains_key(&new.id) {
        return Err(refusal::node_there(new.id));
    }
    append(state, new.parent, new.id, new.data, new.metadata, UnixMillis::now())?;
    Ok(Outcome::Node(Position { tree_id: new.tree, node_id: new.id }))
}

/// Whether the end of a chain belongs to a chat to which events are still appended.
fn ends_in_open_chat(state: &State, end: NodeId) -> bool {
    state.chats.values().any(|record| {
        record.chat.status == ChatStatus::Running
            && record.events.last().is_some_and(|event| event.node_id() == end)
    })
}

/// Appends a node that is no event.
pub(super) fn append(
    state: &mut State,
    parent: NodeId,
    id: NodeId,
    data: NodeData,
    metadata: JsonText,
    created_at: UnixMillis,
) -> Result<(), StoreError> {
    let branch = ends_in_open_chat(state, parent);
    insert(
        state,
        branch,
        Node {
            id,
            tree_id: find(state, parent)?.node.tree_id,
            parent: Some(parent),
            data,
            created_at,
            metadata,
        },
    )
}

/// Appends an event's node; its chat owns the end of the chain.
pub(super) fn append_event(
    state: &mut State,
    parent: NodeId,
    event: &Event,
) -> Result<(), StoreError> {
    let node = Node {
        id: event.node_id(),
        tree_id: find(state, parent)?.node.tree_id,
        parent: Some(parent),
        data: NodeData::External { handle: event.handle() },
        created_at: event.timestamp,
        metadata: JsonText::empty_object(),
    };
    insert(state, false, node)
}

fn insert(state: &mut State, branch: bool, node: Node) -> Result<(), StoreError> {
    let Some(parent) = node.parent else {
        return Err(StoreError::invalid("append a node without a parent"));
    };
    let (chain, position) = (find(state, parent)?.chain, find(state, parent)?.position);
    let next_key = state.next_key();
    let old =
        state.chains.get_mut(&chain).ok_or_else(|| StoreError::not_found(Thing::Node, parent))?;
    let (chain, position) = if !branch && position + 1 == old.nodes.len() {
        old.nodes.push(node.id);
        (chain, position + 1)
    } else {
        let tree = old.tree;
        state.chains.insert(next_key, Chain { tree, parent: Some(parent), nodes: vec![node.id] });
        (next_key, 0)
    };
    state.nodes.insert(node.id, NodeRecord { node, chain, position });
    Ok(())
}

pub(super) fn delete_tree(state: &mut State, id: TreeId) {
    if let Ok((key, _)) = find_tree(state, id) {
        state.trees.remove(&key);
        state.chains.retain(|_, chain| chain.tree != key);
        state.nodes.retain(|_, record| record.node.tree_id != id);
    }
}

pub(super) fn require_in_tree(state: &State, node: NodeId, tree: TreeId) -> Result<(), StoreError> {
    find_tree(state, tree)?;
    if find(state, node)?.node.tree_id == tree {
        return Ok(());
    }
    Err(refusal::other_tree(node, tree))
}

pub(super) fn tree(state: &State, id: TreeId) -> Result<Tree, StoreError> {
    find_tree(state, id).map(|(_, tree)| tree.clone())
}

pub(super) fn trees(state: &State, page: PageRequest) -> Page<Tree> {
    ascending(&state.trees, page, |tree| Some(tree.clone()))
}

pub(super) fn node(state: &State, id: NodeId) -> Result<Node, StoreError> {
    find(state, id).map(|record| record.node.clone())
}

pub(super) fn children(state: &State, id: NodeId) -> Result<Vec<Node>, StoreError> {
    let at = find(state, id)?;
    let next = state.chains.get(&at.chain).and_then(|chain| chain.nodes.get(at.position + 1));
    let branches = state
        .chains
        .values()
        .filter(|chain| chain.parent == Some(id))
        .filter_map(|chain| chain.nodes.first());
    next.into_iter().chain(branches).map(|id| node(state, *id)).collect()
}

pub(super) fn path(state: &State, id: NodeId, limit: usize) -> Result<Vec<Node>, StoreError> {
    let mut nodes = vec![node(state, id)?];
    while let Some(parent) = nodes.last().and_then(|node| node.parent)
        && nodes.len() < limit.min(MAX_PATH_NODES)
    {
        nodes.push(node(state, parent)?);
    }
    nodes.reverse();
    Ok(nodes)
}

pub(super) fn path_between(
    state: &State,
    from: NodeId,
    to: NodeId,
) -> Result<Vec<Node>, StoreError> {
    find(state, from)?;
    let mut nodes = path(state, to, MAX_PATH_NODES)?;
    match nodes.iter().position(|node| node.id == from) {
        Some(start) => Ok(nodes.split_off(start)),
        None => Err(refusal::not_above(from, to)),
    }
}

pub(super) fn leaves(
    state: &State,
    tree: TreeId,
    page: PageRequest,
) -> Result<Page<Node>, StoreError> {
    let (key, _) = find_tree(state, tree)?;
    Ok(ascending(&state.chains, page, |chain| {
        let end = *chain.nodes.last().filter(|_| chain.tree == key)?;
        let has_branch = state.chains.values().any(|other| other.parent == Some(end));
        if has_branch { None } else { node(state, end).ok() }
    }))
}

pub(super) fn outline(
    state: &State,
    tree: TreeId,
    limit: usize,
) -> Result<Vec<OutlineEntry>, StoreError> {
    let (key, _) = find_tree(state, tree)?;
    let chains = state.chains.values().filter(|chain| chain.tree == key);
    let ids = chains.flat_map(|chain| &chain.nodes).take(limit.clamp(1, MAX_PATH_NODES));
    ids.map(|id| {
        let depth = path(state, *id, usize::MAX)?.len() as u64 - 1;
        Ok(OutlineEntry { node: node(state, *id)?, depth })
    })
    .collect()
}

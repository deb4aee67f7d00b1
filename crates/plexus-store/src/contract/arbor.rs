//! Arbor: trees of nodes, stored as chains, so that reading a path takes time in proportion to its
//! length.
//!
//! A node that extends the end of its parent's chain joins that chain at the next position; any
//! other starts a chain of its own. A path is then a few range reads, one for each chain it passes
//! through. In a session's tree: root → user message → stream root → events in a chain → next user
//! message; a fork is a second child. Events are nodes like any other.

use plexus_core::{NodeId, TreeId};
pub use plexus_wire::{NodeData, Position};
use serde::Serialize;

use super::json::JsonText;
use super::time::UnixMillis;

/// One node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Node {
    /// Its id. An event's node has the event's UUID.
    pub id: NodeId,
    /// Its tree.
    pub tree_id: TreeId,
    /// The node before it; `None` for the root.
    pub parent: Option<NodeId>,
    /// Its content.
    pub data: NodeData,
    /// When it was made.
    pub created_at: UnixMillis,
    /// Metadata; an object.
    pub metadata: JsonText,
}

/// One tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Tree {
    /// Its id.
    pub id: TreeId,
    /// Its root node.
    pub root: NodeId,
    /// When it was made.
    pub created_at: UnixMillis,
    /// Metadata; an object.
    pub metadata: JsonText,
}

/// Creates a tree with a root node of empty text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateTree {
    /// Its id, made by the caller.
    pub id: TreeId,
    /// Its root's id, made by the caller.
    pub root: NodeId,
    /// Metadata; an object.
    pub metadata: JsonText,
}

/// Appends a node after `parent`, which must be in `tree`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendNode {
    /// Its id, made by the caller.
    pub id: NodeId,
    /// The tree.
    pub tree: TreeId,
    /// The node before it.
    pub parent: NodeId,
    /// Its content.
    pub data: NodeData,
    /// Metadata; an object.
    pub metadata: JsonText,
}

/// One node of a rendered tree. [`Store::tree_outline`](super::Store::tree_outline) lists these,
/// parents before children.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutlineEntry {
    /// The node.
    pub node: Node,
    /// Its distance from the root; 0 for the root itself.
    pub depth: u64,
}

//! Arbor: trees of nodes, and places in them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::PageLimit;
use crate::handle::Handle;
use crate::ids::{NodeId, TreeId};
use crate::json::{Json, Object};
use crate::said::Said;
use crate::schema::tagged;
use crate::time::Millis;

/// A place in a tree, as it is shown on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Position {
    /// The tree.
    pub tree_id: TreeId,
    /// The node.
    pub node_id: NodeId,
}

/// What a node holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NodeData {
    /// A text of its own.
    Text {
        /// The text.
        content: String,
    },
    /// Something an activation owns.
    External {
        /// Its name.
        handle: Handle,
    },
    /// A prompt of long ago, whose text was removed.
    Pruned {},
}

/// One node of a tree.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Node {
    /// Its id. An event's node has the event's UUID.
    pub id: NodeId,
    /// Its tree.
    pub tree_id: TreeId,
    /// The node before it; null for the root.
    pub parent: Option<NodeId>,
    /// What it holds.
    pub data: Said<NodeData>,
    /// When it was made.
    pub created_at: Millis,
    /// What its maker noted.
    #[schemars(with = "Object")]
    pub metadata: Json,
    /// Its handle, which `plexus.resolve_handle` takes. Always there from this version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

/// One tree.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Tree {
    /// Its id.
    pub id: TreeId,
    /// Its root node.
    pub root: NodeId,
    /// When it was made.
    pub created_at: Millis,
    /// What its maker noted.
    #[schemars(with = "Object")]
    pub metadata: Json,
    /// Its handle, which `plexus.resolve_handle` takes. Always there from this version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

/// Parameters of `tree_create`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct TreeCreateParams {
    /// Anything you want to find again; an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

/// Names a tree.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct TreeParams {
    /// The tree.
    pub tree_id: TreeId,
}

impl TreeParams {
    /// This tree.
    #[must_use]
    pub fn new(tree_id: TreeId) -> Self {
        Self { tree_id }
    }
}

/// Parameters of `tree_list`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct TreeListParams {
    /// How many (100, at most 1,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
    /// The `cursor` of the page before.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub cursor: Option<String>,
}

/// Parameters of `context_list_leaves`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct LeavesParams {
    /// The tree.
    pub tree_id: TreeId,
    /// How many (100, at most 1,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
    /// The `cursor` of the page before.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub cursor: Option<String>,
}

impl LeavesParams {
    /// The first page of this tree.
    #[must_use]
    pub fn new(tree_id: TreeId) -> Self {
        Self { tree_id, limit: None, cursor: None }
    }
}

/// Names a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct NodeParams {
    /// The node.
    pub node_id: NodeId,
}

impl NodeParams {
    /// This node.
    #[must_use]
    pub fn new(node_id: NodeId) -> Self {
        Self { node_id }
    }
}

/// A path that ends at a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct PathParams {
    /// Its last node.
    pub node_id: NodeId,
    /// How many nodes, counted from the end (100, at most 1,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
}

impl PathParams {
    /// The path that ends at this node.
    #[must_use]
    pub fn new(node_id: NodeId) -> Self {
        Self { node_id, limit: None }
    }
}

/// A path between two nodes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct BetweenParams {
    /// Its first node.
    pub from: NodeId,
    /// Its last node.
    pub to: NodeId,
}

impl BetweenParams {
    /// The path between these nodes.
    #[must_use]
    pub fn new(from: NodeId, to: NodeId) -> Self {
        Self { from, to }
    }
}

/// Parameters of `node_create_text`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct NodeCreateTextParams {
    /// The tree.
    pub tree_id: TreeId,
    /// The node before it; without it, the root of the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<NodeId>,
    /// The text.
    #[serde(deserialize_with = "crate::text::one::<crate::text::LongText, _>")]
    #[schemars(length(max = 10_485_760))]
    pub content: String,
    /// An object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

impl NodeCreateTextParams {
    /// A text after a node, or right after the root.
    pub fn new(
        tree_id: TreeId,
        parent: impl Into<Option<NodeId>>,
        content: impl Into<String>,
    ) -> Self {
        Self { tree_id, parent: parent.into(), content: content.into(), metadata: None }
    }
}

/// Parameters of `node_create_external`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct NodeCreateExternalParams {
    /// The tree.
    pub tree_id: TreeId,
    /// The node before it; without it, the root of the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<NodeId>,
    /// What it stands for, as a handle.
    pub handle: Handle,
    /// An object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

impl NodeCreateExternalParams {
    /// A node that stands for something, after another node or right after the root.
    #[must_use]
    pub fn new(tree_id: TreeId, parent: impl Into<Option<NodeId>>, handle: Handle) -> Self {
        Self { tree_id, parent: parent.into(), handle, metadata: None }
    }
}

/// A result of `tree_create`, `node_create_text` and `node_create_external`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "created")]
#[schemars(rename = "NodeCreated", transform = tagged("created"))]
pub struct NodeCreated {
    /// The tree.
    pub tree_id: TreeId,
    /// The new node; of a new tree, its root.
    pub node_id: NodeId,
}

/// A result of `tree_get`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "TreeGot", transform = tagged("ok"))]
pub struct TreeGot {
    /// The tree.
    pub tree: Tree,
}

/// A result of `tree_list`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "TreeList", transform = tagged("ok"))]
pub struct TreeList {
    /// The trees, oldest first.
    pub trees: Vec<Tree>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A result of `node_get` and `node_get_parent`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "NodeGot", transform = tagged("ok"))]
pub struct NodeGot {
    /// The node; null above the root.
    pub node: Option<Node>,
}

/// A result of the methods that list nodes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "NodeList", transform = tagged("ok"))]
pub struct NodeList {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A result of `context_get_handles`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "HandleList", transform = tagged("ok"))]
pub struct HandleList {
    /// The handles along the path.
    pub handles: Vec<Handle>,
}

/// A result of `tree_render`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "TreeRendered", transform = tagged("ok"))]
pub struct TreeRendered {
    /// The tree as indented lines.
    pub text: String,
}

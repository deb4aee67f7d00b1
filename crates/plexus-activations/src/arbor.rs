//! `arbor`: trees of nodes for everybody. A session's tree is one of them, and seen by those who may see the session.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Audience, Call, CallError, Caller, Handle, MethodDescriptor,
    MethodTable, NodeId, Resolution, TreeId,
};
use plexus_store::{
    AppendNode, Change, CreateTree, JsonText, Node, NodeData, Outcome, Position, Priority, Store,
    Tree, limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::claudecode::activation::page;
use crate::handler::handler;

/// Trees and their nodes. The operator's: trees of sessions hold what children said, and a session reads its own descendants through `claudecode`.
pub struct Arbor {
    store: Arc<dyn Store>,
}

/// Parameters of `tree_create`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TreeCreateParams {
    /// Anything you want to find again; an object.
    metadata: Option<Map<String, Value>>,
}

/// Names a tree.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TreeParams {
    /// The tree.
    tree_id: TreeId,
}

/// A page of something.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PageParams {
    /// How many (100, at most 1,000).
    limit: Option<u32>,
    /// The `cursor` of the page before.
    cursor: Option<String>,
}

/// A page of a tree.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TreePageParams {
    /// The tree.
    tree_id: TreeId,
    /// How many (100, at most 1,000).
    limit: Option<u32>,
    /// The `cursor` of the page before.
    cursor: Option<String>,
}

/// Names a node.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NodeParams {
    /// The node.
    node_id: NodeId,
}

/// A path that ends at a node.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PathParams {
    /// Its last node.
    node_id: NodeId,
    /// How many nodes, counted from the end (100, at most 1,000).
    limit: Option<u32>,
}

/// A path between two nodes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BetweenParams {
    /// Its first node.
    from: NodeId,
    /// Its last node.
    to: NodeId,
}

/// Parameters of `node_create_text`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextParams {
    /// The tree.
    tree_id: TreeId,
    /// The node before it.
    parent: NodeId,
    /// The text.
    content: String,
    /// An object.
    metadata: Option<Map<String, Value>>,
}

/// Parameters of `node_create_external`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExternalParams {
    /// The tree.
    tree_id: TreeId,
    /// The node before it.
    parent: NodeId,
    /// What it stands for, as a handle.
    #[schemars(with = "Map<String, Value>")]
    handle: Handle,
    /// An object.
    metadata: Option<Map<String, Value>>,
}

/// A node on the wire.
#[derive(Serialize, JsonSchema)]
struct NodeView {
    id: NodeId,
    tree_id: TreeId,
    parent: Option<NodeId>,
    #[schemars(with = "Map<String, Value>")]
    data: NodeData,
    created_at: i64,
    #[schemars(with = "Map<String, Value>")]
    metadata: JsonText,
}

impl From<Node> for NodeView {
    fn from(node: Node) -> Self {
        Self {
            id: node.id,
            tree_id: node.tree_id,
            parent: node.parent,
            data: node.data,
            created_at: node.created_at.0,
            metadata: node.metadata,
        }
    }
}

/// A tree on the wire.
#[derive(Serialize, JsonSchema)]
struct TreeView {
    id: TreeId,
    root: NodeId,
    created_at: i64,
    #[schemars(with = "Map<String, Value>")]
    metadata: JsonText,
}

impl From<Tree> for TreeView {
    fn from(tree: Tree) -> Self {
        Self {
            id: tree.id,
            root: tree.root,
            created_at: tree.created_at.0,
            metadata: tree.metadata,
        }
    }
}

/// A place that was made.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "created")]
struct Made {
    tree_id: TreeId,
    node_id: NodeId,
}

/// One tree.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
struct OneTree {
    tree: TreeView,
}

/// Some trees.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
struct Trees {
    trees: Vec<TreeView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// One node, or none.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
struct OneNode {
    node: Option<NodeView>,
}

/// Some nodes.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
struct Nodes {
    nodes: Vec<NodeView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// Some handles.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
struct Handles {
    handles: Vec<Handle>,
}

/// A tree as text.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
struct TextOfTree {
    text: String,
}

impl Arbor {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store })
    }

    async fn made(&self, change: Change) -> Result<Made, CallError> {
        let committed = self.store.commit(vec![change], Priority::Normal).await?;
        match committed.outcomes.into_iter().next() {
            Some(Outcome::Node(Position { tree_id, node_id })) => Ok(Made { tree_id, node_id }),
            _ => Err(CallError::internal("make a node: the store did not say which")),
        }
    }

    async fn tree_create(&self, _: Call, params: TreeCreateParams) -> Result<Made, CallError> {
        let metadata = JsonText::of(&params.metadata.unwrap_or_default())?;
        self.made(Change::CreateTree(CreateTree {
            id: TreeId::generate(),
            root: NodeId::generate(),
            metadata,
        }))
        .await
    }

    async fn tree_get(&self, _: Call, params: TreeParams) -> Result<OneTree, CallError> {
        Ok(OneTree { tree: self.store.tree(params.tree_id).await?.into() })
    }

    async fn tree_list(&self, _: Call, params: PageParams) -> Result<Trees, CallError> {
        let found = self.store.trees(page(params.limit, params.cursor.as_deref())?).await?;
        Ok(Trees {
            trees: found.items.into_iter().map(Into::into).collect(),
            cursor: found.next.map(|next| next.to_string()),
        })
    }

    async fn tree_render(&self, _: Call, params: TreeParams) -> Result<TextOfTree, CallError> {
        let outline = self.store.tree_outline(params.tree_id, limits::MAX_PAGE_ITEMS).await?;
        let lines: Vec<String> = outline
            .iter()
            .map(|entry| {
                format!(
                    "{}{}",
                    "  ".repeat(usize::try_from(entry.depth.min(64)).unwrap_or(64)),
                    label(&entry.node)
                )
            })
            .collect();
        Ok(TextOfTree { text: lines.join("\n") })
    }

    async fn append(
        &self,
        tree: TreeId,
        parent: NodeId,
        data: NodeData,
        metadata: Option<Map<String, Value>>,
    ) -> Result<Made, CallError> {
        let metadata = JsonText::of(&metadata.unwrap_or_default())?;
        self.made(Change::AppendNode(AppendNode {
            id: NodeId::generate(),
            tree,
            parent,
            data,
            metadata,
        }))
        .await
    }

    async fn node_create_text(&self, _: Call, params: TextParams) -> Result<Made, CallError> {
        crate::text::without_nul("content", &params.content)?;
        self.append(
            params.tree_id,
            params.parent,
            NodeData::Text { content: params.content },
            params.metadata,
        )
        .await
    }

    async fn node_create_external(
        &self,
        _: Call,
        params: ExternalParams,
    ) -> Result<Made, CallError> {
        self.append(
            params.tree_id,
            params.parent,
            NodeData::External { handle: params.handle },
            params.metadata,
        )
        .await
    }

    async fn node_get(&self, _: Call, params: NodeParams) -> Result<OneNode, CallError> {
        Ok(OneNode { node: Some(self.store.node(params.node_id).await?.into()) })
    }

    async fn node_get_children(&self, _: Call, params: NodeParams) -> Result<Nodes, CallError> {
        let nodes = self.store.children(params.node_id).await?;
        Ok(Nodes { nodes: nodes.into_iter().map(Into::into).collect(), cursor: None })
    }

    async fn node_get_parent(&self, _: Call, params: NodeParams) -> Result<OneNode, CallError> {
        let node = match self.store.node(params.node_id).await?.parent {
            Some(parent) => Some(self.store.node(parent).await?.into()),
            None => None,
        };
        Ok(OneNode { node })
    }

    async fn node_get_path(&self, _: Call, params: PathParams) -> Result<Nodes, CallError> {
        let limit = crate::claudecode::activation::checked_limit(params.limit)?;
        let nodes = self.store.path(params.node_id, limit).await?;
        Ok(Nodes { nodes: nodes.into_iter().map(Into::into).collect(), cursor: None })
    }

    async fn node_get_path_between(
        &self,
        _: Call,
        params: BetweenParams,
    ) -> Result<Nodes, CallError> {
        let nodes = self.store.path_between(params.from, params.to).await?;
        Ok(Nodes { nodes: nodes.into_iter().map(Into::into).collect(), cursor: None })
    }

    async fn context_list_leaves(
        &self,
        _: Call,
        params: TreePageParams,
    ) -> Result<Nodes, CallError> {
        let found = self
            .store
            .leaves(params.tree_id, page(params.limit, params.cursor.as_deref())?)
            .await?;
        Ok(Nodes {
            nodes: found.items.into_iter().map(Into::into).collect(),
            cursor: found.next.map(|next| next.to_string()),
        })
    }

    async fn context_get_handles(&self, _: Call, params: PathParams) -> Result<Handles, CallError> {
        let limit = crate::claudecode::activation::checked_limit(params.limit)?;
        let nodes = self.store.path(params.node_id, limit).await?;
        let handles = nodes.into_iter().filter_map(|node| match node.data {
            NodeData::External { handle } => Some(handle),
            NodeData::Text { .. } => None,
        });
        Ok(Handles { handles: handles.collect() })
    }
}

/// One node on one line.
fn label(node: &Node) -> String {
    const CHARS: usize = 72;
    match &node.data {
        NodeData::Text { content } if content.is_empty() => "(root)".to_owned(),
        NodeData::Text { content } => {
            let line = content.split_whitespace().collect::<Vec<_>>().join(" ");
            if line.chars().count() > CHARS {
                line.chars().take(CHARS - 1).chain(['…']).collect()
            } else {
                line
            }
        }
        NodeData::External { handle } => match handle.meta.get(1) {
            Some(kind) => format!("[{kind}]"),
            None => format!("[{}]", handle.method),
        },
    }
}

#[async_trait]
impl Activation for Arbor {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "arbor",
            version: (1, 0, 0),
            description: "Trees of nodes: every event of every session is one.",
        }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        macro_rules! with {
            ($method:ident) => {
                handler!(self, $method)
            };
        }
        let writes: fn(&mut MethodDescriptor) = |d| d.audience = Audience::Operator;
        let reads: fn(&mut MethodDescriptor) = |d| {
            d.audience = Audience::Operator;
            d.hints.read_only = true;
        };
        MethodTable::new("arbor")
            .unary::<_, Made, _, _>(
                "tree_create",
                "Creates a tree with an empty root.",
                writes,
                with!(tree_create),
            )
            .unary::<_, OneTree, _, _>(
                "tree_get",
                "Shows a tree: its root and its metadata.",
                reads,
                with!(tree_get),
            )
            .unary::<_, Trees, _, _>(
                "tree_list",
                "Lists trees, oldest first.",
                reads,
                with!(tree_list),
            )
            .unary::<_, TextOfTree, _, _>(
                "tree_render",
                "Draws a tree as indented text.",
                reads,
                with!(tree_render),
            )
            .unary::<_, Made, _, _>(
                "node_create_text",
                "Appends a text node.",
                writes,
                with!(node_create_text),
            )
            .unary::<_, Made, _, _>(
                "node_create_external",
                "Appends a node that stands for something with a handle.",
                writes,
                with!(node_create_external),
            )
            .unary::<_, OneNode, _, _>("node_get", "Shows a node.", reads, with!(node_get))
            .unary::<_, Nodes, _, _>(
                "node_get_children",
                "Lists the nodes right behind a node.",
                reads,
                with!(node_get_children),
            )
            .unary::<_, OneNode, _, _>(
                "node_get_parent",
                "Shows the node before a node; none for the root.",
                reads,
                with!(node_get_parent),
            )
            .unary::<_, Nodes, _, _>(
                "node_get_path",
                "Lists the last nodes of the path from the root to a node.",
                reads,
                with!(node_get_path),
            )
            .unary::<_, Nodes, _, _>(
                "node_get_path_between",
                "Lists the path from a node to one below it.",
                reads,
                with!(node_get_path_between),
            )
            .unary::<_, Nodes, _, _>(
                "context_list_leaves",
                "Lists the ends of a tree's branches.",
                reads,
                with!(context_list_leaves),
            )
            .unary::<_, Nodes, _, _>(
                "context_get_path",
                "Lists the path that leads to a leaf.",
                reads,
                with!(node_get_path),
            )
            .unary::<_, Handles, _, _>(
                "context_get_handles",
                "Lists the handles along the path to a node.",
                reads,
                with!(context_get_handles),
            )
    }

    async fn resolve(&self, caller: &Caller, handle: &Handle) -> Resolution {
        let ("node", [id, ..]) = (handle.method.as_str(), handle.meta.as_slice()) else {
            return Resolution::NotMine;
        };
        if *caller != Caller::Operator {
            return Resolution::Failed(CallError::forbidden(
                "resolve a node: that is the operator's",
            ));
        }
        let Ok(id) = id.parse() else {
            return Resolution::Failed(CallError::invalid(
                "resolve the node: its id is not a UUID",
            ));
        };
        match self.store.node(id).await {
            Ok(node) => Resolution::Found(
                json!({"type": "node", "node": serde_json::to_value(NodeView::from(node)).unwrap_or(Value::Null)}),
            ),
            Err(error) => Resolution::Failed(error.into()),
        }
    }
}

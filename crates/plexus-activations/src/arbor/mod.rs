//! `arbor`: trees of nodes for everybody. A session's tree is one of them, and seen by those who
//! may see the session.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Audience, Call, CallError, Caller, Handle, HandleKind,
    MethodDescriptor, MethodTable, NodeId, TreeId,
};
use plexus_engine::Engine;
use plexus_store::{
    AppendNode, Change, CreateTree, JsonText, Node, NodeData, Outcome, Position, Priority, Store,
    Tree, limits,
};
use plexus_wire::method::arbor as wire;
use plexus_wire::{
    BetweenParams, HandleList, KnownThing, LeavesParams, NodeCreateExternalParams,
    NodeCreateTextParams, NodeCreated, NodeGot, NodeList, NodeParams, Object, PathParams,
    TreeCreateParams, TreeGot, TreeList, TreeListParams, TreeParams, TreeRendered,
};
use serde_json::Value;

use crate::claudecode::{as_value, page};
use crate::handler::handler;

/// Trees and their nodes. The operator's: trees of sessions hold what children said, and a session
/// reads its own descendants through `claudecode`.
pub struct Arbor {
    store: Arc<dyn Store>,
}

fn shown_node(node: Node) -> plexus_wire::Node {
    plexus_wire::Node {
        id: node.id,
        tree_id: node.tree_id,
        parent: node.parent,
        data: node.data.into(),
        created_at: node.created_at.into(),
        metadata: node.metadata.into(),
    }
}

fn shown_tree(tree: Tree) -> plexus_wire::Tree {
    plexus_wire::Tree {
        id: tree.id,
        root: tree.root,
        created_at: tree.created_at.into(),
        metadata: tree.metadata.into(),
    }
}

impl Arbor {
    pub(crate) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(&engine.store) })
    }

    async fn made(&self, change: Change) -> Result<NodeCreated, CallError> {
        let committed = self.store.commit(vec![change], Priority::Normal).await?;
        match committed.outcomes.into_iter().next() {
            Some(Outcome::Node(Position { tree_id, node_id })) => {
                Ok(NodeCreated { tree_id, node_id })
            }
            _ => Err(CallError::internal("make a node: the store did not say which")),
        }
    }

    async fn tree_create(
        &self,
        _: Call,
        params: TreeCreateParams,
    ) -> Result<NodeCreated, CallError> {
        let metadata = JsonText::of(&params.metadata.unwrap_or_default())?;
        self.made(Change::CreateTree(CreateTree {
            id: TreeId::generate(),
            root: NodeId::generate(),
            metadata,
        }))
        .await
    }

    async fn tree_get(&self, _: Call, params: TreeParams) -> Result<TreeGot, CallError> {
        Ok(TreeGot { tree: shown_tree(self.store.tree(params.tree_id).await?) })
    }

    async fn tree_list(&self, _: Call, params: TreeListParams) -> Result<TreeList, CallError> {
        let found = self.store.trees(page(params.limit, params.cursor.as_deref())?).await?;
        Ok(TreeList {
            trees: found.items.into_iter().map(shown_tree).collect(),
            cursor: found.next.map(|next| next.to_string()),
        })
    }

    async fn tree_render(&self, _: Call, params: TreeParams) -> Result<TreeRendered, CallError> {
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
        Ok(TreeRendered { text: lines.join("\n") })
    }

    async fn append(
        &self,
        tree: TreeId,
        parent: NodeId,
        data: NodeData,
        metadata: Option<Object>,
    ) -> Result<NodeCreated, CallError> {
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

    async fn node_create_text(
        &self,
        _: Call,
        params: NodeCreateTextParams,
    ) -> Result<NodeCreated, CallError> {
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
        params: NodeCreateExternalParams,
    ) -> Result<NodeCreated, CallError> {
        self.append(
            params.tree_id,
            params.parent,
            NodeData::External { handle: params.handle },
            params.metadata,
        )
        .await
    }

    async fn node_get(&self, _: Call, params: NodeParams) -> Result<NodeGot, CallError> {
        Ok(NodeGot { node: Some(shown_node(self.store.node(params.node_id).await?)) })
    }

    async fn node_get_children(&self, _: Call, params: NodeParams) -> Result<NodeList, CallError> {
        let nodes = self.store.children(params.node_id).await?;
        Ok(NodeList { nodes: nodes.into_iter().map(shown_node).collect(), cursor: None })
    }

    async fn node_get_parent(&self, _: Call, params: NodeParams) -> Result<NodeGot, CallError> {
        let node = match self.store.node(params.node_id).await?.parent {
            Some(parent) => Some(shown_node(self.store.node(parent).await?)),
            None => None,
        };
        Ok(NodeGot { node })
    }

    async fn node_get_path(&self, _: Call, params: PathParams) -> Result<NodeList, CallError> {
        let limit = params.limit.unwrap_or_default().get();
        let nodes = self.store.path(params.node_id, limit).await?;
        Ok(NodeList { nodes: nodes.into_iter().map(shown_node).collect(), cursor: None })
    }

    async fn node_get_path_between(
        &self,
        _: Call,
        params: BetweenParams,
    ) -> Result<NodeList, CallError> {
        let nodes = self.store.path_between(params.from, params.to).await?;
        Ok(NodeList { nodes: nodes.into_iter().map(shown_node).collect(), cursor: None })
    }

    async fn context_list_leaves(
        &self,
        _: Call,
        params: LeavesParams,
    ) -> Result<NodeList, CallError> {
        let found = self
            .store
            .leaves(params.tree_id, page(params.limit, params.cursor.as_deref())?)
            .await?;
        Ok(NodeList {
            nodes: found.items.into_iter().map(shown_node).collect(),
            cursor: found.next.map(|next| next.to_string()),
        })
    }

    async fn context_get_handles(
        &self,
        _: Call,
        params: PathParams,
    ) -> Result<HandleList, CallError> {
        let limit = params.limit.unwrap_or_default().get();
        let nodes = self.store.path(params.node_id, limit).await?;
        let handles = nodes.into_iter().filter_map(|node| match node.data {
            NodeData::External { handle } => Some(handle),
            NodeData::Text { .. } | NodeData::Pruned {} => None,
        });
        Ok(HandleList { handles: handles.collect() })
    }
}

/// One node on one line.
fn label(node: &Node) -> String {
    const CHARS: usize = 72;
    match &node.data {
        NodeData::Text { content } if content.is_empty() => "(root)".to_owned(),
        NodeData::Pruned {} => "(pruned)".to_owned(),
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
            .serves::<wire::TreeCreate, _, _>(
                "Creates a tree with an empty root.",
                writes,
                with!(tree_create),
            )
            .serves::<wire::TreeGet, _, _>(
                "Shows a tree: its root and its metadata.",
                reads,
                with!(tree_get),
            )
            .serves::<wire::TreeList, _, _>("Lists trees, oldest first.", reads, with!(tree_list))
            .serves::<wire::TreeRender, _, _>(
                "Draws a tree as indented text.",
                reads,
                with!(tree_render),
            )
            .serves::<wire::NodeCreateText, _, _>(
                "Appends a text node.",
                writes,
                with!(node_create_text),
            )
            .serves::<wire::NodeCreateExternal, _, _>(
                "Appends a node that stands for something with a handle.",
                writes,
                with!(node_create_external),
            )
            .serves::<wire::NodeGet, _, _>("Shows a node.", reads, with!(node_get))
            .serves::<wire::NodeGetChildren, _, _>(
                "Lists the nodes right behind a node.",
                reads,
                with!(node_get_children),
            )
            .serves::<wire::NodeGetParent, _, _>(
                "Shows the node before a node; none for the root.",
                reads,
                with!(node_get_parent),
            )
            .serves::<wire::NodeGetPath, _, _>(
                "Lists the last nodes of the path from the root to a node.",
                reads,
                with!(node_get_path),
            )
            .serves::<wire::NodeGetPathBetween, _, _>(
                "Lists the path from a node to one below it.",
                reads,
                with!(node_get_path_between),
            )
            .serves::<wire::ContextListLeaves, _, _>(
                "Lists the ends of a tree's branches.",
                reads,
                with!(context_list_leaves),
            )
            .serves::<wire::ContextGetPath, _, _>(
                "Lists the path that leads to a leaf.",
                reads,
                with!(node_get_path),
            )
            .serves::<wire::ContextGetHandles, _, _>(
                "Lists the handles along the path to a node.",
                reads,
                with!(context_get_handles),
            )
    }

    fn handle_kinds(&self) -> &'static [HandleKind] {
        &[HandleKind { method: "node", meta: &["node_id"], description: "A node of a tree." }]
    }

    async fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<Value, CallError> {
        if *caller != Caller::Operator {
            return Err(CallError::forbidden("resolve a node: that is the operator's"));
        }
        let node = self.store.node(handle.part(0, "node_id")?).await?;
        as_value(&KnownThing::Node { node: shown_node(node) })
    }
}

//! `arbor`: trees of nodes. A session's tree is one of them, and a caller that may read the session
//! may read its tree. Everything else is the operator's.

mod render;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Audience, Call, CallError, Caller, Handle, HandleKind, HubContext,
    MethodDescriptor, MethodTable, NodeId, TreeId,
};
use plexus_engine::{Engine, handles};
use plexus_store::{
    AppendNode, Change, CreateTree, JsonText, Node, NodeData, Outcome, PageRequest, Position,
    Priority, SessionFilter, Store, StoreError, Thing, Tree,
};
use plexus_wire::method::arbor as wire;
use plexus_wire::{
    BetweenParams, HandleList, KnownThing, LeavesParams, NodeCreateExternalParams,
    NodeCreateTextParams, NodeCreated, NodeGot, NodeList, NodeParams, Object, PathParams,
    TreeCreateParams, TreeGot, TreeList, TreeListParams, TreeParams,
};
use serde_json::Value;

use crate::claudecode::{as_value, page};
use crate::handler::handler;

/// Trees and their nodes.
pub struct Arbor {
    store: Arc<dyn Store>,
    /// Where the owners of handles are found, for rendering.
    hub: OnceLock<HubContext>,
}

fn shown_node(node: Node) -> plexus_wire::Node {
    plexus_wire::Node {
        id: node.id,
        tree_id: node.tree_id,
        parent: node.parent,
        data: node.data.into(),
        created_at: node.created_at.into(),
        metadata: node.metadata.into(),
        handle: Some(handles::node(node.id)),
    }
}

fn shown_tree(tree: Tree) -> plexus_wire::Tree {
    plexus_wire::Tree {
        id: tree.id,
        root: tree.root,
        created_at: tree.created_at.into(),
        metadata: tree.metadata.into(),
        handle: Some(handles::tree(tree.id)),
    }
}

impl Arbor {
    pub(crate) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(&engine.store), hub: OnceLock::new() })
    }

    /// Says whether `caller` may read a tree: the operator all, a session those of the sessions
    /// below it.
    async fn may_read(&self, caller: &Caller, tree: TreeId) -> Result<bool, CallError> {
        match caller {
            Caller::Operator | Caller::Device(_) => Ok(true),
            Caller::Session(own) => {
                let filter = SessionFilter {
                    under: Some(*own),
                    tree: Some(tree),
                    ..SessionFilter::default()
                };
                let found = self.store.sessions(filter, PageRequest::first(1)).await?;
                Ok(!found.items.is_empty())
            }
            Caller::Child(_) => Ok(false),
        }
    }

    /// Returns a tree. For a caller that may not read it, it does not exist.
    async fn tree_for(&self, caller: &Caller, id: TreeId) -> Result<Tree, CallError> {
        let tree = self.store.tree(id).await?;
        if self.may_read(caller, id).await? {
            Ok(tree)
        } else {
            Err(StoreError::not_found(Thing::Tree, id).into())
        }
    }

    /// Returns a node. For a caller that may not read its tree, it does not exist.
    async fn node_for(&self, caller: &Caller, id: NodeId) -> Result<Node, CallError> {
        let node = self.store.node(id).await?;
        if self.may_read(caller, node.tree_id).await? {
            Ok(node)
        } else {
            Err(StoreError::not_found(Thing::Node, id).into())
        }
    }

    async fn made(&self, change: Change) -> Result<NodeCreated, CallError> {
        let committed = self.store.commit(vec![change], Priority::Normal).await?;
        match committed.outcomes.into_iter().next() {
            Some(Outcome::Node(Position { tree_id, node_id })) => {
                Ok(NodeCreated { tree_id, node_id })
            }
            _ => Err(CallError::internal("make a node: the store returned no node")),
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

    async fn tree_get(&self, call: Call, params: TreeParams) -> Result<TreeGot, CallError> {
        Ok(TreeGot { tree: shown_tree(self.tree_for(&call.caller, params.tree_id).await?) })
    }

    /// A page that is shorter than asked for may have a next one: trees that the caller may not
    /// read are left out of it.
    async fn tree_list(&self, call: Call, params: TreeListParams) -> Result<TreeList, CallError> {
        let found = self.store.trees(page(params.limit, params.cursor.as_deref())?).await?;
        let mut trees = Vec::new();
        for tree in found.items {
            if self.may_read(&call.caller, tree.id).await? {
                trees.push(shown_tree(tree));
            }
        }
        Ok(TreeList { trees, cursor: found.next.map(|next| next.to_string()) })
    }

    async fn append(
        &self,
        tree: TreeId,
        parent: Option<NodeId>,
        data: NodeData,
        metadata: Option<Object>,
    ) -> Result<NodeCreated, CallError> {
        let metadata = JsonText::of(&metadata.unwrap_or_default())?;
        let parent = match parent {
            Some(parent) => parent,
            None => self.store.tree(tree).await?.root,
        };
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

    async fn node_get(&self, call: Call, params: NodeParams) -> Result<NodeGot, CallError> {
        let node = self.node_for(&call.caller, params.node_id).await?;
        Ok(NodeGot { node: Some(shown_node(node)) })
    }

    async fn node_get_children(
        &self,
        call: Call,
        params: NodeParams,
    ) -> Result<NodeList, CallError> {
        self.node_for(&call.caller, params.node_id).await?;
        let nodes = self.store.children(params.node_id).await?;
        Ok(NodeList { nodes: nodes.into_iter().map(shown_node).collect(), cursor: None })
    }

    async fn node_get_parent(&self, call: Call, params: NodeParams) -> Result<NodeGot, CallError> {
        let node = match self.node_for(&call.caller, params.node_id).await?.parent {
            Some(parent) => Some(shown_node(self.store.node(parent).await?)),
            None => None,
        };
        Ok(NodeGot { node })
    }

    async fn node_get_path(&self, call: Call, params: PathParams) -> Result<NodeList, CallError> {
        self.node_for(&call.caller, params.node_id).await?;
        let limit = params.limit.unwrap_or_default().get();
        let nodes = self.store.path(params.node_id, limit).await?;
        Ok(NodeList { nodes: nodes.into_iter().map(shown_node).collect(), cursor: None })
    }

    async fn node_get_path_between(
        &self,
        call: Call,
        params: BetweenParams,
    ) -> Result<NodeList, CallError> {
        self.node_for(&call.caller, params.from).await?;
        self.node_for(&call.caller, params.to).await?;
        let nodes = self.store.path_between(params.from, params.to).await?;
        Ok(NodeList { nodes: nodes.into_iter().map(shown_node).collect(), cursor: None })
    }

    async fn context_list_leaves(
        &self,
        call: Call,
        params: LeavesParams,
    ) -> Result<NodeList, CallError> {
        self.tree_for(&call.caller, params.tree_id).await?;
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
        call: Call,
        params: PathParams,
    ) -> Result<HandleList, CallError> {
        self.node_for(&call.caller, params.node_id).await?;
        let limit = params.limit.unwrap_or_default().get();
        let nodes = self.store.path(params.node_id, limit).await?;
        let handles = nodes.into_iter().filter_map(|node| match node.data {
            NodeData::External { handle } => Some(handle),
            NodeData::Text { .. } | NodeData::Pruned {} => None,
        });
        Ok(HandleList { handles: handles.collect() })
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
        let reads: fn(&mut MethodDescriptor) = |d| d.hints.read_only = true;
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
            .serves::<wire::TreeList, _, _>(
                "Lists the trees that you may read, oldest first.",
                reads,
                with!(tree_list),
            )
            .serves::<wire::TreeRender, _, _>(
                "Draws a tree for a person or a model: prompts, and what was said and done, one \
                 line each.",
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
                "Lists the nodes right after a node.",
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
            .short_list(&[])
    }

    fn attach(&self, hub: HubContext) {
        if self.hub.set(hub).is_err() {
            tracing::warn!("arbor is registered twice; it renders by its first hub");
        }
    }

    fn handle_kinds(&self) -> &'static [HandleKind] {
        &[
            HandleKind { method: "node", meta: &["node_id"], description: "A node of a tree." },
            HandleKind { method: "tree", meta: &["tree_id"], description: "A tree." },
        ]
    }

    async fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<Value, CallError> {
        as_value(&match handle.method.as_str() {
            "node" => {
                let node = self.node_for(caller, handle.part(0, "node_id")?).await?;
                KnownThing::Node { node: shown_node(node) }
            }
            _ => {
                let tree = self.tree_for(caller, handle.part(0, "tree_id")?).await?;
                KnownThing::Tree { tree: shown_tree(tree) }
            }
        })
    }
}

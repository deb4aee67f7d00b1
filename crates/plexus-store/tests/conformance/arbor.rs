//! Trees.

use plexus_core::{NodeId, TreeId};
use plexus_store::{
    AppendNode, Change, CreateTree, JsonText, Node, NodeData, PageRequest, ReadLimit, Store,
    StoreError,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{chat, end, events, one, session, whole_chat};

async fn tree(store: &dyn Store) -> anyhow::Result<(TreeId, NodeId)> {
    let new = CreateTree {
        id: TreeId::generate(),
        root: NodeId::generate(),
        metadata: JsonText::from(json!({"t": 1})),
    };
    one(store, Change::CreateTree(new.clone())).await?;
    Ok((new.id, new.root))
}

async fn append(
    store: &dyn Store,
    tree: TreeId,
    parent: NodeId,
    content: &str,
) -> anyhow::Result<NodeId> {
    let id = NodeId::generate();
    let data = NodeData::Text { content: content.into() };
    one(
        store,
        Change::AppendNode(AppendNode {
            id,
            tree,
            parent,
            data,
            metadata: JsonText::from(json!({"n": content})),
        }),
    )
    .await?;
    Ok(id)
}

fn ids(nodes: &[Node]) -> Vec<NodeId> {
    nodes.iter().map(|node| node.id).collect()
}

pub(crate) async fn a_path_goes_from_the_root_to_the_node(store: &dyn Store) -> anyhow::Result<()> {
    let (t, root) = tree(store).await?;
    let a = append(store, t, root, "a").await?;
    let b = append(store, t, a, "b").await?;
    let c = append(store, t, b, "c").await?;
    // A branch in the middle, and one from that branch.
    let x = append(store, t, a, "x").await?;
    let y = append(store, t, x, "y").await?;
    let z = append(store, t, x, "z").await?;
    assert_eq!(ids(&store.path(c, 100).await?), vec![root, a, b, c]);
    assert_eq!(ids(&store.path(y, 100).await?), vec![root, a, x, y]);
    assert_eq!(ids(&store.path(z, 100).await?), vec![root, a, x, z]);
    assert_eq!(ids(&store.path(z, 2).await?), vec![x, z], "the last nodes");
    assert_eq!(ids(&store.path(z, 3).await?), vec![a, x, z]);
    assert_eq!(ids(&store.path(root, 1).await?), vec![root]);
    for path in [store.path(c, 100).await?, store.path(z, 100).await?, store.path(z, 2).await?] {
        for pair in path.windows(2) {
            assert_eq!(pair[1].parent, Some(pair[0].id));
        }
    }
    let node = store.node(y).await?;
    assert_eq!(
        (node.data, node.metadata.to_value()),
        (NodeData::Text { content: "y".into() }, json!({"n": "y"}))
    );
    assert_eq!(store.trees(PageRequest::default()).await?.items, vec![store.tree(t).await?]);
    Ok(())
}

pub(crate) async fn branches_are_children_and_leaves(store: &dyn Store) -> anyhow::Result<()> {
    let (t, root) = tree(store).await?;
    assert_eq!(ids(&store.leaves(t, PageRequest::default()).await?.items), vec![root]);
    let a = append(store, t, root, "a").await?;
    let b = append(store, t, root, "b").await?;
    let c = append(store, t, root, "c").await?;
    let b2 = append(store, t, b, "b2").await?;
    assert_eq!(ids(&store.children(root).await?), vec![a, b, c]);
    assert_eq!(ids(&store.children(b).await?), vec![b2]);
    assert_eq!(ids(&store.children(a).await?), vec![]);
    assert_eq!(ids(&store.leaves(t, PageRequest::default()).await?.items), vec![a, b2, c]);
    let (mut seen, mut page) = (Vec::new(), PageRequest::first(1));
    loop {
        let got = store.leaves(t, page).await?;
        seen.extend(ids(&got.items));
        match got.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, vec![a, b2, c]);
    Ok(())
}

pub(crate) async fn user_nodes_beside_an_open_chat_start_a_branch(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let it = store.chat(s, None).await?;
    let note = append(store, it.tree, it.head_node, "a note").await?;
    one(store, events(s, 0, &["goes on"])).await?;
    one(store, end(s, 0)).await?;
    let page = store.read_events(s, 0, 0, ReadLimit::events(10)).await?;
    assert_eq!(page.events.len(), 3);
    assert_eq!(ids(&store.children(it.head_node).await?), vec![page.events[1].node_id(), note]);
    assert_eq!(store.node(note).await?.parent, Some(it.head_node));
    // After the ended chat a note is an ordinary child, and the next chat then branches beside it.
    let head = store.session(s).await?.head;
    let after = append(store, it.tree, head, "behind").await?;
    whole_chat(store, s, &["more"]).await?;
    let next = store.chat(s, None).await?;
    assert_eq!(ids(&store.children(head).await?), vec![after, next.user_node]);
    let path = ids(&store.path(next.head_node, 100).await?);
    assert!(path.contains(&head) && !path.contains(&after) && !path.contains(&note), "{path:?}");
    // root, prompt, stream, three events; prompt, stream, three events.
    assert_eq!(path.len(), 6 + 5);
    Ok(())
}

pub(crate) async fn an_outline_lists_parents_before_children(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    whole_chat(store, s, &["a", "b"]).await?;
    let it = store.session(s).await?;
    append(store, it.tree, it.head, "end").await?;
    let first = store.read_events(s, 0, 0, ReadLimit::events(1)).await?.events[0].node_id();
    append(store, it.tree, first, "branch").await?;
    let outline = store.tree_outline(it.tree, 100).await?;
    assert_eq!(outline.len(), 9);
    for entry in &outline {
        let path = store.path(entry.node.id, 100).await?;
        assert_eq!(path.len() as u64, entry.depth + 1);
    }
    for (i, entry) in outline.iter().enumerate() {
        let parent = entry.node.parent;
        assert!(
            parent.is_none() || outline[..i].iter().any(|before| Some(before.node.id) == parent)
        );
    }
    assert_eq!(store.tree_outline(it.tree, 4).await?, outline[..4].to_vec());
    Ok(())
}

pub(crate) async fn a_path_between_needs_an_ancestor(store: &dyn Store) -> anyhow::Result<()> {
    let (t, root) = tree(store).await?;
    let a = append(store, t, root, "a").await?;
    let b = append(store, t, a, "b").await?;
    let x = append(store, t, a, "x").await?;
    let y = append(store, t, x, "y").await?;
    assert_eq!(ids(&store.path_between(a, y).await?), vec![a, x, y]);
    assert_eq!(ids(&store.path_between(y, y).await?), vec![y]);
    assert_eq!(ids(&store.path_between(root, b).await?), vec![root, a, b]);
    for (from, to) in [(b, y), (y, a), (x, b)] {
        assert_err!(store.path_between(from, to).await, StoreError::Invalid { .. });
    }
    let (_, elsewhere) = tree(store).await?;
    assert_err!(store.path_between(elsewhere, y).await, StoreError::Invalid { .. });
    Ok(())
}

//! Wrong input: a typed error names the fault, and the store is unchanged.

use plexus_core::{ApprovalId, EventId, NodeId, RuleId, SessionId, TreeId};
use plexus_store::{
    AppendEvents, AppendNode, Change, CreateSession, CreateTree, Cursor, Fork, JsonText, NewEvent,
    NodeData, ReadLimit, RunKey, SetCursor, StartChat, Store, StoreError, Thing, UpdateSession,
    limits,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{chat, events, one, question, session, text, whole_chat};

pub(crate) async fn unknown_ids_are_named(store: &dyn Store) -> anyhow::Result<()> {
    let nobody = SessionId::generate();
    let s = session(store, "s", None).await?;
    let named = |result: Result<(), StoreError>, thing: Thing, id: String| match result {
        Err(StoreError::NotFound { what, id: named }) if what == thing && named.contains(&id) => {}
        other => panic!("expected that {thing} {id} is not found, got {other:?}"),
    };
    let id = nobody.to_string();
    named(store.session(nobody).await.map(drop), Thing::Session, id.clone());
    named(
        store.read_from(Cursor::start(nobody), ReadLimit::events(1)).await.map(drop),
        Thing::Session,
        id.clone(),
    );
    named(one(store, events(nobody, 0, &["x"])).await.map(drop), Thing::Session, id.clone());
    named(
        one(store, Change::OpenApproval(question(nobody, "r", "ls"))).await.map(drop),
        Thing::Session,
        id.clone(),
    );
    named(
        one(store, Change::CreateSession(CreateSession::new("c", Some(nobody)))).await.map(drop),
        Thing::Session,
        id,
    );
    named(store.chat(s, Some(4)).await.map(drop), Thing::Chat, "4".into());
    named(one(store, events(s, 4, &["x"])).await.map(drop), Thing::Chat, "4".into());
    named(store.session_named(None, "who").await.map(drop), Thing::Session, "who".into());
    let node = NodeId::generate();
    named(store.node(node).await.map(drop), Thing::Node, node.to_string());
    named(store.path(node, 1).await.map(drop), Thing::Node, node.to_string());
    named(
        one(
            store,
            Change::UpdateSession(UpdateSession { head: Some(node), ..UpdateSession::of(s) }),
        )
        .await
        .map(drop),
        Thing::Node,
        node.to_string(),
    );
    let tree = TreeId::generate();
    named(store.tree(tree).await.map(drop), Thing::Tree, tree.to_string());
    let event = EventId::generate();
    named(store.event(event).await.map(drop), Thing::Event, event.to_string());
    let approval = ApprovalId::generate();
    named(store.approval(approval).await.map(drop), Thing::Approval, approval.to_string());
    named(
        one(store, Change::RetireApproval(approval)).await.map(drop),
        Thing::Approval,
        approval.to_string(),
    );
    let rule = RuleId::generate();
    named(store.rule(rule).await.map(drop), Thing::Rule, rule.to_string());
    let run = RunKey { session: s, n: 3 };
    named(store.run(run).await.map(drop), Thing::Run, run.to_string());
    Ok(())
}

pub(crate) async fn sizes_over_the_limits_are_refused(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let prompt = "x".repeat(limits::MAX_PROMPT_BYTES + 1);
    assert_err!(
        one(store, Change::StartChat(StartChat::new(s, prompt))).await,
        StoreError::Invalid { .. }
    );
    chat(store, s, "hi").await?;
    let long = text(&"x".repeat(limits::MAX_EVENT_BYTES));
    let append = |events| Change::AppendEvents(AppendEvents { session: s, chat: 0, events });
    assert_err!(one(store, append(vec![long])).await, StoreError::Invalid { .. });
    assert_err!(one(store, append(Vec::new())).await, StoreError::Invalid { .. });
    for name in ["", "a\nb", &"x".repeat(limits::MAX_NAME_BYTES + 1)] {
        assert_err!(
            one(store, Change::CreateSession(CreateSession::new(name, None))).await,
            StoreError::Invalid { .. }
        );
    }
    let too_many = vec![events(s, 0, &["x"]); limits::MAX_CHANGES + 1];
    assert_err!(
        store.commit(too_many, plexus_store::Priority::Normal).await,
        StoreError::Invalid { .. }
    );
    assert_eq!(store.chat(s, None).await?.total_events, 1, "nothing was stored");
    Ok(())
}

pub(crate) async fn metadata_that_is_no_object_is_refused(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let it = store.session(s).await?;
    for wrong in [json!([]), json!("x"), json!(null), json!(3)] {
        let wrong = JsonText::from(wrong);
        let new = CreateSession { metadata: wrong.clone(), ..CreateSession::new("t", None) };
        assert_err!(one(store, Change::CreateSession(new)).await, StoreError::Invalid { .. });
        let tree = CreateTree {
            id: TreeId::generate(),
            root: NodeId::generate(),
            metadata: wrong.clone(),
        };
        assert_err!(one(store, Change::CreateTree(tree)).await, StoreError::Invalid { .. });
        let node = AppendNode {
            id: NodeId::generate(),
            tree: it.tree,
            parent: it.head,
            data: NodeData::Text { content: "x".into() },
            metadata: wrong.clone(),
        };
        assert_err!(one(store, Change::AppendNode(node)).await, StoreError::Invalid { .. });
        chat(store, s, "hi").await.ok();
        let event = NewEvent { body: wrong, ..text("x") };
        let append = AppendEvents { session: s, chat: 0, events: vec![event] };
        assert_err!(one(store, Change::AppendEvents(append)).await, StoreError::Invalid { .. });
    }
    assert!(JsonText::parse("{not json").is_err());
    Ok(())
}

pub(crate) async fn foreign_cursors_are_refused(store: &dyn Store) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", None).await?;
    whole_chat(store, a, &["x"]).await?;
    let cursor = Cursor { session: a, chat: 0, next: 1 };
    for wrong in ["", "hello", "p12", &cursor.to_string()[..20]] {
        assert_err!(store.resolve_cursor(a, wrong).await, StoreError::Invalid { .. });
    }
    assert_err!(store.resolve_cursor(b, &cursor.to_string()).await, StoreError::Invalid { .. });
    assert_eq!(store.resolve_cursor(a, &cursor.to_string()).await?, cursor);
    let foreign =
        SetCursor { consumer: "c".into(), cursor: Cursor { session: b, chat: 0, next: 1 } };
    assert_err!(one(store, Change::SetCursor(foreign)).await, StoreError::Invalid { .. });
    Ok(())
}

pub(crate) async fn a_node_of_another_tree_is_no_parent(store: &dyn Store) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", None).await?;
    let (of_a, of_b) = (store.session(a).await?, store.session(b).await?);
    let node = AppendNode {
        id: NodeId::generate(),
        tree: of_a.tree,
        parent: of_b.head,
        data: NodeData::Text { content: "x".into() },
        metadata: JsonText::empty_object(),
    };
    assert_err!(one(store, Change::AppendNode(node)).await, StoreError::Invalid { .. });
    let update = UpdateSession { head: Some(of_b.head), ..UpdateSession::of(a) };
    assert_err!(one(store, Change::UpdateSession(update)).await, StoreError::Invalid { .. });
    let fork = CreateSession {
        fork: Some(Fork { of: a, at: Some(of_b.head) }),
        ..CreateSession::new("f", None)
    };
    assert_err!(one(store, Change::CreateSession(fork)).await, StoreError::Invalid { .. });
    assert_eq!(store.children(of_b.head).await?, vec![]);
    Ok(())
}

pub(crate) async fn an_id_used_twice_is_a_conflict(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let event = text("x");
    let append =
        || Change::AppendEvents(AppendEvents { session: s, chat: 0, events: vec![event.clone()] });
    one(store, append()).await?;
    assert_err!(one(store, append()).await, StoreError::Conflict { .. });
    let again = CreateSession { id: s, ..CreateSession::new("t", None) };
    assert_err!(one(store, Change::CreateSession(again)).await, StoreError::Conflict { .. });
    let root = store.session(s).await?.head;
    let tree = CreateTree { id: TreeId::generate(), root, metadata: JsonText::empty_object() };
    assert_err!(one(store, Change::CreateTree(tree)).await, StoreError::Conflict { .. });
    let open = question(s, "r1", "ls");
    one(store, Change::OpenApproval(open.clone())).await?;
    let twice = plexus_store::OpenApproval { request_id: "r2".into(), ..open };
    assert_err!(one(store, Change::OpenApproval(twice)).await, StoreError::Conflict { .. });
    assert_eq!(store.chat(s, None).await?.total_events, 2);
    Ok(())
}

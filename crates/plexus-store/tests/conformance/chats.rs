//! Chats and their streams.

use plexus_store::{
    Change, ChatStatus, EndChat, Ending, Fresh, JsonText, NodeData, Outcome, PageRequest,
    ReadLimit, StartChat, Store, StoreError, Trace, first_owner, stream_handle,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{chat, end, events, one, session, text, whole_chat};

pub(crate) async fn a_chat_starts_with_a_prompt_a_root_and_a_start_event(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let before = store.session(s).await?;
    let start = StartChat::new(s, "do it");
    let committed = one(store, Change::StartChat(start.clone())).await?;
    let started = committed.chat().expect("a chat");
    assert_eq!(
        (started.chat, started.fresh, started.prompt_uuid),
        (0, Fresh::Made, start.prompt_uuid)
    );
    let it = store.chat(s, None).await?;
    assert_eq!(
        (it.number, it.status, it.total_events, it.read_position),
        (0, ChatStatus::Running, 1, 0)
    );
    assert_eq!((it.tree, it.user_node), (before.tree, started.user_position.node_id));
    let user = store.node(it.user_node).await?;
    assert_eq!(
        (user.parent, user.data),
        (Some(before.head), NodeData::Text { content: "do it".into() })
    );
    let root = store.node(it.root_node).await?;
    assert_eq!(
        (root.parent, root.data),
        (Some(it.user_node), NodeData::External { handle: stream_handle(first_owner(), s, 0) })
    );
    let page = store.read_events(s, 0, 0, ReadLimit::events(10)).await?;
    let [event] = &page.events[..] else { panic!("one event: {page:?}") };
    assert_eq!((event.seq, event.event_type.as_str(), event.id), (0, "start", started.start_event));
    let position = json!({ "tree_id": before.tree, "node_id": it.user_node });
    assert_eq!(
        event.body.to_value(),
        json!({ "type": "start", "id": s, "user_position": position })
    );
    assert_eq!(store.node(event.node_id()).await?.parent, Some(it.root_node));
    assert_eq!(it.head_node, event.node_id());
    Ok(())
}

pub(crate) async fn a_second_chat_is_refused_while_one_is_open(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "one").await?;
    let Err(StoreError::Conflict { standing, .. }) =
        one(store, Change::StartChat(StartChat::new(s, "two"))).await
    else {
        panic!("two chats at once");
    };
    assert_eq!(standing["number"], json!(0));
    one(store, end(s, 0)).await?;
    assert_eq!(chat(store, s, "two").await?, 1);
    Ok(())
}

pub(crate) async fn the_same_key_finds_the_same_chat(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let keyed = || StartChat { idempotency_key: Some("k".into()), ..StartChat::new(s, "once") };
    let first = one(store, Change::StartChat(keyed())).await?.chat().expect("a chat");
    let again = one(store, Change::StartChat(keyed())).await?.chat().expect("a chat");
    assert_eq!(again, plexus_store::StartedChat { fresh: Fresh::Found, ..first });
    one(store, end(s, 0)).await?;
    let after_its_end = one(store, Change::StartChat(keyed())).await?.chat().expect("a chat");
    assert_eq!(after_its_end, again);
    assert_eq!(store.chat_by_key(s, "k").await?.map(|chat| chat.number), Some(0));
    assert_eq!(store.chat_by_key(s, "other").await?, None);
    assert_eq!(store.chat(s, Some(0)).await?.total_events, 2, "asking again appended nothing");
    Ok(())
}

pub(crate) async fn a_chat_ends_once_and_takes_the_head_along(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let last = text("bye");
    let usage = JsonText::from(json!({"output_tokens": 5}));
    let ending = EndChat {
        session: s,
        chat: 0,
        ending: Ending::Failed("it broke".into()),
        usage: Some(usage.clone()),
        event: last.clone(),
    };
    let committed = one(store, Change::EndChat(ending.clone())).await?;
    assert_eq!(committed.outcomes, vec![Outcome::Events { first_seq: 1, count: 1 }]);
    let it = store.chat(s, Some(0)).await?;
    assert_eq!(
        (it.status, it.error.as_deref(), it.usage),
        (ChatStatus::Failed, Some("it broke"), Some(usage))
    );
    assert_eq!((it.head_node, it.ended_at), (last.node_id(), Some(last.timestamp)));
    assert_eq!(store.session(s).await?.head, last.node_id());
    let Err(StoreError::Conflict { standing, .. }) =
        one(store, Change::EndChat(EndChat { event: text("x"), ..ending })).await
    else {
        panic!("ended twice");
    };
    assert_eq!(standing["status"], json!("failed"));
    assert_err!(one(store, events(s, 0, &["late"])).await, StoreError::Conflict { .. });
    chat(store, s, "next").await?;
    let next = store.chat(s, None).await?;
    assert_eq!(
        store.node(next.user_node).await?.parent,
        Some(last.node_id()),
        "the next chat continues after it"
    );
    Ok(())
}

pub(crate) async fn an_ephemeral_chat_leaves_the_head_where_it_was(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    whole_chat(store, s, &[]).await?;
    let head = store.session(s).await?.head;
    one(
        store,
        Change::StartChat(StartChat { trace: Trace::Ephemeral, ..StartChat::new(s, "aside") }),
    )
    .await?;
    one(store, end(s, 1)).await?;
    assert_eq!(store.session(s).await?.head, head);
    assert_eq!(store.chat(s, Some(1)).await?.trace, Trace::Ephemeral);
    chat(store, s, "on").await?;
    let on = store.chat(s, None).await?;
    assert_eq!(store.node(on.user_node).await?.parent, Some(head));
    assert_eq!(store.children(head).await?.len(), 2, "both chats hang from the same node");
    Ok(())
}

pub(crate) async fn streams_are_listed_in_pages(store: &dyn Store) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    for _ in 0..3 {
        whole_chat(store, a, &[]).await?;
        whole_chat(store, b, &[]).await?;
    }
    for (of, under, expected) in [
        (Some(a), None, vec![(a, 0), (a, 1), (a, 2)]),
        (None, Some(a), vec![(b, 0), (b, 1), (b, 2)]),
        (None, None, vec![(a, 0), (b, 0), (a, 1), (b, 1), (a, 2), (b, 2)]),
    ] {
        let (mut seen, mut page) = (Vec::new(), PageRequest::first(2));
        loop {
            let got = store.chats(of, under, page).await?;
            seen.extend(got.items.into_iter().map(|chat| (chat.session, chat.number)));
            match got.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, expected);
    }
    Ok(())
}

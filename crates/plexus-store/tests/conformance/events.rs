//! Events: order, cursors, consumers, the feed.

use plexus_store::{
    AppendEvents, Change, ChatStatus, Cursor, Event, JsonText, NewEvent, NodeData, Outcome,
    Priority, ReadLimit, SetCursor, SetReadPosition, Store, StoreError, Thing,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{chat, end, events, one, session, text, whole_chat};

fn seqs(events: &[Event]) -> Vec<(u32, u32)> {
    events.iter().map(|event| (event.chat, event.seq)).collect()
}

pub(crate) async fn seq_has_no_gap_and_no_repeat(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let committed = one(store, events(s, 0, &["a", "b"])).await?;
    assert_eq!(committed.outcomes, vec![Outcome::Events { first_seq: 1, count: 2 }]);
    // A refused list leaves no gap.
    assert!(
        store
            .commit(vec![events(s, 0, &["lost"]), events(s, 9, &["x"])], Priority::Normal)
            .await
            .is_err()
    );
    let two =
        store.commit(vec![events(s, 0, &["c"]), events(s, 0, &["d"])], Priority::Urgent).await?;
    assert_eq!(
        two.outcomes,
        vec![
            Outcome::Events { first_seq: 3, count: 1 },
            Outcome::Events { first_seq: 4, count: 1 }
        ]
    );
    let page = store.read_events(s, 0, 0, ReadLimit::events(100)).await?;
    assert_eq!(seqs(&page.events), (0..5).map(|seq| (0, seq)).collect::<Vec<_>>());
    let texts: Vec<_> =
        page.events[1..].iter().map(|event| event.body.to_value()["text"].clone()).collect();
    assert_eq!(texts, vec!["a", "b", "c", "d"]);
    assert_eq!(
        (page.total_events, page.has_more, page.status),
        (5, false, Some(ChatStatus::Running))
    );
    Ok(())
}

pub(crate) async fn replay_from_any_seq_moves_nobody(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    one(store, events(s, 0, &["a", "b", "c"])).await?;
    let before = store.chat(s, None).await?;
    for from in 0..4 {
        let page = store.read_events(s, 0, from, ReadLimit::events(2)).await?;
        let expected: Vec<_> = (from..4).take(2).map(|seq| (0, seq)).collect();
        assert_eq!(seqs(&page.events), expected);
        assert_eq!(page.has_more, from < 2);
    }
    let behind = store.read_events(s, 0, 99, ReadLimit::events(2)).await?;
    assert_eq!((behind.events.len(), behind.has_more, behind.total_events), (0, false, 4));
    assert_eq!(store.chat(s, None).await?, before);
    Ok(())
}

pub(crate) async fn a_cursor_goes_on_through_all_chats(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let empty = store.read_from(Cursor::start(s), ReadLimit::events(10)).await?;
    assert_eq!((empty.events.len(), empty.next, empty.has_more), (0, Cursor::start(s), false));
    whole_chat(store, s, &["a"]).await?;
    whole_chat(store, s, &["b", "c"]).await?;
    chat(store, s, "third").await?;
    let everything: Vec<_> = [(0, 3), (1, 4), (2, 1)]
        .iter()
        .flat_map(|(chat, n)| (0..*n).map(|seq| (*chat, seq)))
        .collect();
    for limit in [1, 2, 3, 7, 100] {
        let (mut cursor, mut seen) = (Cursor::start(s), Vec::new());
        loop {
            let page = store.read_from(cursor, ReadLimit::events(limit)).await?;
            assert!(page.events.len() <= limit);
            seen.extend(seqs(&page.events));
            cursor = page.next.to_string().parse()?;
            if !page.has_more {
                break;
            }
        }
        assert_eq!(seen, everything, "pages of {limit}");
        // At the end there is nothing to read.
        assert_eq!(store.read_from(cursor, ReadLimit::events(limit)).await?.events, vec![]);
    }
    Ok(())
}

pub(crate) async fn a_page_ends_at_its_bytes(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let large = "x".repeat(3_000);
    one(store, events(s, 0, &[&large, &large, &large, "small"])).await?;
    let small_page = ReadLimit { events: 100, bytes: 7_000 };
    let page = store.read_events(s, 0, 1, small_page).await?;
    assert_eq!((seqs(&page.events), page.has_more), (vec![(0, 1), (0, 2)], true));
    let alone = store.read_events(s, 0, 1, ReadLimit { events: 100, bytes: 10 }).await?;
    assert_eq!(seqs(&alone.events), vec![(0, 1)], "a first event larger than the page comes alone");
    let rest = store.read_from(page.next, small_page).await?;
    assert_eq!((seqs(&rest.events), rest.has_more), (vec![(0, 3), (0, 4)], false));
    Ok(())
}

pub(crate) async fn consumers_are_durable_and_apart(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    whole_chat(store, s, &["a", "b"]).await?;
    let set = |name: &str, next| {
        Change::SetCursor(SetCursor {
            consumer: name.into(),
            cursor: Cursor { session: s, chat: 0, next },
        })
    };
    assert_eq!(store.consumer(s, "x").await?, None);
    one(store, set("x", 2)).await?;
    one(store, set("y", 0)).await?;
    one(store, set("x", 4)).await?;
    let names: Vec<_> =
        store.consumers(s).await?.into_iter().map(|it| (it.name, it.cursor.next)).collect();
    assert_eq!(names, vec![("x".to_owned(), 4), ("y".to_owned(), 0)]);
    assert_err!(one(store, set("x", 5)).await, StoreError::Invalid { .. });
    let far = SetCursor { consumer: "x".into(), cursor: Cursor { session: s, chat: 1, next: 0 } };
    assert_err!(one(store, Change::SetCursor(far)).await, StoreError::Invalid { .. });
    let delete = || Change::DeleteCursor { session: s, consumer: "y".into() };
    one(store, delete()).await?;
    assert_err!(one(store, delete()).await, StoreError::NotFound { what: Thing::Consumer, .. });
    assert_eq!(store.consumers(s).await?.len(), 1);
    Ok(())
}

pub(crate) async fn the_default_position_only_moves_forward(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    whole_chat(store, s, &["a"]).await?;
    let to = |next| Change::SetReadPosition(SetReadPosition { session: s, chat: 0, next });
    for (next, stands) in [(2, 2), (1, 2), (3, 3)] {
        one(store, to(next)).await?;
        assert_eq!(store.chat(s, None).await?.read_position, stands);
    }
    assert_err!(one(store, to(4)).await, StoreError::Invalid { .. });
    chat(store, s, "next").await?;
    assert_eq!(store.chat(s, None).await?.read_position, 0, "a new chat starts again at 0");
    Ok(())
}

pub(crate) async fn the_feed_has_all_events_in_commit_order(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", None).await?;
    chat(store, a, "hi").await?;
    chat(store, b, "hi").await?;
    let both = store
        .commit(vec![events(b, 0, &["1", "2"]), events(a, 0, &["3"])], Priority::Normal)
        .await?;
    one(store, events(b, 0, &["4"])).await?;
    one(store, end(a, 0)).await?;
    let whole = store.read_commits(0, ReadLimit::events(100)).await?;
    assert_eq!((whole.events.len(), whole.has_more), (7, false));
    assert!(whole.events.is_sorted_by_key(|it| it.commit));
    assert_eq!(whole.events.iter().filter(|it| it.commit == both.commit).count(), 3);
    assert_eq!(whole.after, store.newest_commit().await?);
    for limit in [1, 2, 4] {
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let page = store.read_commits(after, ReadLimit::events(limit)).await?;
            seen.extend(page.events);
            after = page.after;
            if !page.has_more {
                break;
            }
        }
        assert_eq!(seen, whole.events, "pages of {limit}");
    }
    let later = store.read_commits(both.commit, ReadLimit::events(100)).await?;
    assert_eq!(later.events, whole.events[5..].to_vec());
    Ok(())
}

pub(crate) async fn a_node_id_is_a_cursor_after_its_event(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let other = session(store, "other", None).await?;
    whole_chat(store, s, &["a", "b"]).await?;
    let page = store.read_events(s, 0, 0, ReadLimit::events(2)).await?;
    let event = &page.events[1];
    let cursor = store.resolve_cursor(s, &event.node_id().to_string()).await?;
    assert_eq!(cursor, event.cursor_after());
    assert_eq!(store.resolve_cursor(s, &page.next.to_string()).await?, page.next);
    assert_err!(
        store.resolve_cursor(other, &event.node_id().to_string()).await,
        StoreError::NotFound { what: Thing::Event, .. }
    );
    let root = store.chat(s, None).await?.root_node;
    assert_err!(
        store.resolve_cursor(s, &root.to_string()).await,
        StoreError::NotFound { what: Thing::Event, .. }
    );
    Ok(())
}

pub(crate) async fn every_event_is_a_node_with_its_handle(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let mut list = vec![text("a"), text("b")];
    list.push(NewEvent::now(
        "tool_use",
        JsonText::from(json!({ "type": "tool_use", "input": {"a:b": "%"} })),
    ));
    one(store, Change::AppendEvents(AppendEvents { session: s, chat: 0, events: list.clone() }))
        .await?;
    let page = store.read_events(s, 0, 0, ReadLimit::events(10)).await?;
    let mut parent = store.chat(s, None).await?.root_node;
    for event in &page.events {
        let node = store.node(event.node_id()).await?;
        assert_eq!((node.parent, node.created_at), (Some(parent), event.timestamp));
        let NodeData::External { handle } = node.data else {
            panic!("an event's node is a handle")
        };
        assert_eq!(handle, event.handle());
        assert_eq!(handle.plugin_id, plexus_store::first_owner());
        assert_eq!(handle.meta, vec![event.id.to_string(), event.event_type.clone()]);
        assert_eq!(store.event(event.id).await?, *event, "what is resolved equals what is polled");
        parent = node.id;
    }
    assert_eq!(page.events[3].body, list[2].body);
    Ok(())
}

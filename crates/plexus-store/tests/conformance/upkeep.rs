//! Transactions as a whole, and upkeep.

use plexus_store::limits::MAX_PROMPT_BYTES;
use plexus_store::{
    Change, Children, CreateSession, DeleteSession, Fate, NodeData, Priority, PromptImage, Prompts,
    Pruned, ReadLimit, SettleApproval, StartChat, Store, StoreError, UnixMillis, Verdict,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{allow, ask, chat, decision, end, events, one, run, session, whole_chat};

pub(crate) async fn a_list_is_written_whole_or_not_at_all(store: &dyn Store) -> anyhow::Result<()> {
    let new = CreateSession::new("s", None);
    let s = new.id;
    let before = store.newest_commit().await?;
    // Changes see those before them; the last one fails.
    let list = |last| {
        vec![
            Change::CreateSession(new.clone()),
            Change::StartChat(StartChat::new(s, "hi")),
            events(s, 0, &["a"]),
            Change::EndChat(match end(s, last) {
                Change::EndChat(end) => end,
                _ => unreachable!(),
            }),
        ]
    };
    assert_err!(store.commit(list(3), Priority::Normal).await, StoreError::NotFound { .. });
    assert_err!(store.session(s).await, StoreError::NotFound { .. });
    assert_eq!(store.newest_commit().await?, before, "a refused list has no number");
    assert_eq!(store.read_commits(0, ReadLimit::events(10)).await?.events, vec![]);
    let committed = store.commit(list(0), Priority::Normal).await?;
    assert_eq!((committed.outcomes.len(), store.chat(s, None).await?.total_events), (4, 3));
    assert_err!(store.commit(Vec::new(), Priority::Normal).await, StoreError::Invalid { .. });
    Ok(())
}

pub(crate) async fn commits_are_numbered_upwards(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let before = store.newest_commit().await?;
    let writes = (0..50).map(|n| {
        let list =
            if n % 5 == 4 { vec![events(s, 9, &["refused"])] } else { vec![events(s, 0, &["x"])] };
        store.commit(list, if n % 3 == 0 { Priority::Urgent } else { Priority::Normal })
    });
    let mut numbers: Vec<_> =
        futures::future::join_all(writes).await.into_iter().flatten().map(|it| it.commit).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (before + 1..=before + 40).collect::<Vec<_>>());
    assert_eq!(store.newest_commit().await?, before + 40);
    assert_eq!(store.chat(s, None).await?.total_events, 41);
    Ok(())
}

pub(crate) async fn pruning_keeps_numbers_and_trees(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    whole_chat(store, s, &["old", "news"]).await?;
    chat(store, s, "still open").await?;
    let settled = ask(store, s, "settled").await?;
    let unsettled = ask(store, s, "unsettled").await?;
    for id in [settled, unsettled] {
        one(store, Change::DecideApproval(decision(id, Verdict::Deny))).await?;
    }
    one(
        store,
        Change::SettleApproval(SettleApproval {
            id: settled,
            fate: Fate::Delivered,
            at: UnixMillis::now(),
        }),
    )
    .await?;
    let before = store.read_events(s, 0, 0, ReadLimit::events(10)).await?;
    let path = store.path(store.session(s).await?.head, 100).await?;
    assert_eq!(store.prune(UnixMillis(0), Prompts::Remove).await?, Pruned::default());
    let future = UnixMillis(UnixMillis::now().0 + 1_000_000);
    let pruned = store.prune(future, Prompts::Keep).await?;
    assert_eq!(pruned, Pruned { approvals: 1, chats: 1, events: 4, ..Pruned::default() });
    assert_eq!(store.prune(future, Prompts::Keep).await?, Pruned::default(), "once is enough");
    let after = store.read_events(s, 0, 0, ReadLimit::events(10)).await?;
    assert_eq!((after.next, after.total_events), (before.next, before.total_events));
    for (old, new) in before.events.iter().zip(&after.events) {
        assert_eq!((old.seq, old.id, &old.event_type), (new.seq, new.id, &new.event_type));
        assert_eq!(new.body.to_value(), json!({ "type": "pruned", "was": old.event_type }));
    }
    let it = store.chat(s, Some(0)).await?;
    assert!(it.pruned && !store.chat(s, Some(1)).await?.pruned);
    let prompt = store.node(it.user_node).await?.data;
    assert!(
        matches!(&prompt, NodeData::Text { content } if !content.is_empty()),
        "nobody asked to remove prompts: {prompt:?}"
    );
    let prompts = store.prune(future, Prompts::Remove).await?;
    assert_eq!(prompts, Pruned { prompts: 1, ..Pruned::default() });
    assert_eq!(store.prune(future, Prompts::Remove).await?, Pruned::default(), "once is enough");
    assert_eq!(store.node(it.user_node).await?.data, NodeData::Pruned {});
    let root = store.tree(it.tree).await?.root;
    assert_eq!(store.node(root).await?.data, NodeData::Text { content: String::new() });
    let ids = |nodes: &[plexus_store::Node]| nodes.iter().map(|node| node.id).collect::<Vec<_>>();
    assert_eq!(ids(&store.path(store.session(s).await?.head, 100).await?), ids(&path));
    assert_err!(store.approval(settled).await, StoreError::NotFound { .. });
    store.approval(unsettled).await?;
    Ok(())
}

pub(crate) async fn images_go_with_the_prompt_that_has_them(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let image = |data: &str| PromptImage::new("image/png", data);
    let images = vec![image("AAAA"), image("BBBB")];
    let start = StartChat { images: images.clone(), ..StartChat::new(s, "see") };
    one(store, Change::StartChat(start)).await?;
    assert_eq!(store.chat_images(s, 0).await?, images);
    one(store, end(s, 0)).await?;
    one(store, Change::StartChat(StartChat::new(s, "none"))).await?;
    assert_eq!(store.chat_images(s, 1).await?, []);
    let future = UnixMillis(UnixMillis::now().0 + 1_000_000);
    store.prune(future, Prompts::Keep).await?;
    assert_eq!(store.chat_images(s, 0).await?, images);
    store.prune(future, Prompts::Remove).await?;
    assert_eq!(store.chat_images(s, 0).await?, []);
    one(store, end(s, 1)).await?;
    let again = StartChat { images, ..StartChat::new(s, "again") };
    one(store, Change::StartChat(again)).await?;
    one(store, end(s, 2)).await?;
    let delete = DeleteSession { id: s, children: Children::Refuse };
    one(store, Change::DeleteSession(delete)).await?;
    let whole = "A".repeat(MAX_PROMPT_BYTES);
    let long = StartChat { images: vec![image(&whole)], ..StartChat::new(s, "too long") };
    assert_err!(one(store, Change::StartChat(long)).await, StoreError::Invalid { .. });
    Ok(())
}

pub(crate) async fn counts_add_up(store: &dyn Store) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", None).await?;
    whole_chat(store, a, &["x"]).await?;
    chat(store, b, "hi").await?;
    run(store, b).await?;
    ask(store, b, "r1").await?;
    let allowed = ask(store, b, "r2").await?;
    one(store, Change::DecideApproval(decision(allowed, allow()))).await?;
    let counts = store.counts().await?;
    assert_eq!(
        (counts.sessions, counts.chats_running, counts.chats_complete, counts.chats_failed),
        (2, 1, 1, 0)
    );
    assert_eq!(
        (counts.events, counts.approvals_pending, counts.approvals_allowed, counts.runs_open),
        (4, 1, 1, 1)
    );
    assert_eq!(counts.commits, store.newest_commit().await?);
    Ok(())
}

pub(crate) async fn a_closed_store_says_so(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    assert_eq!(store.integrity().await?, Vec::<String>::new());
    store.close().await?;
    assert_err!(one(store, Change::StartChat(StartChat::new(s, "hi"))).await, StoreError::Closed);
    assert_err!(store.session(s).await, StoreError::Closed);
    store.close().await?;
    Ok(())
}

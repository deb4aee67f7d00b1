//! Sessions.

use plexus_core::SessionId;
use plexus_store::{
    Change, Children, CreateSession, DeleteSession, Ending, Fork, JsonText, NodeData, Outcome,
    PageRequest, Patch, Priority, Room, SessionFilter, SessionStatus, Store, StoreError, Thing,
    UpdateSession,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{self, allow, ask, chat, decision, end, one, session, whole_chat};

pub(crate) async fn a_session_is_created_with_a_tree_of_its_own(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let new = CreateSession {
        config: JsonText::from(json!({"model": "m"})),
        metadata: JsonText::from(json!({"ticket": 7})),
        ..CreateSession::new("worker", None)
    };
    let committed = one(store, Change::CreateSession(new.clone())).await?;
    let it = store.session(new.id).await?;
    assert_eq!(committed.outcomes, vec![Outcome::Session { id: new.id, head: it.position() }]);
    assert_eq!(
        (it.name.as_str(), it.parent, it.forked_from, it.claude_session_id.clone()),
        ("worker", None, None, None)
    );
    assert_eq!((it.config.clone(), it.metadata.clone()), (new.config, new.metadata));
    assert_eq!(
        (it.status(), it.newest_chat, it.next_run, it.revision),
        (SessionStatus::Idle, None, 0, 0)
    );
    assert_eq!(it.changed, committed.commit);
    let root = store.node(it.head).await?;
    assert_eq!(
        (root.tree_id, root.parent, root.data),
        (it.tree, None, NodeData::Text { content: String::new() })
    );
    assert_eq!(store.tree(it.tree).await?.root, it.head);
    assert_eq!(store.session_named(None, "worker").await?, it);
    Ok(())
}

pub(crate) async fn a_name_is_unique_under_its_parent_and_free_after_deletion(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let child = session(store, "a", Some(a)).await?;
    let Err(StoreError::Conflict { standing, .. }) =
        one(store, Change::CreateSession(CreateSession::new("a", Some(a)))).await
    else {
        panic!("the name was given twice");
    };
    assert_eq!(standing, json!(child), "the holder is named");
    assert_eq!(store.session_named(Some(a), "a").await?.id, child);
    one(store, Change::DeleteSession(DeleteSession { id: child, children: Children::Refuse }))
        .await?;
    let again = session(store, "a", Some(a)).await?;
    assert_eq!(store.session_named(Some(a), "a").await?.id, again);
    Ok(())
}

pub(crate) async fn ancestors_and_descendants_go_through_all_levels(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let c = session(store, "c", Some(b)).await?;
    let d = session(store, "d", Some(a)).await?;
    session(store, "e", None).await?;
    assert_eq!(store.ancestors(c).await?, vec![b, a]);
    assert_eq!(store.ancestors(a).await?, Vec::<SessionId>::new());
    assert_eq!(store.descendants(a).await?, vec![b, d, c]);
    assert_eq!(store.descendants(c).await?, Vec::<SessionId>::new());
    Ok(())
}

pub(crate) async fn the_status_follows_from_the_facts(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let status = async || Ok::<_, StoreError>(store.session(s).await?.status());
    assert_eq!(status().await?, SessionStatus::Idle);
    let number = chat(store, s, "hi").await?;
    assert_eq!(status().await?, SessionStatus::Running);
    let approval = ask(store, s, "r1").await?;
    assert_eq!(status().await?, SessionStatus::AwaitingPermission);
    assert_eq!(store.session(s).await?.pending_approvals, 1);
    one(store, Change::DecideApproval(decision(approval, allow()))).await?;
    assert_eq!(status().await?, SessionStatus::Running);
    ask(store, s, "r2").await?;
    one(store, end(s, number)).await?;
    assert_eq!(status().await?, SessionStatus::Complete, "ended comes before awaiting");
    for (ending, expected) in [
        (Ending::Failed("broke".into()), SessionStatus::Failed),
        (Ending::Cancelled("enough".into()), SessionStatus::Cancelled),
    ] {
        let number = chat(store, s, "again").await?;
        let Change::EndChat(mut end) = end(s, number) else { unreachable!() };
        end.ending = ending;
        one(store, Change::EndChat(end)).await?;
        assert_eq!(status().await?, expected);
    }
    Ok(())
}

pub(crate) async fn lists_filter_and_page(store: &dyn Store) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let c = session(store, "c", Some(b)).await?;
    let d = session(store, "d", Some(a)).await?;
    chat(store, c, "hi").await?;
    whole_chat(store, d, &[]).await?;
    ask(store, c, "r").await?;
    let ids = async |filter: SessionFilter| {
        let page = store.sessions(filter, PageRequest::default()).await?;
        assert_eq!(page.next, None);
        Ok::<_, StoreError>(page.items.into_iter().map(|it| it.id).collect::<Vec<_>>())
    };
    let all = SessionFilter::default;
    assert_eq!(ids(all()).await?, vec![a, b, c, d]);
    assert_eq!(ids(SessionFilter { parent: Some(None), ..all() }).await?, vec![a]);
    assert_eq!(ids(SessionFilter { parent: Some(Some(a)), ..all() }).await?, vec![b, d]);
    assert_eq!(ids(SessionFilter { under: Some(a), ..all() }).await?, vec![b, c, d]);
    assert_eq!(
        ids(SessionFilter { under: Some(a), name: Some("c".into()), ..all() }).await?,
        vec![c]
    );
    assert_eq!(
        ids(SessionFilter { status: Some(SessionStatus::Idle), ..all() }).await?,
        vec![a, b]
    );
    assert_eq!(
        ids(SessionFilter { status: Some(SessionStatus::AwaitingPermission), ..all() }).await?,
        vec![c]
    );
    assert_eq!(
        ids(SessionFilter { status: Some(SessionStatus::Complete), ..all() }).await?,
        vec![d]
    );
    assert_eq!(ids(SessionFilter { status: Some(SessionStatus::Running), ..all() }).await?, vec![]);

    let (mut seen, mut page) = (Vec::new(), PageRequest::first(3));
    loop {
        let got = store.sessions(SessionFilter::default(), page).await?;
        assert!(got.items.len() <= 3);
        seen.extend(got.items.into_iter().map(|it| it.id));
        match got.next {
            // The token is passed as text.
            Some(next) => page.after = Some(next.to_string().parse()?),
            None => break,
        }
    }
    assert_eq!(seen, vec![a, b, c, d]);
    Ok(())
}

pub(crate) async fn an_update_names_the_revision_it_expects(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let update = UpdateSession {
        expects_revision: Some(0),
        state: Some(JsonText::from(json!({"mode": "ask"}))),
        claude_session_id: Patch::Set("cli-1".into()),
        ..UpdateSession::of(s)
    };
    one(store, Change::UpdateSession(update.clone())).await?;
    assert_err!(one(store, Change::UpdateSession(update)).await, StoreError::Conflict { .. });
    let it = store.session(s).await?;
    assert_eq!(
        (it.revision, it.claude_session_id.as_deref(), it.state.as_str()),
        (1, Some("cli-1"), r#"{"mode":"ask"}"#)
    );
    one(
        store,
        Change::UpdateSession(UpdateSession {
            claude_session_id: Patch::Clear,
            ..UpdateSession::of(s)
        }),
    )
    .await?;
    let it = store.session(s).await?;
    assert_eq!(
        (it.revision, it.claude_session_id.as_deref(), it.state.as_str()),
        (2, None, r#"{"mode":"ask"}"#)
    );
    Ok(())
}

pub(crate) async fn a_session_is_renamed_unless_the_name_is_taken(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", None).await?;
    let below = session(store, "below", Some(b)).await?;
    let named = |id, name: &str| {
        Change::UpdateSession(UpdateSession { name: Some(name.into()), ..UpdateSession::of(id) })
    };
    let Err(StoreError::Conflict { standing, .. }) = one(store, named(b, "a")).await else {
        panic!("the name was given twice");
    };
    assert_eq!(standing, json!(a), "the holder is named");
    // Names are unique under one parent, and its own name is free for a session.
    one(store, named(below, "a")).await?;
    one(store, named(a, "a")).await?;
    one(store, named(b, "c")).await?;
    assert_eq!(store.session_named(None, "c").await?.id, b);
    assert_err!(store.session_named(None, "b").await, StoreError::NotFound { .. });
    assert_eq!(store.session_named(Some(b), "a").await?.id, below);
    for bad in ["", "bell\u{7}", &"x".repeat(257)] {
        assert_err!(one(store, named(a, bad)).await, StoreError::Invalid { .. });
    }
    Ok(())
}

pub(crate) async fn deleting_takes_everything_along_and_refuses_children(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let other = session(store, "other", None).await?;
    whole_chat(store, b, &["x"]).await?;
    whole_chat(store, other, &["kept"]).await?;
    let approval = ask(store, b, "r").await?;
    let run = fixture::run(store, b).await?;
    let event =
        store.read_events(b, 0, 1, plexus_store::ReadLimit::events(1)).await?.events[0].clone();
    let tree = store.session(b).await?.tree;

    let delete = |children| Change::DeleteSession(DeleteSession { id: a, children });
    assert_err!(one(store, delete(Children::Refuse)).await, StoreError::Conflict { .. });
    assert_eq!(store.session(b).await?.id, b, "nothing changed");
    let committed = one(store, delete(Children::Delete)).await?;
    assert_eq!(committed.outcomes, vec![Outcome::Deleted(vec![b, a])]);
    assert_err!(store.session(b).await, StoreError::NotFound { what: Thing::Session, .. });
    assert_err!(store.chat(b, None).await, StoreError::NotFound { what: Thing::Session, .. });
    assert_err!(store.event(event.id).await, StoreError::NotFound { what: Thing::Event, .. });
    assert_err!(store.approval(approval).await, StoreError::NotFound { what: Thing::Approval, .. });
    assert_err!(store.run(run).await, StoreError::NotFound { what: Thing::Run, .. });
    assert_err!(store.tree(tree).await, StoreError::NotFound { what: Thing::Tree, .. });
    assert_err!(store.node(event.node_id()).await, StoreError::NotFound { what: Thing::Node, .. });
    let feed = store.read_commits(0, plexus_store::ReadLimit::events(1000)).await?;
    assert!(
        feed.events.iter().all(|it| it.event.session == other),
        "the feed has only what is there"
    );
    assert_eq!(feed.events.len(), 3);
    Ok(())
}

pub(crate) async fn a_fork_shares_the_tree_and_outlives_its_source(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    whole_chat(store, a, &["one", "two"]).await?;
    let source = store.session(a).await?;
    let page = store.read_events(a, 0, 0, plexus_store::ReadLimit::events(10)).await?;
    let middle = page.events[1].node_id();
    let fork = CreateSession {
        fork: Some(Fork { of: a, at: Some(middle) }),
        ..CreateSession::new("fork", None)
    };
    let id = fork.id;
    one(store, Change::CreateSession(fork)).await?;
    let forked = store.session(id).await?;
    assert_eq!((forked.tree, forked.head, forked.forked_from), (source.tree, middle, Some(a)));
    whole_chat(store, id, &["other way"]).await?;
    let path = store.path(store.session(id).await?.head, 100).await?;
    assert!(path.iter().any(|node| node.id == middle));
    assert!(
        !path.iter().any(|node| node.id == page.events[2].node_id()),
        "what came after the fork is not on its path"
    );

    one(store, Change::DeleteSession(DeleteSession { id: a, children: Children::Refuse })).await?;
    assert_err!(store.session(a).await, StoreError::NotFound { .. });
    assert_eq!(
        store.path(store.session(id).await?.head, 100).await?,
        path,
        "the fork still stands on its source's events"
    );
    assert_eq!(
        store.chats(None, None, PageRequest::default()).await?.items.len(),
        1,
        "the source's chats are seen by nobody"
    );
    one(store, Change::DeleteSession(DeleteSession { id, children: Children::Refuse })).await?;
    assert_err!(store.tree(source.tree).await, StoreError::NotFound { .. });
    Ok(())
}

pub(crate) async fn changes_are_told_once(store: &dyn Store) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let all = SessionFilter::default;
    let first = store.sessions_changed(0, all(), 10).await?;
    assert_eq!(first.sessions.iter().map(|it| it.id).collect::<Vec<_>>(), vec![a, b]);
    assert_eq!(first.after, store.newest_commit().await?);
    assert_eq!(store.sessions_changed(first.after, all(), 10).await?.sessions, vec![]);
    chat(store, a, "hi").await?;
    let later = store.sessions_changed(first.after, all(), 10).await?;
    assert_eq!(later.sessions.iter().map(|it| it.id).collect::<Vec<_>>(), vec![a]);
    assert_eq!(
        store
            .sessions_changed(first.after, SessionFilter { under: Some(a), ..all() }, 10)
            .await?
            .sessions,
        vec![]
    );
    // Read one at a time, no session is skipped.
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let part = store.sessions_changed(after, all(), 1).await?;
        if part.sessions.is_empty() {
            break;
        }
        after = part.after;
        seen.extend(part.sessions.into_iter().map(|it| it.id));
    }
    assert_eq!(seen, vec![b, a]);
    // Two sessions of one commit are returned together, even when only one was requested.
    let (c, d) = (CreateSession::new("c", None), CreateSession::new("d", None));
    let ids = vec![c.id, d.id];
    store
        .commit(vec![Change::CreateSession(c), Change::CreateSession(d)], Priority::Normal)
        .await?;
    let both = store.sessions_changed(after, all(), 1).await?;
    assert_eq!(both.sessions.into_iter().map(|it| it.id).collect::<Vec<_>>(), ids);
    Ok(())
}

pub(crate) async fn nobody_has_more_descendants_than_there_is_room_for(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let top = session(store, "top", None).await?;
    let a = session(store, "a", Some(top)).await?;
    let below = |name: String, parent| {
        let room = vec![Room { above: top, descendants: 3 }];
        vec![Change::CreateSession(CreateSession {
            room,
            ..CreateSession::new(name, Some(parent))
        })]
    };
    let made = futures::future::join_all((0..8).map(|n| {
        store.commit(below(format!("s{n}"), if n % 2 == 0 { top } else { a }), Priority::Normal)
    }))
    .await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 2, "on all levels");
    for error in made.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
        let told = "create the session: top may have 3 sessions below it and has no room for \
                    another; delete one of them first";
        assert_eq!(error.to_string(), told);
    }
    assert_eq!(store.descendants(top).await?.len(), 3);
    Ok(())
}

//! Runs and their journals.

use plexus_store::{
    AssignRun, Change, CreateRun, EndRun, JournalPosition, JsonText, Patch, Priority,
    SetJournalPosition, Store, StoreError, Thing, UnixMillis, UpdateRun,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{chat, events, one, run, session};

pub(crate) async fn runs_are_numbered_and_end_once(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let first = run(store, s).await?;
    let second = run(store, s).await?;
    assert_eq!((first.n, second.n, store.session(s).await?.next_run), (0, 1, 2));
    let wrong = CreateRun {
        session: s,
        expects_n: Some(7),
        channel: "mcp".into(),
        launch: JsonText::empty_object(),
    };
    assert_err!(one(store, Change::CreateRun(wrong)).await, StoreError::Conflict { .. });

    let process = JsonText::from(json!({"pid": 7}));
    let update = UpdateRun {
        process: Patch::Set(process.clone()),
        translation: Patch::Set(JsonText::from(json!({"open": []}))),
        idle_since: Patch::Set(UnixMillis(5)),
        ..UpdateRun::of(first)
    };
    one(store, Change::UpdateRun(update)).await?;
    one(store, Change::UpdateRun(UpdateRun { idle_since: Patch::Clear, ..UpdateRun::of(first) }))
        .await?;
    let it = store.run(first).await?;
    assert_eq!((it.process, it.idle_since), (Some(process), None));
    assert_eq!(it.translation.map(|state| state.to_value()), Some(json!({"open": []})));

    chat(store, s, "hi").await?;
    one(store, Change::AssignRun(AssignRun { session: s, chat: 0, run: 0 })).await?;
    assert_eq!(store.chat(s, None).await?.run, Some(0));
    let nobody = AssignRun { session: s, chat: 0, run: 9 };
    assert_err!(
        one(store, Change::AssignRun(nobody)).await,
        StoreError::NotFound { what: Thing::Run, .. }
    );

    assert_eq!(store.open_runs().await?.len(), 2);
    let end = || Change::EndRun(EndRun { run: first, exit: JsonText::from(json!({"code": 0})) });
    one(store, end()).await?;
    assert_err!(one(store, end()).await, StoreError::Conflict { .. });
    assert_err!(
        one(store, Change::UpdateRun(UpdateRun::of(first))).await,
        StoreError::Conflict { .. }
    );
    assert_eq!(
        store.open_runs().await?.into_iter().map(|it| it.key).collect::<Vec<_>>(),
        vec![second]
    );
    let all = store.runs(s).await?;
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].exit.as_ref().map(JsonText::to_value), Some(json!({"code": 0})));
    Ok(())
}

pub(crate) async fn events_and_journal_move_together_or_not_at_all(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let r = run(store, s).await?;
    chat(store, s, "hi").await?;
    let at = |segment, offset| JournalPosition { segment, offset };
    let step = |from, to, text| {
        vec![
            Change::SetJournalPosition(SetJournalPosition { run: r, expects: from, to }),
            events(s, 0, &[text]),
        ]
    };
    store.commit(step(at(0, 0), at(1, 100), "a"), Priority::Normal).await?;
    // The same lines again, as after a crash between commit and answer: refused, with the current
    // position.
    let Err(StoreError::Conflict { standing, .. }) =
        store.commit(step(at(0, 0), at(1, 100), "a"), Priority::Normal).await
    else {
        panic!("stored twice");
    };
    assert_eq!(standing, json!({"segment": 1, "offset": 100}));
    // The event before the position in the list is rolled back with it.
    let mut backwards = step(at(0, 0), at(1, 200), "b");
    backwards.reverse();
    assert_err!(store.commit(backwards, Priority::Normal).await, StoreError::Conflict { .. });
    assert_eq!(store.chat(s, None).await?.total_events, 2);
    assert_err!(
        store.commit(step(at(1, 100), at(1, 50), "b"), Priority::Normal).await,
        StoreError::Invalid { .. }
    );
    store.commit(step(at(1, 100), at(2, 10), "b"), Priority::Normal).await?;
    assert_eq!(store.run(r).await?.journal, at(2, 10));
    assert_eq!(store.chat(s, None).await?.total_events, 3);
    Ok(())
}

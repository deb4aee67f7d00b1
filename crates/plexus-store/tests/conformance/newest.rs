//! What was just written is read by its id as a list reads it, whatever wrote it: an engine may
//! answer the one from memory, and always reads the other.

use plexus_core::{ApprovalId, SessionId};
use plexus_store::{
    ApprovalFilter, Change, Children, DeleteSession, EscalateApproval, Fate, JsonText,
    OpenApproval, Owner, PageRequest, ParkApproval, ParkStep, Prompts, SessionFilter,
    SettleApproval, Stage, Store, StoreError, UnixMillis, UpdateSession,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{allow, chat, decision, end, events, one, question, run, session};

/// Compares one session and one approval with what the lists say of them.
async fn reads_as_listed(
    store: &dyn Store,
    s: SessionId,
    id: ApprovalId,
    after: &str,
) -> anyhow::Result<()> {
    let page = PageRequest::first(10);
    let sessions = store.sessions(SessionFilter::default(), page).await?.items;
    let approvals = store.approvals(ApprovalFilter::default(), page).await?.items;
    let listed = sessions.into_iter().find(|it| it.id == s);
    assert_eq!(Some(store.session(s).await?), listed, "the session after {after}");
    let listed = approvals.into_iter().find(|it| it.id == id);
    let record = store.approval(id).await?;
    assert_eq!(Some(&record), listed.as_ref(), "the approval after {after}");
    let by_request = store.approval_by_request(s, record.run, &record.request_id).await?;
    assert_eq!(by_request, Some(record).filter(|it| !it.retired), "by its request after {after}");
    waits_as_listed(store, s, after).await
}

/// Compares what waits in one session with the list of all that waits.
async fn waits_as_listed(store: &dyn Store, s: SessionId, after: &str) -> anyhow::Result<()> {
    let page = PageRequest::first(10);
    let all = ApprovalFilter { stage: Stage::Pending, ..ApprovalFilter::default() };
    let mut listed = store.approvals(all, page).await?.items;
    listed.retain(|it| it.session == s);
    let of_session = ApprovalFilter { session: Some(s), ..all };
    let found = store.approvals(of_session, page).await?;
    assert_eq!((found.items, found.next), (listed.clone(), None), "what waits after {after}");
    let session = store.session(s).await?;
    for above in [session.parent, Some(s)].into_iter().flatten() {
        let below = ApprovalFilter { under: Some(above), ..of_session };
        let expected = if above == s { Vec::new() } else { listed.clone() };
        let found = store.approvals(below, page).await?.items;
        assert_eq!(found, expected, "what waits below {above} after {after}");
    }
    Ok(())
}

pub(crate) async fn a_record_is_read_as_it_was_last_written(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let parent = session(store, "parent", None).await?;
    let s = session(store, "s", Some(parent)).await?;
    chat(store, s, "hi").await?;
    let n = run(store, s).await?.n;
    let open = OpenApproval { chat: Some(0), run: Some(n), ..question(s, "r", "ls") };
    let id = open.id;
    let park = |step| Change::ParkApproval(ParkApproval { id, step });
    let escalate = EscalateApproval {
        id,
        expects_owner: Owner::Operator,
        expects_escalations: 0,
        to: Owner::Operator,
        escalate_at: None,
        event: None,
    };
    let update =
        UpdateSession { metadata: Some(JsonText::from(json!({"a": 1}))), ..UpdateSession::of(s) };
    let settle = SettleApproval { id, fate: Fate::Delivered, at: UnixMillis(9) };
    let facts = JsonText::from(json!({}));
    let request_id = "again".to_owned();
    let breach = Change::MarkBreach { id, what: "ran something else".to_owned() };
    let steps = [
        ("the question", Change::OpenApproval(open)),
        ("a reminder", Change::EscalateApproval(escalate)),
        ("events", events(s, 0, &["x"])),
        ("an update", Change::UpdateSession(update)),
        ("the beginning of parking", park(ParkStep::Begin)),
        ("parking", park(ParkStep::Done(facts))),
        ("the decision", Change::DecideApproval(decision(id, allow()))),
        ("waking", park(ParkStep::Wake)),
        ("asking again", park(ParkStep::Asked { run: n, request_id, at: UnixMillis(7) })),
        ("the delivery", Change::SettleApproval(settle)),
        ("a breach", breach),
        ("more events", events(s, 0, &["y"])),
        ("retiring", Change::RetireApproval(id)),
        ("the end of the chat", end(s, 0)),
    ];
    for (after, change) in steps {
        one(store, change).await?;
        reads_as_listed(store, s, id, after).await?;
        // A second time, now that whatever a read may have left behind is there.
        reads_as_listed(store, s, id, after).await?;
    }
    Ok(())
}

pub(crate) async fn what_waits_is_listed_however_much_was_just_written(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let other = session(store, "other", None).await?;
    one(store, Change::OpenApproval(question(other, "elsewhere", "ls"))).await?;
    let asked: Vec<_> = ["a", "b", "c"].map(|it| question(s, it, "ls")).into();
    let ids: Vec<_> = asked.iter().map(|it| it.id).collect();
    for open in asked {
        one(store, Change::OpenApproval(open)).await?;
        waits_as_listed(store, s, "a question").await?;
    }
    for id in ids {
        one(store, Change::DecideApproval(decision(id, allow()))).await?;
        waits_as_listed(store, s, "a decision").await?;
        waits_as_listed(store, other, "a decision elsewhere").await?;
    }
    Ok(())
}

pub(crate) async fn what_is_gone_is_not_read(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let pending = question(s, "pending", "ls");
    let decided = question(s, "decided", "ls");
    let ids = [pending.id, decided.id];
    one(store, Change::OpenApproval(pending)).await?;
    one(store, Change::OpenApproval(decided)).await?;
    one(store, Change::DecideApproval(decision(ids[1], allow()))).await?;
    one(store, Change::DeleteSession(DeleteSession { id: s, children: Children::Refuse })).await?;
    assert_err!(store.session(s).await, StoreError::NotFound { .. });
    assert_err!(store.ancestors(s).await, StoreError::NotFound { .. });
    for id in ids {
        assert_err!(store.approval(id).await, StoreError::NotFound { .. });
    }
    Ok(())
}

pub(crate) async fn what_was_pruned_is_not_read(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let open = question(s, "r", "ls");
    let id = open.id;
    one(store, Change::OpenApproval(open)).await?;
    one(store, Change::DecideApproval(decision(id, allow()))).await?;
    let settle = SettleApproval { id, fate: Fate::Void, at: UnixMillis::now() };
    one(store, Change::SettleApproval(settle)).await?;
    let pruned = store
        .prune(UnixMillis::now().plus(std::time::Duration::from_secs(3_600)), Prompts::Keep)
        .await?;
    assert_eq!(pruned.approvals, 1);
    assert_err!(store.approval(id).await, StoreError::NotFound { .. });
    Ok(())
}

//! Parking: an approval whose agent has no process while it waits.

use plexus_core::{ApprovalId, SessionId};
use plexus_store::{
    ApprovalFilter, ApprovalRecord, Change, Children, DeleteSession, Fate, JsonText,
    KeepTranscript, OpenApproval, PageRequest, ParkApproval, ParkStep, Parking, SettleApproval,
    Stage, Store, StoreError, UnixMillis, Verdict, limits,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{allow, approval_of, chat, decision, end, one, question, run, session};

/// A run that asks.
async fn asked(store: &dyn Store) -> anyhow::Result<(SessionId, ApprovalId)> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let n = run(store, s).await?.n;
    let open = OpenApproval { chat: Some(0), run: Some(n), ..question(s, "r", "ls") };
    let made = one(store, Change::OpenApproval(open)).await?;
    Ok((s, approval_of(&made).id))
}

async fn step(
    store: &dyn Store,
    id: ApprovalId,
    step: ParkStep,
) -> Result<ApprovalRecord, StoreError> {
    let committed = one(store, Change::ParkApproval(ParkApproval { id, step })).await?;
    Ok(approval_of(&committed))
}

fn facts(n: u32) -> JsonText {
    JsonText::from(json!({"n": n}))
}

/// The step with which a woken run asks again.
async fn asks_again(store: &dyn Store, s: SessionId) -> anyhow::Result<ParkStep> {
    let run = run(store, s).await?.n;
    Ok(ParkStep::Asked { run, request_id: "again".to_owned(), at: UnixMillis(7) })
}

async fn parked(store: &dyn Store) -> anyhow::Result<(SessionId, ApprovalId)> {
    let (s, id) = asked(store).await?;
    step(store, id, ParkStep::Begin).await?;
    step(store, id, ParkStep::Done(facts(1))).await?;
    Ok((s, id))
}

async fn listed(store: &dyn Store, stage: Stage) -> anyhow::Result<Vec<ApprovalId>> {
    let filter = ApprovalFilter { stage, ..ApprovalFilter::default() };
    let page = store.approvals(filter, PageRequest::first(10)).await?;
    Ok(page.items.iter().map(|record| record.id).collect())
}

pub(crate) async fn each_step_of_parking_begins_where_the_last_one_ended(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let (s, id) = asked(store).await?;
    let again = asks_again(store, s).await?;
    for wrong in [ParkStep::Done(facts(0)), ParkStep::Stay, ParkStep::Wake, again.clone()] {
        assert_err!(step(store, id, wrong).await, StoreError::Conflict { .. });
    }
    assert_eq!(step(store, id, ParkStep::Begin).await?.parking, Some(Parking::Parking));
    assert_err!(step(store, id, ParkStep::Begin).await, StoreError::Conflict { .. });
    assert_eq!(step(store, id, ParkStep::Stay).await?.parking, None);
    step(store, id, ParkStep::Begin).await?;
    let record = step(store, id, ParkStep::Done(facts(1))).await?;
    assert_eq!((record.parking, record.parked), (Some(Parking::Parked), Some(facts(1))));
    assert_eq!(listed(store, Stage::Parked).await?, [id]);
    // Nobody has decided: there is nothing to tell the agent.
    assert_err!(step(store, id, ParkStep::Wake).await, StoreError::Conflict { .. });
    one(store, Change::DecideApproval(decision(id, Verdict::Deny))).await?;
    assert_eq!(step(store, id, ParkStep::Wake).await?.parking, Some(Parking::Waking));
    let record = step(store, id, ParkStep::Again(facts(2))).await?;
    assert_eq!((record.parking, record.parked), (Some(Parking::Parked), Some(facts(2))));
    step(store, id, ParkStep::Wake).await?;
    let record = step(store, id, again).await?;
    assert_eq!((record.parking, record.request_id.as_str()), (None, "again"));
    assert_eq!((record.allow_sent_at, store.approval(id).await?), (None, record));
    Ok(())
}

pub(crate) async fn a_parked_approval_is_decided_as_any_other_and_then_to_be_woken(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let (_, id) = parked(store).await?;
    assert_eq!(listed(store, Stage::Pending).await?, [id]);
    assert_eq!(listed(store, Stage::ToWake).await?, []);
    let record = approval_of(&one(store, Change::DecideApproval(decision(id, allow()))).await?);
    assert_eq!(record.parking, Some(Parking::Parked));
    assert_eq!(listed(store, Stage::ToWake).await?, [id]);
    step(store, id, ParkStep::Wake).await?;
    assert_eq!(listed(store, Stage::ToWake).await?, []);
    assert_eq!(listed(store, Stage::Parked).await?, [id]);
    step(store, id, ParkStep::GiveUp).await?;
    assert_eq!(listed(store, Stage::Parked).await?, []);
    Ok(())
}

pub(crate) async fn one_of_two_wakers_wins(store: &dyn Store) -> anyhow::Result<()> {
    let (_, id) = parked(store).await?;
    one(store, Change::DecideApproval(decision(id, allow()))).await?;
    let (a, b) = tokio::join!(step(store, id, ParkStep::Wake), step(store, id, ParkStep::Wake));
    let lost = [a.is_err(), b.is_err()];
    assert_eq!(lost.iter().filter(|lost| **lost).count(), 1, "{a:?} {b:?}");
    Ok(())
}

pub(crate) async fn an_allow_is_noted_before_it_is_sent_and_only_once(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let (s, id) = parked(store).await?;
    one(store, Change::DecideApproval(decision(id, allow()))).await?;
    step(store, id, ParkStep::Wake).await?;
    let record = step(store, id, asks_again(store, s).await?).await?;
    assert_eq!(record.allow_sent_at, Some(UnixMillis(7)));
    // The woken process dies before the call has its result.
    let settle = SettleApproval { id, fate: Fate::Delivered, at: UnixMillis(8) };
    one(store, Change::SettleApproval(settle)).await?;
    let record = step(store, id, ParkStep::Again(facts(2))).await?;
    assert_eq!((record.parking, record.delivered_at), (Some(Parking::Parked), None));
    assert_eq!(record.allow_sent_at, Some(UnixMillis(7)));
    step(store, id, ParkStep::Wake).await?;
    let second = asks_again(store, s).await?;
    assert_err!(step(store, id, second).await, StoreError::Conflict { .. });
    Ok(())
}

fn keep(session: SessionId, chat: u32, data: &[u8]) -> Change {
    Change::KeepTranscript(KeepTranscript { session, chat, data: data.to_vec() })
}

pub(crate) async fn a_transcript_is_kept_until_its_chat_ends(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let (s, _) = parked(store).await?;
    assert_eq!(store.parked_transcript(s, 0).await?, None);
    for data in [&b"first"[..], &[0, 255, 10]] {
        one(store, keep(s, 0, data)).await?;
        assert_eq!(store.parked_transcript(s, 0).await?.as_deref(), Some(data));
    }
    let long = vec![0; limits::MAX_TRANSCRIPT_BYTES + 1];
    assert_err!(one(store, keep(s, 0, &long)).await, StoreError::Invalid { .. });
    assert_err!(one(store, keep(s, 1, b"no chat")).await, StoreError::NotFound { .. });
    one(store, end(s, 0)).await?;
    assert_eq!(store.parked_transcript(s, 0).await?, None);
    assert_err!(one(store, keep(s, 0, b"late")).await, StoreError::Conflict { .. });
    // A session that is deleted takes it along.
    chat(store, s, "again").await?;
    one(store, keep(s, 1, b"second")).await?;
    let delete = DeleteSession { id: s, children: Children::Delete };
    one(store, Change::DeleteSession(delete)).await?;
    Ok(())
}

pub(crate) async fn a_cancelled_or_void_approval_wakes_nobody(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let (s, id) = parked(store).await?;
    one(store, Change::DecideApproval(decision(id, Verdict::Cancel))).await?;
    assert_eq!(store.approval(id).await?.parking, None);
    let n = run(store, s).await?.n;
    let open = OpenApproval { chat: Some(0), run: Some(n), ..question(s, "second", "ls") };
    let id = approval_of(&one(store, Change::OpenApproval(open)).await?).id;
    step(store, id, ParkStep::Begin).await?;
    step(store, id, ParkStep::Done(facts(1))).await?;
    one(store, Change::DecideApproval(decision(id, allow()))).await?;
    let void = SettleApproval { id, fate: Fate::Void, at: UnixMillis(8) };
    one(store, Change::SettleApproval(void)).await?;
    assert_eq!(listed(store, Stage::Parked).await?, []);
    assert_err!(step(store, id, ParkStep::Wake).await, StoreError::Conflict { .. });
    assert_err!(step(store, id, ParkStep::Again(facts(2))).await, StoreError::Conflict { .. });
    Ok(())
}

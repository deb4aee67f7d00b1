//! Approvals over maps.

use plexus_core::{ApprovalId, SessionId};

use super::events::append_if_open;
use super::state::{State, ascending, descending};
use super::{chats, runs, servers, sessions};
use crate::contract::limits::MAX_PAGE_ITEMS;
use crate::contract::{
    ApprovalFilter, ApprovalRecord, ApprovalStatus, DecideApproval, Decision, Due,
    EscalateApproval, Fate, Fresh, OpenApproval, Outcome, Page, PageRequest, RunKey,
    SettleApproval, Stage, StoreError, Thing, Topic, UnixMillis, refusal,
};

pub(super) fn get(state: &State, id: ApprovalId) -> Result<ApprovalRecord, StoreError> {
    let found = state.approvals.values().find(|it| it.id == id);
    found.cloned().ok_or_else(|| StoreError::not_found(Thing::Approval, id))
}

fn get_mut(state: &mut State, id: ApprovalId) -> Result<&mut ApprovalRecord, StoreError> {
    let found = state.approvals.values_mut().find(|it| it.id == id);
    found.ok_or_else(|| StoreError::not_found(Thing::Approval, id))
}

pub(super) fn by_request(
    state: &State,
    session: SessionId,
    run: Option<u32>,
    request_id: &str,
) -> Result<Option<ApprovalRecord>, StoreError> {
    sessions::require(state, session)?;
    let is_it = |it: &&ApprovalRecord| {
        it.session == session && it.run == run && it.request_id == request_id && !it.retired
    };
    Ok(state.approvals.values().find(is_it).cloned())
}

pub(super) fn list(
    state: &State,
    filter: &ApprovalFilter,
    page: PageRequest,
) -> Result<Page<ApprovalRecord>, StoreError> {
    for session in [filter.session, filter.run.map(|run| run.session)].into_iter().flatten() {
        sessions::require(state, session)?;
    }
    let under = filter.under.map(|id| sessions::descendants(state, id)).transpose()?;
    let keep = |it: &ApprovalRecord| {
        let pending = it.status == ApprovalStatus::Pending;
        let in_stage = match filter.stage {
            Stage::Any => true,
            Stage::Pending => pending,
            Stage::Decided => !pending,
            Stage::Undelivered => !pending && it.delivered_at.is_none() && it.void_at.is_none(),
        };
        let fits = in_stage
            && filter.session.is_none_or(|id| it.session == id)
            && filter.owner.is_none_or(|owner| it.owner == owner)
            && filter.run.is_none_or(|run| it.session == run.session && it.run == Some(run.n))
            && filter.asked_until.is_none_or(|time| it.created_at <= time)
            && under.as_ref().is_none_or(|ids| ids.contains(&it.session));
        fits.then(|| it.clone())
    };
    Ok(match filter.stage {
        Stage::Pending | Stage::Undelivered => ascending(&state.approvals, page, keep),
        Stage::Any | Stage::Decided => descending(&state.approvals, page, keep),
    })
}

pub(super) fn due(state: &State, now: UnixMillis) -> Due {
    let pending = || state.approvals.values().filter(|it| it.status == ApprovalStatus::Pending);
    let mut expired: Vec<_> =
        pending().filter(|it| it.deadline.is_some_and(|at| at <= now)).cloned().collect();
    expired.sort_by_key(|it| it.deadline);
    let escalates = |it: &&ApprovalRecord| {
        it.escalate_at.is_some_and(|at| at <= now) && it.deadline.is_none_or(|at| at > now)
    };
    let mut to_escalate: Vec<_> = pending().filter(escalates).cloned().collect();
    to_escalate.sort_by_key(|it| it.escalate_at);
    let next = if expired.len() >= MAX_PAGE_ITEMS || to_escalate.len() >= MAX_PAGE_ITEMS {
        Some(now)
    } else {
        pending()
            .flat_map(|it| [it.deadline, it.escalate_at])
            .flatten()
            .filter(|at| *at > now)
            .min()
    };
    expired.truncate(MAX_PAGE_ITEMS);
    to_escalate.truncate(MAX_PAGE_ITEMS);
    Due { expired, to_escalate, next }
}

/// Notes whom a change of this approval concerns.
fn concerns(state: &mut State, record: &ApprovalRecord) -> Result<(), StoreError> {
    sessions::touch(state, record.session)?;
    state.topics.extend([
        Topic::Approval(record.id),
        Topic::PendingOf(record.owner),
        Topic::Pending,
    ]);
    Ok(())
}

/// Refuses what only the server of the approval's run may write.
fn fence(state: &State, id: ApprovalId) -> Result<(), StoreError> {
    let record = get(state, id)?;
    servers::fence_run(state, record.run.map(|n| RunKey { session: record.session, n }))
}

pub(super) fn open(state: &mut State, open: OpenApproval) -> Result<Outcome, StoreError> {
    let session = sessions::get(state, open.session)?;
    if let Some(standing) = by_request(state, open.session, open.run, &open.request_id)? {
        return refusal::asked_before(&open, standing);
    }
    refusal::one_more_question(&session)?;
    if let Some(chat) = open.chat {
        chats::find(state, open.session, chat)?;
    }
    if let Some(n) = open.run {
        runs::get(state, RunKey { session: open.session, n })?;
    }
    servers::fence_run(state, open.run.map(|n| RunKey { session: open.session, n }))?;
    if get(state, open.id).is_ok() {
        return Err(StoreError::conflict("open the approval: its id is there already", &open.id));
    }
    let record = ApprovalRecord {
        id: open.id,
        session: open.session,
        chat: open.chat,
        run: open.run,
        channel: open.channel,
        request_id: open.request_id,
        tool_name: open.tool_name,
        tool_use_id: open.tool_use_id,
        input: open.input,
        input_digest: open.input_digest,
        description: open.description,
        suggestions: open.suggestions,
        owner: open.owner,
        escalations: 0,
        status: ApprovalStatus::Pending,
        created_at: open.at,
        deadline: open.deadline,
        escalate_at: open.escalate_at,
        decision: None,
        delivered_at: None,
        void_at: None,
        breach: None,
        retired: false,
    };
    let key = state.next_key();
    state.approvals.insert(key, record.clone());
    append_if_open(state, open.session, open.chat, open.event)?;
    if let Some(parent) = session.parent {
        let chat = sessions::get(state, parent)?.open_chat();
        append_if_open(state, parent, chat, open.parent_event)?;
    }
    for entry in open.outbox {
        super::audit::enqueue(state, entry)?;
    }
    concerns(state, &record)?;
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) fn decide(state: &mut State, decide: DecideApproval) -> Result<Outcome, StoreError> {
    let record = get_mut(state, decide.id)?;
    if refusal::decision(&decide, record)? == Fresh::Found {
        return Ok(Outcome::Approval { record: record.clone(), fresh: Fresh::Found });
    }
    let updated_input = decide.verdict.updated_input().cloned();
    record.status = decide.verdict.status();
    record.decision =
        Some(Decision { by: decide.by, at: decide.at, message: decide.message, updated_input });
    let record = record.clone();
    append_if_open(state, record.session, record.chat, decide.event)?;
    for entry in decide.outbox {
        super::audit::enqueue(state, entry)?;
    }
    concerns(state, &record)?;
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) fn escalate(
    state: &mut State,
    escalate: EscalateApproval,
) -> Result<Outcome, StoreError> {
    let record = get_mut(state, escalate.id)?;
    let stands = record.owner == escalate.expects_owner
        && record.escalations == escalate.expects_escalations;
    if record.status != ApprovalStatus::Pending || !stands {
        return Err(refusal::passed_on(record));
    }
    record.owner = escalate.to;
    record.escalate_at = escalate.escalate_at;
    record.escalations += 1;
    let record = record.clone();
    append_if_open(state, record.session, record.chat, escalate.event)?;
    concerns(state, &record)?;
    state.topics.push(Topic::PendingOf(escalate.expects_owner));
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) fn settle(state: &mut State, settle: SettleApproval) -> Result<Outcome, StoreError> {
    fence(state, settle.id)?;
    let record = get_mut(state, settle.id)?;
    let free = record.status != ApprovalStatus::Pending
        && record.delivered_at.is_none()
        && record.void_at.is_none();
    let mark = match settle.fate {
        Fate::Delivered => &mut record.delivered_at,
        Fate::Void => &mut record.void_at,
    };
    match (free, mark.is_some()) {
        (true, _) => {
            *mark = Some(settle.at);
            let record = record.clone();
            concerns(state, &record)?;
            Ok(Outcome::Approval { record, fresh: Fresh::Made })
        }
        (false, true) => Ok(Outcome::Approval { record: record.clone(), fresh: Fresh::Found }),
        (false, false) => Err(refusal::not_to_settle(record)),
    }
}

pub(super) fn retire(state: &mut State, id: ApprovalId) -> Result<Outcome, StoreError> {
    fence(state, id)?;
    get_mut(state, id)?.retired = true;
    Ok(Outcome::Done)
}

pub(super) fn mark_breach(
    state: &mut State,
    id: ApprovalId,
    what: String,
) -> Result<Outcome, StoreError> {
    fence(state, id)?;
    let record = get_mut(state, id)?;
    record.breach.get_or_insert(what);
    let record = record.clone();
    concerns(state, &record)?;
    Ok(Outcome::Done)
}

//! Servers over maps. The store's clock is this process's.

use plexus_core::ServerId;

use super::state::{ServerRecord, State};
use super::{approvals, chats, runs, sessions};
use crate::contract::{
    ApprovalRecord, ApprovalStatus, ChatStatus, Lease, Outcome, RegisterServer, RemoveRules,
    RenewLease, RevokeTokens, Run, RunKey, Server, ServerState, StoreError, TakeOver, TakenOver,
    Thing, UnixMillis, refusal,
};

pub(super) fn list(state: &State) -> Vec<Server> {
    state.servers.values().map(|record| view(state, record, UnixMillis::now())).collect()
}

fn view(state: &State, record: &ServerRecord, now: UnixMillis) -> Server {
    let state_now = match record.state {
        ServerState::Alive if record.lease_until <= now => ServerState::Expired,
        state => state,
    };
    Server {
        lease: record.lease,
        name: record.name.clone(),
        url: record.url.clone(),
        state: state_now,
        lease_left: record.lease_until.after(now),
        heartbeat_age: now.after(record.heartbeat_at),
        open_runs: open_runs(state, record.lease.server).len() as u64,
        open_chats: open_chats(state, record.lease.server).len() as u64,
    }
}

fn open_runs(state: &State, server: ServerId) -> Vec<RunKey> {
    let its =
        state.runs.values().filter(|run| run.ended_at.is_none() && run.server == Some(server));
    its.map(|run| run.key).collect()
}

fn open_chats(state: &State, server: ServerId) -> Vec<(plexus_core::SessionId, u32)> {
    let chats = state.chats.values().map(|record| &record.chat);
    let its =
        chats.filter(|chat| chat.status == ChatStatus::Running && chat.server == Some(server));
    // A deleted session, kept for a fork's sake, is nobody's any more.
    let live = its.filter(|chat| sessions::require(state, chat.session).is_ok());
    live.map(|chat| (chat.session, chat.number)).collect()
}

fn find(state: &State, server: ServerId) -> Result<&ServerRecord, StoreError> {
    let found = state.servers.values().find(|record| record.lease.server == server);
    found.ok_or_else(|| StoreError::not_found(Thing::Server, server))
}

fn find_mut(state: &mut State, server: ServerId) -> Result<&mut ServerRecord, StoreError> {
    let found = state.servers.values_mut().find(|record| record.lease.server == server);
    found.ok_or_else(|| StoreError::not_found(Thing::Server, server))
}

/// Refuses a lease that does not stand, or has run out.
fn require_valid(state: &State, lease: Lease) -> Result<(), StoreError> {
    let record = find(state, lease.server)?;
    let stands = record.lease == lease
        && record.state == ServerState::Alive
        && record.lease_until > UnixMillis::now();
    if stands { Ok(()) } else { Err(refusal::lease_over(lease)) }
}

/// Returns whose a new run or chat is: the server's this handle writes as, whose lease must stand.
pub(super) fn begins(state: &State) -> Result<Option<ServerId>, StoreError> {
    state.lease.map_or(Ok(None), |lease| require_valid(state, lease).map(|()| Some(lease.server)))
}

/// Refuses to write to what belongs to another server, or under a lease that is over.
pub(super) fn fence(state: &State, owner: Option<ServerId>) -> Result<(), StoreError> {
    let Some(owner) = owner.filter(|owner| state.taking != Some(*owner)) else { return Ok(()) };
    match state.lease {
        Some(lease) if lease.server == owner => require_valid(state, lease),
        _ => Err(refusal::of_another(owner)),
    }
}

/// The same, for what belongs to a run.
pub(super) fn fence_run(state: &State, run: Option<RunKey>) -> Result<(), StoreError> {
    match run.map(|run| runs::get(state, run)) {
        Some(Ok(run)) => fence(state, run.server),
        // A run that is not there is refused by whoever needs it, in words of its own.
        Some(Err(_)) | None => Ok(()),
    }
}

/// Refuses a session in which another server has a run open.
pub(super) fn require_not_elsewhere(
    state: &State,
    session: plexus_core::SessionId,
) -> Result<(), StoreError> {
    let me = state.lease.map(|lease| lease.server);
    let elsewhere = |run: &&Run| {
        run.key.session == session
            && run.ended_at.is_none()
            && run.server.is_some()
            && run.server != me
    };
    match state.runs.values().find(elsewhere) {
        Some(run) => Err(refusal::runs_elsewhere(run)),
        None => Ok(()),
    }
}

pub(super) fn register(state: &mut State, new: RegisterServer) -> Result<Outcome, StoreError> {
    let now = UnixMillis::now();
    let record = match find_mut(state, new.id) {
        Ok(record) => record,
        Err(_) => {
            let key = state.next_key();
            let lease = Lease { server: new.id, epoch: 0 };
            state.servers.entry(key).or_insert(ServerRecord {
                lease,
                name: String::new(),
                url: String::new(),
                state: ServerState::Alive,
                heartbeat_at: now,
                lease_until: now,
            })
        }
    };
    record.lease.epoch += 1;
    record.name = new.name;
    record.url = new.url;
    record.state = ServerState::Alive;
    record.heartbeat_at = now;
    record.lease_until = now.plus(new.lease);
    let lease = record.lease;
    state.lease = Some(lease);
    Ok(Outcome::Lease(lease))
}

pub(super) fn renew(state: &mut State, renew: RenewLease) -> Result<Outcome, StoreError> {
    require_valid(state, renew.lease)?;
    let now = UnixMillis::now();
    let record = find_mut(state, renew.lease.server)?;
    record.heartbeat_at = now;
    record.lease_until = now.plus(renew.lasts);
    Ok(Outcome::Done)
}

pub(super) fn retire(state: &mut State, lease: Lease) -> Result<Outcome, StoreError> {
    let standing = view(state, find(state, lease.server)?, UnixMillis::now());
    refusal::retirement(lease, &standing)?;
    find_mut(state, lease.server)?.state = ServerState::Retired;
    state.lease = state.lease.filter(|mine| *mine != lease);
    Ok(Outcome::Done)
}

pub(super) fn take_over(state: &mut State, over: &TakeOver) -> Result<Outcome, StoreError> {
    let server = over.lease.server;
    let standing = view(state, find(state, server)?, UnixMillis::now());
    refusal::takeover(over, &standing)?;
    let record = find_mut(state, server)?;
    record.state = ServerState::TakenOver;
    record.lease.epoch += 1;
    let (dead_runs, dead_chats) = (open_runs(state, server), open_chats(state, server));
    state.taking = Some(server);
    let its = |it: &&ApprovalRecord| {
        it.run.is_some_and(|n| dead_runs.contains(&RunKey { session: it.session, n }))
            || it.chat.is_some_and(|chat| dead_chats.contains(&(it.session, chat)))
    };
    let open = |it: &&ApprovalRecord| it.delivered_at.is_none() && it.void_at.is_none();
    let records: Vec<_> = state.approvals.values().filter(its).filter(open).cloned().collect();
    let mut taken = TakenOver { runs: dead_runs, chats: dead_chats, ..TakenOver::default() };
    for record in records {
        if record.status == ApprovalStatus::Pending {
            approvals::decide(state, over.cancel(&record))?;
            taken.cancelled.push(record.id);
        } else {
            taken.voided.push(record.id);
        }
        approvals::settle(state, over.void(record.id))?;
    }
    for (session, chat) in &taken.chats {
        chats::end(state, over.end_chat(*session, *chat))?;
    }
    for run in &taken.runs {
        runs::end(state, over.end_run(*run))?;
        super::tokens::revoke(state, RevokeTokens::Run(*run))?;
        super::rules::remove(state, RemoveRules::EndingWith(*run))?;
    }
    state.taking = None;
    Ok(Outcome::TakenOver(taken))
}

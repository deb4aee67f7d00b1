//! The engine for unit tests: the same contract over ordinary maps, as simply as it can be said.
//!
//! Nothing survives it, so no server can choose it. It is a second opinion too: what the conformance suite finds equal in both engines was
//! written twice. A commit copies the whole state, changes the copy, and puts it in place: slow for much data, and impossible to half-do.

mod approvals;
mod arbor;
mod audit;
mod budget;
mod chats;
mod consumers;
mod events;
mod rules;
mod runs;
mod servers;
mod sessions;
mod state;
mod store;
mod tokens;
mod upkeep;

use std::sync::{Mutex, MutexGuard, PoisonError};

use self::state::State;
use crate::contract::{Change, Committed, Outcome, StoreError, Topic, Wakes, check};

/// A store in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryStore {
    /// `None` once it is closed.
    state: Mutex<Option<State>>,
    wakes: Wakes,
}

impl MemoryStore {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Mutex::new(Some(State::default())), wakes: Wakes::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        // A commit changes a copy, so even a panic in the middle of one leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, work: impl FnOnce(&State) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.lock().as_ref().ok_or(StoreError::Closed).and_then(work)
    }

    fn write(&self, changes: Vec<Change>) -> Result<Committed, StoreError> {
        check::change_list(&changes)?;
        let (committed, topics) = {
            let mut state = self.lock();
            let mut copy = state.as_ref().ok_or(StoreError::Closed)?.clone();
            copy.commits += 1;
            copy.topics.clear();
            let outcomes = changes
                .into_iter()
                .map(|change| apply(&mut copy, change))
                .collect::<Result<Vec<_>, _>>()?;
            let committed = Committed { commit: copy.commits, outcomes };
            let topics = std::mem::take(&mut copy.topics);
            *state = Some(copy);
            (committed, topics)
        };
        self.wakes.wake(topics.into_iter().chain([Topic::Commits]), committed.commit);
        Ok(committed)
    }
}

fn apply(state: &mut State, change: Change) -> Result<Outcome, StoreError> {
    match change {
        Change::CreateSession(it) => sessions::create(state, it),
        Change::UpdateSession(it) => sessions::update(state, it),
        Change::DeleteSession(it) => sessions::delete(state, it),
        Change::StartChat(it) => chats::start(state, it),
        Change::AssignRun(it) => chats::assign_run(state, it),
        Change::EndChat(it) => chats::end(state, it),
        Change::AppendEvents(it) => events::append(state, it),
        Change::CreateRun(it) => runs::create(state, it),
        Change::UpdateRun(it) => runs::update(state, it),
        Change::SetJournalPosition(it) => runs::set_journal(state, it),
        Change::EndRun(it) => runs::end(state, it),
        Change::OpenApproval(it) => approvals::open(state, it),
        Change::DecideApproval(it) => approvals::decide(state, it),
        Change::EscalateApproval(it) => approvals::escalate(state, it),
        Change::SettleApproval(it) => approvals::settle(state, it),
        Change::RetireApproval(id) => approvals::retire(state, id),
        Change::MarkBreach { id, what } => approvals::mark_breach(state, id, what),
        Change::SetCursor(it) => consumers::set(state, it),
        Change::DeleteCursor { session, consumer } => consumers::delete(state, session, consumer),
        Change::SetReadPosition(it) => consumers::set_read_position(state, it),
        Change::AddRule(it) => rules::add(state, it),
        Change::RemoveRules(it) => rules::remove(state, it),
        Change::UseRule(it) => rules::use_once(state, it),
        Change::AddToken(it) => tokens::add(state, it),
        Change::RevokeTokens(it) => tokens::revoke(state, it),
        Change::AppendAudit(it) => audit::append(state, it),
        Change::Enqueue(it) => audit::enqueue(state, it),
        Change::MarkOutbox(it) => audit::mark(state, it),
        Change::AddSpend(it) => budget::add(state, it.session, it.amount),
        Change::CreateTree(it) => arbor::create_tree(state, it),
        Change::AppendNode(it) => arbor::append_node(state, it),
        Change::RegisterServer(it) => servers::register(state, it),
        Change::RenewLease(it) => servers::renew(state, it),
        Change::RetireServer(lease) => servers::retire(state, lease),
        Change::TakeOver(it) => servers::take_over(state, &it),
    }
}

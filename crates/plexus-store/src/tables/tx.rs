//! One list of changes while it is applied: what it wrote, and whom to tell of it after the commit.

use std::collections::BTreeSet;

use plexus_core::{ServerId, SessionId};

use super::sql::Sql;
use super::{
    approvals, arbor, audit, budget, chats, consumers, devices, events, parking, rules, runs,
    servers, sessions, tokens,
};
use crate::contract::{Change, Lease, Outcome, StoreError, Topic, UnixMillis};

/// Some events that a list appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventBatch {
    /// The row of their chat.
    pub(crate) chat: i64,
    /// The seq of the first of them.
    pub(crate) first: u32,
    /// How many.
    pub(crate) count: u32,
}

/// The lease of a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// The lease that the list is written under, if the handle has one.
    pub(crate) lease: Option<Lease>,
    /// Whether the lease was valid by the store's clock when the transaction began. Nobody else can
    /// end it before the transaction does.
    pub(crate) valid: bool,
}

/// One list of changes in a transaction, after the savepoint it can be taken back to.
///
/// What carries the number of the commit is collected here and written by the engine's writer: one
/// engine knows the number beforehand, the other only in the last statement of the transaction.
pub(crate) struct Tx<'c, C> {
    pub(crate) conn: &'c C,
    /// One present for the whole list.
    pub(crate) now: UnixMillis,
    /// Whom to wake.
    pub(crate) topics: Vec<Topic>,
    /// The rows of sessions that changed in a way that a reader of the session notices.
    pub(crate) touched: BTreeSet<i64>,
    /// The rows of sessions that were deleted.
    pub(crate) gone: Vec<i64>,
    /// The events it appended.
    pub(crate) batches: Vec<EventBatch>,
    /// The lease it is written under.
    pub(crate) standing: Standing,
    /// The server that is being taken over from: what belongs to it may be ended.
    pub(crate) taking: Option<ServerId>,
}

impl<'c, C: Sql> Tx<'c, C> {
    pub(crate) fn new(conn: &'c C, standing: Standing) -> Self {
        Self {
            conn,
            now: UnixMillis::now(),
            topics: Vec::new(),
            touched: BTreeSet::new(),
            gone: Vec::new(),
            batches: Vec::new(),
            standing,
            taking: None,
        }
    }

    /// Notes that a session changed.
    pub(super) fn touch(&mut self, row: i64, id: SessionId) {
        if self.touched.insert(row) {
            self.topics.push(Topic::Session(id));
        }
    }

    /// Notes that a session was deleted: nothing is written to its row, but its readers are woken.
    pub(super) fn gone(&mut self, row: i64, id: SessionId) {
        self.touched.remove(&row);
        self.gone.push(row);
        self.topics.extend([Topic::Session(id), Topic::PendingIn(id)]);
    }

    /// Applies every change, in order.
    pub(crate) async fn apply_all(
        &mut self,
        changes: &[Change],
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            outcomes.push(self.apply(change).await?);
        }
        Ok(outcomes)
    }

    async fn apply(&mut self, change: &Change) -> Result<Outcome, StoreError> {
        match change {
            Change::CreateSession(it) => sessions::create(self, it.clone()).await,
            Change::UpdateSession(it) => sessions::update(self, it.clone()).await,
            Change::DeleteSession(it) => sessions::delete(self, *it).await,
            Change::StartChat(it) => chats::start(self, it.clone()).await,
            Change::AssignRun(it) => chats::assign_run(self, *it).await,
            Change::EndChat(it) => chats::end(self, it.clone()).await,
            Change::AppendEvents(it) => events::append(self, it).await,
            Change::CreateRun(it) => runs::create(self, it).await,
            Change::UpdateRun(it) => runs::update(self, it.clone()).await,
            Change::SetJournalPosition(it) => runs::set_journal(self, *it).await,
            Change::EndRun(it) => runs::end(self, it).await,
            Change::OpenApproval(it) => approvals::open(self, it.clone()).await,
            Change::DecideApproval(it) => approvals::decide(self, it.clone()).await,
            Change::EscalateApproval(it) => approvals::escalate(self, it.clone()).await,
            Change::SettleApproval(it) => approvals::settle(self, *it).await,
            Change::ParkApproval(it) => parking::step(self, it.clone()).await,
            Change::KeepTranscript(it) => parking::keep_transcript(self, it).await,
            Change::RetireApproval(id) => approvals::retire(self, *id).await,
            Change::MarkBreach { id, what } => approvals::mark_breach(self, *id, what).await,
            Change::SetCursor(it) => consumers::set(self, it).await,
            Change::DeleteCursor { session, consumer } => {
                consumers::delete(self, *session, consumer).await
            }
            Change::SetReadPosition(it) => consumers::set_read_position(self, *it).await,
            Change::AddRule(it) => rules::add(self, it).await,
            Change::RemoveRules(it) => rules::remove(self, *it).await,
            Change::UseRule(it) => rules::use_once(self, *it).await,
            Change::AddToken(it) => tokens::add(self, *it).await,
            Change::RevokeTokens(it) => tokens::revoke(self, *it).await,
            Change::AddDevice(it) => devices::add(self, it).await,
            Change::RevokeDevice(it) => devices::revoke(self, *it).await,
            Change::AppendAudit(it) => audit::append(self, it).await,
            Change::Enqueue(it) => audit::enqueue(self, it).await,
            Change::MarkOutbox(it) => audit::mark(self, it.clone()).await,
            Change::AddSpend(it) => budget::add(self, it.session, it.amount).await,
            Change::CreateTree(it) => arbor::create_tree(self, it).await,
            Change::AppendNode(it) => arbor::append_node(self, it.clone()).await,
            Change::RegisterServer(it) => servers::register(self, it).await,
            Change::RenewLease(it) => servers::renew(self, *it).await,
            Change::RetireServer(lease) => servers::retire(self, *lease).await,
            Change::TakeOver(it) => servers::take_over(self, it).await,
        }
    }
}

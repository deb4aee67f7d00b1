//! One change list being applied: the connection inside its savepoint, and what must be told to whom after the commit.

use std::collections::BTreeMap;

use plexus_core::{ServerId, SessionId};

use super::sql::Conn;
use super::{
    approvals, arbor, audit, budget, chats, consumers, events, rules, runs, servers, sessions,
    tokens,
};
use crate::contract::{Change, Lease, Outcome, StoreError, Topic, UnixMillis};

/// The state of one change list between its savepoint and its release.
pub(super) struct Tx<'c> {
    pub(super) conn: &'c Conn,
    /// One present for the whole list.
    pub(super) now: UnixMillis,
    /// Whom to wake.
    pub(super) topics: Vec<Topic>,
    /// The rows of sessions that changed in a way a reader of the session notices. Written at the end of the group, with the commit's number.
    pub(super) touched: BTreeMap<i64, SessionId>,
    /// The rows of sessions that are gone.
    pub(super) gone: Vec<i64>,
    /// The events it appended: chat, first seq, count. Written at the end of the group, with the commit's number.
    pub(super) batches: Vec<(i64, u32, u32)>,
    /// How many events it appended.
    pub(super) events: u64,
    /// The lease it is written under,
    pub(super) lease: Option<Lease>,
    /// and whether that stood, by the database's clock, when the transaction began. Whoever would end it waits for this transaction.
    pub(super) valid: bool,
    /// The server that is being taken over from: what belongs to it may be ended.
    pub(super) taking: Option<ServerId>,
}

impl<'c> Tx<'c> {
    pub(super) fn new(conn: &'c Conn, lease: Option<Lease>, valid: bool) -> Self {
        Self {
            conn,
            now: UnixMillis::now(),
            topics: Vec::new(),
            touched: BTreeMap::new(),
            gone: Vec::new(),
            batches: Vec::new(),
            events: 0,
            lease,
            valid,
            taking: None,
        }
    }

    /// Notes that a session changed.
    pub(super) fn touch(&mut self, row: i64, id: SessionId) {
        if self.touched.insert(row, id).is_none() {
            self.topics.push(Topic::Session(id));
        }
    }

    /// Notes that a session is gone: its row must not be written to, but its readers are woken.
    pub(super) fn gone(&mut self, row: i64, id: SessionId) {
        self.touched.remove(&row);
        self.gone.push(row);
        self.topics.push(Topic::Session(id));
    }

    /// Applies every change, in order.
    pub(super) async fn apply_all(
        &mut self,
        changes: Vec<Change>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            outcomes.push(self.apply(change).await?);
        }
        Ok(outcomes)
    }

    async fn apply(&mut self, change: Change) -> Result<Outcome, StoreError> {
        match change {
            Change::CreateSession(it) => sessions::create(self, it).await,
            Change::UpdateSession(it) => sessions::update(self, it).await,
            Change::DeleteSession(it) => sessions::delete(self, it).await,
            Change::StartChat(it) => chats::start(self, it).await,
            Change::AssignRun(it) => chats::assign_run(self, it).await,
            Change::EndChat(it) => chats::end(self, it).await,
            Change::AppendEvents(it) => events::append(self, &it).await,
            Change::CreateRun(it) => runs::create(self, &it).await,
            Change::UpdateRun(it) => runs::update(self, it).await,
            Change::SetJournalPosition(it) => runs::set_journal(self, it).await,
            Change::EndRun(it) => runs::end(self, &it).await,
            Change::OpenApproval(it) => approvals::open(self, it).await,
            Change::DecideApproval(it) => approvals::decide(self, it).await,
            Change::EscalateApproval(it) => approvals::escalate(self, it).await,
            Change::SettleApproval(it) => approvals::settle(self, it).await,
            Change::RetireApproval(id) => approvals::retire(self, id).await,
            Change::MarkBreach { id, what } => approvals::mark_breach(self, id, &what).await,
            Change::SetCursor(it) => consumers::set(self, &it).await,
            Change::DeleteCursor { session, consumer } => {
                consumers::delete(self, session, &consumer).await
            }
            Change::SetReadPosition(it) => consumers::set_read_position(self, it).await,
            Change::AddRule(it) => rules::add(self, &it).await,
            Change::RemoveRules(it) => rules::remove(self, it).await,
            Change::UseRule(it) => rules::use_once(self, it).await,
            Change::AddToken(it) => tokens::add(self, it).await,
            Change::RevokeTokens(it) => tokens::revoke(self, it).await,
            Change::AppendAudit(it) => audit::append(self, &it).await,
            Change::Enqueue(it) => audit::enqueue(self, &it).await,
            Change::MarkOutbox(it) => audit::mark(self, it).await,
            Change::AddSpend(it) => budget::add(self, it.session, it.amount).await,
            Change::CreateTree(it) => arbor::create_tree(self, &it).await,
            Change::AppendNode(it) => arbor::append_node(self, it).await,
            Change::RegisterServer(it) => servers::register(self, &it).await,
            Change::RenewLease(it) => servers::renew(self, it).await,
            Change::RetireServer(lease) => servers::retire(self, lease).await,
            Change::TakeOver(it) => servers::take_over(self, &it).await,
        }
    }
}

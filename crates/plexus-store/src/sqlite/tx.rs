//! One change list being applied: the connection inside its savepoint, and what must be told to whom after the commit.

use std::collections::BTreeSet;

use plexus_core::{ServerId, SessionId};
use rusqlite::{Connection, params};

use super::sql::{Sql, int};
use super::{
    approvals, arbor, audit, budget, chats, consumers, events, rules, runs, servers, sessions,
    tokens,
};
use crate::contract::{Change, Lease, Outcome, StoreError, Topic, UnixMillis};

/// The state of one change list between its savepoint and its release.
pub(super) struct Tx<'c> {
    pub(super) conn: &'c Connection,
    /// The number this list will have when it is committed.
    pub(super) commit: u64,
    /// One present for the whole list.
    pub(super) now: UnixMillis,
    /// Whom to wake.
    pub(super) topics: Vec<Topic>,
    /// The rows of sessions that changed in a way a reader of the session notices.
    touched: BTreeSet<i64>,
    /// How many events it appended.
    pub(super) events: u64,
    /// The lease it is written under.
    pub(super) lease: Option<Lease>,
    /// The server that is being taken over from: what belongs to it may be ended.
    pub(super) taking: Option<ServerId>,
}

impl<'c> Tx<'c> {
    pub(super) fn new(conn: &'c Connection, commit: u64, lease: Option<Lease>) -> Self {
        let (topics, touched) = (Vec::new(), BTreeSet::new());
        Self {
            conn,
            commit,
            now: UnixMillis::now(),
            topics,
            touched,
            events: 0,
            lease,
            taking: None,
        }
    }

    /// Notes that a session changed.
    pub(super) fn touch(&mut self, row: i64, id: SessionId) {
        if self.touched.insert(row) {
            self.topics.push(Topic::Session(id));
        }
    }

    /// Notes that a session is gone: its row must not be written to, but its readers are woken.
    pub(super) fn gone(&mut self, row: i64, id: SessionId) {
        self.touched.remove(&row);
        self.topics.push(Topic::Session(id));
    }

    /// Applies every change, in order.
    pub(super) fn apply_all(&mut self, changes: Vec<Change>) -> Result<Vec<Outcome>, StoreError> {
        let outcomes =
            changes.into_iter().map(|change| self.apply(change)).collect::<Result<Vec<_>, _>>()?;
        for row in &self.touched {
            self.conn.run(
                "INSERT INTO session_changes VALUES (?1, ?2) ON CONFLICT (session) DO UPDATE SET changed = ?2",
                params![row, int(self.commit)],
            )?;
        }
        Ok(outcomes)
    }

    fn apply(&mut self, change: Change) -> Result<Outcome, StoreError> {
        match change {
            Change::CreateSession(it) => sessions::create(self, it),
            Change::UpdateSession(it) => sessions::update(self, it),
            Change::DeleteSession(it) => sessions::delete(self, it),
            Change::StartChat(it) => chats::start(self, it),
            Change::AssignRun(it) => chats::assign_run(self, it),
            Change::EndChat(it) => chats::end(self, it),
            Change::AppendEvents(it) => events::append(self, &it),
            Change::CreateRun(it) => runs::create(self, &it),
            Change::UpdateRun(it) => runs::update(self, it),
            Change::SetJournalPosition(it) => runs::set_journal(self, it),
            Change::EndRun(it) => runs::end(self, &it),
            Change::OpenApproval(it) => approvals::open(self, it),
            Change::DecideApproval(it) => approvals::decide(self, it),
            Change::EscalateApproval(it) => approvals::escalate(self, it),
            Change::SettleApproval(it) => approvals::settle(self, it),
            Change::RetireApproval(id) => approvals::retire(self, id),
            Change::MarkBreach { id, what } => approvals::mark_breach(self, id, &what),
            Change::SetCursor(it) => consumers::set(self, &it),
            Change::DeleteCursor { session, consumer } => {
                consumers::delete(self, session, &consumer)
            }
            Change::SetReadPosition(it) => consumers::set_read_position(self, it),
            Change::AddRule(it) => rules::add(self, &it),
            Change::RemoveRules(it) => rules::remove(self, it),
            Change::UseRule(it) => rules::use_once(self, it),
            Change::AddToken(it) => tokens::add(self, it),
            Change::RevokeTokens(it) => tokens::revoke(self, it),
            Change::AppendAudit(it) => audit::append(self, &it),
            Change::Enqueue(it) => audit::enqueue(self, &it),
            Change::MarkOutbox(it) => audit::mark(self, it),
            Change::AddSpend(it) => budget::add(self, it.session, it.amount),
            Change::CreateTree(it) => arbor::create_tree(self, &it),
            Change::AppendNode(it) => arbor::append_node(self, it),
            Change::RegisterServer(it) => servers::register(self, &it),
            Change::RenewLease(it) => servers::renew(self, it),
            Change::RetireServer(lease) => servers::retire(self, lease),
            Change::TakeOver(it) => servers::take_over(self, &it),
        }
    }
}

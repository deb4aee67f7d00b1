//! What a group locks before it reads: every session it touches, in one order, so that two servers
//! wait for each other and never in a circle.
//!
//! A session's row stands for all that is its own: its chats and their events, its runs, its
//! approvals, what it spends.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::sql::{Conn, now};
use crate::contract::{Change, Lease, Owner, StoreError};
use crate::tables::sql::int;

// The lock excludes its like, and not the foreign keys of rows that only name the session.

/// Locks sessions by name.
const SIMPLE: &str = "SELECT id FROM sessions WHERE uuid = ANY($1) ORDER BY id FOR NO KEY UPDATE";

/// Locks sessions by name, those of approvals, and the parents of some.
const FULL: &str =
    "SELECT id FROM sessions WHERE uuid = ANY($1) OR id IN (SELECT session FROM loopback_approvals
     WHERE uuid = ANY($2))
     OR id IN (SELECT parent FROM sessions WHERE uuid = ANY($3)) ORDER BY id FOR NO KEY UPDATE";

/// The sessions to lock.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// By name.
    sessions: BTreeSet<Uuid>,
    /// Those of these approvals.
    approvals: BTreeSet<Uuid>,
    /// The parents of these sessions, whose chats are told of a question.
    parents_of: BTreeSet<Uuid>,
}

impl Locks {
    /// Returns what these changes lock. A reader's position needs no lock, and what a deletion or a
    /// takeover finds is locked when it is found.
    pub(super) fn of<'c>(changes: impl Iterator<Item = &'c Change>) -> Self {
        let mut locks = Self::default();
        for change in changes {
            locks.add(change);
        }
        locks
    }

    fn add(&mut self, change: &Change) {
        let mut session = |id: plexus_core::SessionId| {
            self.sessions.insert(*id.as_uuid());
        };
        match change {
            Change::CreateSession(it) => {
                it.parent.into_iter().chain(it.fork.map(|fork| fork.of)).for_each(&mut session);
                it.room.iter().for_each(|room| session(room.above));
            }
            Change::UpdateSession(it) => session(it.id),
            Change::DeleteSession(it) => session(it.id),
            Change::StartChat(it) => {
                session(it.session);
                it.reserve
                    .iter()
                    .flat_map(|reserve| &reserve.within)
                    .for_each(|limit| session(limit.holder));
            }
            Change::AssignRun(it) => session(it.session),
            Change::EndChat(it) => session(it.session),
            Change::AppendEvents(it) => session(it.session),
            Change::CreateRun(it) => session(it.session),
            Change::UpdateRun(it) => session(it.run.session),
            Change::SetJournalPosition(it) => session(it.run.session),
            Change::EndRun(it) => session(it.run.session),
            Change::OpenApproval(it) => {
                session(it.session);
                self.parents_of.insert(*it.session.as_uuid());
            }
            Change::DecideApproval(it) => drop(self.approvals.insert(*it.id.as_uuid())),
            Change::EscalateApproval(it) => drop(self.approvals.insert(*it.id.as_uuid())),
            Change::SettleApproval(it) => drop(self.approvals.insert(*it.id.as_uuid())),
            Change::ParkApproval(it) => drop(self.approvals.insert(*it.id.as_uuid())),
            Change::KeepTranscript(it) => session(it.session),
            Change::RetireApproval(id) | Change::MarkBreach { id, .. } => {
                self.approvals.insert(*id.as_uuid());
            }
            Change::AddRule(it) => {
                it.scope
                    .session()
                    .into_iter()
                    .chain(it.ends_with.map(|run| run.session))
                    .for_each(&mut session);
                if let Owner::Session(id) = it.author {
                    session(id);
                }
            }
            Change::AddToken(it) => {
                it.caller
                    .session()
                    .into_iter()
                    .chain(it.run.map(|run| run.session))
                    .for_each(&mut session);
            }
            Change::AddSpend(it) => session(it.session),
            Change::SetCursor(_)
            | Change::DeleteCursor { .. }
            | Change::SetReadPosition(_)
            | Change::RemoveRules(_)
            | Change::UseRule(_)
            | Change::RevokeTokens(_)
            | Change::AddDevice(_)
            | Change::RevokeDevice(_)
            | Change::AppendAudit(_)
            | Change::Enqueue(_)
            | Change::MarkOutbox(_)
            | Change::CreateTree(_)
            | Change::AppendNode(_)
            | Change::RegisterServer(_)
            | Change::RenewLease(_)
            | Change::RetireServer(_)
            | Change::TakeOver(_) => {}
        }
    }

    /// Prepares the statement that takes the locks. A caller that sends it together with others must
    /// prepare it first: otherwise the reads could reach the database before the locks do.
    pub(super) async fn prepare(&self, conn: &Conn) -> Result<(), StoreError> {
        conn.statement(if self.are_simple() { SIMPLE } else { FULL }).await.map(drop)
    }

    fn are_simple(&self) -> bool {
        self.approvals.is_empty() && self.parents_of.is_empty()
    }

    /// Takes them; they are held until the transaction ends.
    pub(super) async fn take(&self, conn: &Conn) -> Result<(), StoreError> {
        let list = |set: &BTreeSet<Uuid>| set.iter().copied().collect::<Vec<Uuid>>();
        let sessions = list(&self.sessions);
        if !self.are_simple() {
            let (approvals, parents_of) = (list(&self.approvals), list(&self.parents_of));
            let full = conn.statement(FULL).await?;
            return conn.execute(&full, &[&sessions, &approvals, &parents_of]).await.map(drop);
        }
        if sessions.is_empty() {
            return Ok(());
        }
        conn.execute(&conn.statement(SIMPLE).await?, &[&sessions]).await.map(drop)
    }
}

/// Locks a lease that is valid by the database's clock.
const LEASE: &str = concat!(
    "SELECT 1 FROM servers WHERE uuid = $1 AND epoch = $2 AND state = 0 AND lease_until > ",
    now!(),
    " FOR SHARE"
);

/// Prepares the statement of [`lock_lease`]: see [`Locks::prepare`].
pub(super) async fn prepare_lease(conn: &Conn) -> Result<(), StoreError> {
    conn.statement(LEASE).await.map(drop)
}

/// Locks a lease, so that nobody ends it before this transaction does. Returns whether it is valid.
pub(super) async fn lock_lease(conn: &Conn, lease: Lease) -> Result<bool, StoreError> {
    let statement = conn.statement(LEASE).await?;
    let (server, epoch) = (lease.server.as_uuid(), int(lease.epoch));
    Ok(!conn.query(&statement, &[server, &epoch]).await?.is_empty())
}

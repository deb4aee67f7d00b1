//! Servers that share a store: each holds a lease, owns the runs and chats it began, and is fenced
//! in the commit itself.
//!
//! Operators call them nodes; here they are servers, because a node belongs to Arbor. A handle of
//! the store that has committed a [`RegisterServer`] writes as that server from then on. Callers do
//! not name the lease, so they cannot forget to.
//!
//! - A run or chat that is begun through such a handle belongs to its server.
//! - Every change to a run or chat that belongs to a server
//!   ([`Store::commit`](super::Store::commit) lists them) is checked in the same transaction: the
//!   handle must be that server, with the current epoch and a lease that has not run out by the
//!   store's clock. Otherwise it is [`StoreError::Fenced`] and nothing is stored.
//! - Runs and chats without an owner are not checked: a store that only one server can open needs
//!   no leases.

use std::time::Duration;

use plexus_core::{ApprovalId, ServerId, SessionId};
use plexus_wire::ChatEvent;
pub use plexus_wire::ServerState;
use serde::Serialize;
use serde_json::json;

use super::approval::{
    Again, ApprovalRecord, DecideApproval, DecidedBy, Fate, SettleApproval, Verdict,
};
use super::chat::{EndChat, Ending};
use super::error::StoreError;
use super::event::NewEvent;
use super::json::JsonText;
use super::run::{EndRun, RunKey};
use super::time::UnixMillis;

/// The right to write as a server. Every registration of a server gets a greater epoch, and earlier
/// ones are fenced at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Lease {
    /// The server.
    pub server: ServerId,
    /// Which of its registrations.
    pub epoch: u64,
}

/// Registers a server, or registers it again after a restart: it keeps its runs and chats, unless
/// another server took them over meanwhile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterServer {
    /// Its id; the same at every start of the same server.
    pub id: ServerId,
    /// Its name, for people.
    pub name: String,
    /// The address at which other servers reach it.
    pub url: String,
    /// How long it is trusted without a renewal.
    pub lease: Duration,
}

/// Renews a lease, which must be current and must not have run out: a late server registers again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RenewLease {
    /// The lease.
    pub lease: Lease,
    /// How long it lasts from now on.
    pub lasts: Duration,
}

/// Takes over from a server whose lease has run out by the store's clock; any other lease is a
/// conflict that names it.
///
/// In one transaction: its epoch ends, its open runs end, their chats end `failed` with the reason
/// as their last event, their pending approvals are cancelled, answers that were not delivered
/// become void, and the tokens and rules of the runs are removed. This is final: the server may
/// register again, but does not get them back.
///
/// Agents that are parked or being woken, and whose transcript is in the store, stay: their chats
/// belong to no server then, and whoever wakes one adopts it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// The server, in the epoch that was seen to have expired.
    pub lease: Lease,
    /// Why, for the readers of its chats.
    pub reason: String,
    /// When, for the events.
    pub at: UnixMillis,
}

/// The result of a takeover.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TakenOver {
    /// Runs.
    pub runs: Vec<RunKey>,
    /// Chats, by session and number.
    pub chats: Vec<(SessionId, u32)>,
    /// Approvals that were pending.
    pub cancelled: Vec<ApprovalId>,
    /// Approvals that were decided and whose answer will not be delivered.
    pub voided: Vec<ApprovalId>,
    /// Approvals whose agents stay parked.
    pub parked: Vec<ApprovalId>,
}

/// One server that has registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Server {
    /// Its newest lease.
    pub lease: Lease,
    /// Its name, for people.
    pub name: String,
    /// The address at which other servers reach it.
    pub url: String,
    /// Its state.
    pub state: ServerState,
    /// How much of its lease is left, by the store's clock.
    pub lease_left: Duration,
    /// How long ago it registered or renewed, by the store's clock.
    pub heartbeat_age: Duration,
    /// How many open runs it has.
    pub open_runs: u64,
    /// How many open chats it has.
    pub open_chats: u64,
}

impl TakeOver {
    /// Cancels a pending approval of the dead server.
    ///
    /// # Errors
    /// When its event cannot be represented as JSON.
    pub(crate) fn cancel(&self, record: &ApprovalRecord) -> Result<DecideApproval, StoreError> {
        let message = Some(self.reason.clone());
        let resolved = ChatEvent::ApprovalResolved {
            approval_id: record.id,
            approved: false,
            message: message.clone(),
            updated_input: None,
            answers: None,
            decided_by: DecidedBy::AgentEnded,
        };
        Ok(DecideApproval {
            id: record.id,
            expects_digest: None,
            verdict: Verdict::Cancel,
            by: DecidedBy::AgentEnded,
            message,
            at: self.at,
            event: Some(NewEvent::of(&resolved, self.at)?),
            again: Again::Fine,
            outbox: Vec::new(),
        })
    }

    /// Tells the chat of a parked agent that its server is gone.
    ///
    /// # Errors
    /// When it cannot be represented as JSON.
    pub(crate) fn stays_parked(&self) -> Result<NewEvent, StoreError> {
        let words = format!(
            "{}; the agent stays parked, and a server that has its directory wakes it",
            self.reason
        );
        NewEvent::of(&ChatEvent::notice(words), self.at)
    }

    /// Makes the answer to a decided approval of the dead server void.
    pub(crate) fn void(&self, id: ApprovalId) -> SettleApproval {
        SettleApproval { id, fate: Fate::Void, at: self.at }
    }

    /// Ends a chat of the dead server.
    ///
    /// # Errors
    /// When its event cannot be represented as JSON.
    pub(crate) fn end_chat(&self, session: SessionId, chat: u32) -> Result<EndChat, StoreError> {
        let failed = ChatEvent::Error { message: self.reason.clone() };
        let event = NewEvent::of(&failed, self.at)?;
        let ending = Ending::Failed(self.reason.clone());
        Ok(EndChat { session, chat, ending, usage: None, event })
    }

    /// Ends a run of the dead server.
    pub(crate) fn end_run(&self, run: RunKey) -> EndRun {
        EndRun {
            run,
            exit: JsonText::from(json!({ "reason": self.reason, "server": self.lease.server })),
        }
    }
}

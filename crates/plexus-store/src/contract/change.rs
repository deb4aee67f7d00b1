//! Changes: one list is one transaction, all or nothing.

use plexus_core::{ApprovalId, SessionId};

use super::approval::{
    ApprovalRecord, DecideApproval, EscalateApproval, KeepTranscript, OpenApproval, ParkApproval,
    SettleApproval,
};
use super::arbor::{AppendNode, CreateTree, Position};
use super::audit::{AuditLine, MarkOutbox, OutboxEntry};
use super::budget::AddSpend;
use super::chat::{AssignRun, EndChat, Fresh, StartChat, StartedChat};
use super::cursor::{SetCursor, SetReadPosition};
use super::device::{AddDevice, RevokeDevice};
use super::event::AppendEvents;
use super::rule::{NewRule, RemoveRules, StoredRule, UseRule};
use super::run::{CreateRun, EndRun, RunKey, SetJournalPosition, UpdateRun};
use super::server::{Lease, RegisterServer, RenewLease, TakeOver, TakenOver};
use super::session::{CreateSession, DeleteSession, UpdateSession};
use super::token::{RevokeTokens, Token};

/// One change. Each names the state it expects; in another state, the whole list is refused
/// with the typed error of that change.
///
/// Changes of one list see those before them: a session created first can start a chat second.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "changes are moved once, from the caller to the writer"
)]
pub enum Change {
    /// Creates a session → [`Outcome::Session`].
    CreateSession(CreateSession),
    /// Changes fields of a session → [`Outcome::Done`].
    UpdateSession(UpdateSession),
    /// Removes a session → [`Outcome::Deleted`].
    DeleteSession(DeleteSession),
    /// Starts a chat → [`Outcome::Chat`].
    StartChat(StartChat),
    /// Says which run serves a chat → [`Outcome::Done`].
    AssignRun(AssignRun),
    /// Ends a chat → [`Outcome::Events`] with the seq of the final event.
    EndChat(EndChat),
    /// Appends events → [`Outcome::Events`].
    AppendEvents(AppendEvents),
    /// Creates a run → [`Outcome::Run`].
    CreateRun(CreateRun),
    /// Changes a run → [`Outcome::Done`].
    UpdateRun(UpdateRun),
    /// Moves a journal position → [`Outcome::Done`].
    SetJournalPosition(SetJournalPosition),
    /// Ends a run → [`Outcome::Done`].
    EndRun(EndRun),
    /// Opens an approval → [`Outcome::Approval`].
    OpenApproval(OpenApproval),
    /// Decides an approval → [`Outcome::Approval`].
    DecideApproval(DecideApproval),
    /// Passes an approval on → [`Outcome::Approval`].
    EscalateApproval(EscalateApproval),
    /// Records whether the answer reached the child → [`Outcome::Approval`].
    SettleApproval(SettleApproval),
    /// Moves an approval towards having no process, or back → [`Outcome::Approval`].
    ParkApproval(ParkApproval),
    /// Keeps the transcript of a parked agent → [`Outcome::Done`].
    KeepTranscript(KeepTranscript),
    /// Frees the request's key, once the tool's result was seen → [`Outcome::Done`]. Doing it twice
    /// is once.
    RetireApproval(ApprovalId),
    /// Notes that the child did something else than was decided → [`Outcome::Done`]. The first text
    /// stays.
    MarkBreach {
        /// The approval.
        id: ApprovalId,
        /// A description of the breach.
        what: String,
    },
    /// Moves or makes a consumer → [`Outcome::Done`].
    SetCursor(SetCursor),
    /// Removes a consumer, which must exist → [`Outcome::Done`].
    DeleteCursor {
        /// The session.
        session: SessionId,
        /// Its name.
        consumer: String,
    },
    /// Moves the default read position → [`Outcome::Done`].
    SetReadPosition(SetReadPosition),
    /// Adds a rule → [`Outcome::Done`].
    AddRule(NewRule),
    /// Removes rules → [`Outcome::Count`].
    RemoveRules(RemoveRules),
    /// Counts a rule's decision → [`Outcome::Rule`].
    UseRule(UseRule),
    /// Adds a token; the same hash again is a conflict → [`Outcome::Done`].
    AddToken(Token),
    /// Revokes tokens → [`Outcome::Count`].
    RevokeTokens(RevokeTokens),
    /// Adds a device of the operator → [`Outcome::Done`].
    AddDevice(AddDevice),
    /// Revokes a device and its tokens → [`Outcome::Count`] of the tokens.
    RevokeDevice(RevokeDevice),
    /// Adds to the audit → [`Outcome::Done`].
    AppendAudit(AuditLine),
    /// Puts a message into the outbox → [`Outcome::Done`].
    Enqueue(OutboxEntry),
    /// Records the result of sending an entry → [`Outcome::Done`].
    MarkOutbox(MarkOutbox),
    /// Adds to the spending of a session → [`Outcome::Done`].
    AddSpend(AddSpend),
    /// Creates a tree → [`Outcome::Node`] with its root.
    CreateTree(CreateTree),
    /// Appends a node → [`Outcome::Node`].
    AppendNode(AppendNode),
    /// Registers a server → [`Outcome::Lease`]. From this change on the handle that commits it
    /// writes as that server.
    RegisterServer(RegisterServer),
    /// Renews a lease → [`Outcome::Done`].
    RenewLease(RenewLease),
    /// Ends the lease of a server that leaves, and with it what its handle may write as it →
    /// [`Outcome::Done`]. With open runs or chats it is a conflict: those wait for its return, or
    /// for the end of its lease.
    RetireServer(Lease),
    /// Takes over from a server whose lease has run out → [`Outcome::TakenOver`].
    TakeOver(TakeOver),
}

/// The result of one change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "outcomes are few and short-lived")]
pub enum Outcome {
    /// The change was made.
    Done,
    /// A session was created.
    Session {
        /// Its id.
        id: SessionId,
        /// Its tree and head.
        head: Position,
    },
    /// These sessions were removed, deepest first: their runs are to be ended and their files
    /// removed.
    Deleted(Vec<SessionId>),
    /// A chat was started, or found.
    Chat(StartedChat),
    /// Events were appended.
    Events {
        /// The seq of the first of them.
        first_seq: u32,
        /// How many.
        count: u32,
    },
    /// A run was created.
    Run(RunKey),
    /// The approval as it is now.
    Approval {
        /// The record.
        record: ApprovalRecord,
        /// Whether this change made it so.
        fresh: Fresh,
    },
    /// The rule as it is now.
    Rule(StoredRule),
    /// How many were removed.
    Count(u64),
    /// A node was made.
    Node(Position),
    /// A server was registered.
    Lease(Lease),
    /// A server was taken over from.
    TakenOver(TakenOver),
}

/// A change list that is in the store, for good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The number of this commit: greater than that of every commit before it, also across
    /// restarts.
    pub commit: u64,
    /// The result of each change, in the order of the list.
    pub outcomes: Vec<Outcome>,
}

impl Committed {
    /// Returns the approval of the first outcome that has one.
    #[must_use]
    pub fn approval(&self) -> Option<(&ApprovalRecord, Fresh)> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Approval { record, fresh } => Some((record, *fresh)),
            _ => None,
        })
    }

    /// Returns the chat that was started or found.
    #[must_use]
    pub fn chat(&self) -> Option<StartedChat> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Chat(chat) => Some(*chat),
            _ => None,
        })
    }

    /// Returns the lease of the server that was registered.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Lease(lease) => Some(*lease),
            _ => None,
        })
    }

    /// Returns the run that was created.
    #[must_use]
    pub fn run(&self) -> Option<RunKey> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Run(run) => Some(*run),
            _ => None,
        })
    }
}

/// Which of the waiting change lists go first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// Somebody stands still until it is done: approvals and their decisions.
    Urgent,
    /// Everything else, in the order it came.
    #[default]
    Normal,
}

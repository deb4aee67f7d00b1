//! The contract of every engine: plain data, the changes, and the [`Store`] trait.
//!
//! In reading order: [`store`] is the trait, [`change`] lists the changes; then one module for
//! each subject.

pub mod approval;
pub mod arbor;
pub mod audit;
pub mod budget;
pub mod change;
pub mod chat;
pub(crate) mod check;
pub mod cursor;
pub mod device;
pub mod error;
pub mod event;
pub mod json;
pub mod limits;
pub mod page;
pub(crate) mod refusal;
pub mod rule;
pub mod run;
pub mod search;
pub mod server;
pub mod session;
pub mod store;
mod sync;
pub mod time;
pub mod token;
pub mod wake;
#[cfg(test)]
mod wake_tests;

pub use approval::{
    Again, ApprovalFilter, ApprovalRecord, ApprovalStatus, DecideApproval, DecidedBy, Decision,
    Due, EscalateApproval, Fate, KeepTranscript, OpenApproval, Owner, ParkApproval, ParkStep,
    Parking, SettleApproval, Stage, Verdict,
};
pub use arbor::{AppendNode, CreateTree, Node, NodeData, OutlineEntry, Position, Tree};
pub use audit::{AuditLine, MarkOutbox, NumberedLine, OutboxDue, OutboxEntry, Sending, Waiting};
pub use budget::{AddSpend, Reservation, Spend, SpendLimit, SpendTotals, SubtreeSpend};
pub use change::{Change, Committed, Outcome, Priority};
pub use chat::{
    AssignRun, Chat, ChatStatus, EndChat, Ending, Fresh, Origin, PromptImage, StartChat,
    StartedChat, Trace,
};
pub use cursor::{Consumer, Cursor, SetCursor, SetReadPosition};
pub use device::{AddDevice, Device, RevokeDevice};
pub use error::{StoreError, Thing};
pub use event::{
    AppendEvents, Event, EventPage, FIRST_OWNER, FeedEvent, FeedPage, HANDLE_VERSION, NewEvent,
    ReadLimit, event_handle, first_owner, stream_handle,
};
pub use json::JsonText;
pub use page::{Page, PageRequest, PageToken};
pub use rule::{NewRule, RemoveRules, RuleDecision, RuleScope, StoredRule, UseRule};
pub use run::{
    CreateRun, EndRun, JournalPosition, RunKey, RunRecord, SetJournalPosition, UpdateRun,
};
pub(crate) use search::Term;
pub use search::{
    Indexed, MAX_QUERY_BYTES, MAX_QUERY_WORDS, SearchFilter, SearchHit, SearchKind, SearchPage,
    SearchPiece, SearchQuery,
};
pub use server::{Lease, RegisterServer, RenewLease, Server, ServerState, TakeOver, TakenOver};
pub use session::{
    ChangedSessions, ChatFacts, Children, CreateSession, DeleteSession, Fork, Patch, Room,
    SessionFilter, SessionRecord, SessionStatus, UpdateSession,
};
pub use store::{Counts, Prompts, Pruned, Store};
pub use time::UnixMillis;
#[cfg(feature = "virtual-time")]
pub use time::virtual_time;
pub use token::{RevokeTokens, Token, TokenHash};
pub use wake::{Topic, Wake, Wakes};

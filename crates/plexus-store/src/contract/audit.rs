//! What must be told: audit lines that stay, and webhook messages that wait to be sent.

use plexus_core::SessionId;
use serde::Serialize;
use uuid::Uuid;

use super::json::JsonText;
use super::time::UnixMillis;

/// One line of the audit. Lines are only ever added; `prune` removes old ones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AuditLine {
    /// When.
    pub at: UnixMillis,
    /// What kind of thing happened, for example `approval.decided` or `breach`.
    pub kind: String,
    /// The session it is about. It stays in the audit after the session is gone.
    pub session: Option<SessionId>,
    /// The rest; an object.
    pub body: JsonText,
}

/// A message for somebody outside, kept until it is sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OutboxEntry {
    /// Its id, made by the caller; the same id again is ignored.
    pub id: Uuid,
    /// What it tells, for example `approval.requested`.
    pub kind: String,
    /// Where it goes; the name of a configured endpoint.
    pub target: String,
    /// The message; an object.
    pub body: JsonText,
    /// When what it tells happened.
    pub created_at: UnixMillis,
    /// When it is sent next; while it is being sent, when somebody else would.
    pub due_at: UnixMillis,
    /// How often sending it failed.
    pub attempts: u32,
    /// What the last failure was.
    pub last_error: Option<String>,
}

/// What is to be sent to one target.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutboxDue {
    /// Entries that are due, oldest due time first, at most as many as were asked for.
    pub entries: Vec<OutboxEntry>,
    /// When the next one that is not among them becomes due; `None` when there is none.
    pub next: Option<UnixMillis>,
}

/// What waits for one target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Waiting {
    /// The target.
    pub target: String,
    /// How many entries.
    pub entries: u64,
    /// When what the oldest of them tells happened.
    pub oldest: UnixMillis,
}

/// What became of sending an entry. It must be waiting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkOutbox {
    /// The entry.
    pub id: Uuid,
    /// What became of it.
    pub result: Sending,
}

/// What became of sending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sending {
    /// It begins: until then nobody else sends it. If it was begun, sent or tried since it was
    /// read, it is not found.
    Begun {
        /// When it was due, as it was read.
        due_at: UnixMillis,
        /// When somebody else may, should nothing more be heard of this.
        until: UnixMillis,
    },
    /// It arrived; the entry goes.
    Sent,
    /// It did not; it is tried again.
    Failed {
        /// When.
        retry_at: UnixMillis,
        /// Why.
        error: String,
    },
    /// It never will; the entry goes, and the audit should say so.
    GivenUp,
}

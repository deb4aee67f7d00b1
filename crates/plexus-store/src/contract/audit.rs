//! The audit log, and the outbox of webhook messages that wait to be sent.

use plexus_core::SessionId;
use serde::Serialize;
use uuid::Uuid;

use super::json::JsonText;
use super::time::UnixMillis;

/// One line of the audit log. Lines are only ever added; `prune` removes old ones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AuditLine {
    /// When.
    pub at: UnixMillis,
    /// The kind of event, for example `approval.decided` or `breach`.
    pub kind: String,
    /// The session it is about. The line stays after the session is gone.
    pub session: Option<SessionId>,
    /// The rest; an object.
    pub body: JsonText,
}

/// A line of the audit as it is read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NumberedLine {
    /// Its number; later lines have larger ones.
    pub number: u64,
    /// The line.
    #[serde(flatten)]
    pub line: AuditLine,
}

/// A message for a receiver outside, kept until it is sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OutboxEntry {
    /// Its id, made by the caller; the same id again is ignored.
    pub id: Uuid,
    /// The kind of message, for example `approval.requested`.
    pub kind: String,
    /// Where it goes; the name of a configured endpoint.
    pub target: String,
    /// The message; an object.
    pub body: JsonText,
    /// When the event that it reports happened.
    pub created_at: UnixMillis,
    /// When it is sent next; while it is being sent, when another sender may take over.
    pub due_at: UnixMillis,
    /// How often sending it failed.
    pub attempts: u32,
    /// The last failure.
    pub last_error: Option<String>,
}

/// Outbox entries for one target.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutboxDue {
    /// Entries that are due, oldest due time first, at most as many as were asked for.
    pub entries: Vec<OutboxEntry>,
    /// When the next one that is not among them becomes due; `None` when there is none.
    pub next: Option<UnixMillis>,
}

/// The backlog of one target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Waiting {
    /// The target.
    pub target: String,
    /// How many entries.
    pub entries: u64,
    /// When the event that the oldest of them reports happened.
    pub oldest: UnixMillis,
}

/// Records the result of sending an entry, which must be waiting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkOutbox {
    /// The entry.
    pub id: Uuid,
    /// The result.
    pub result: Sending,
}

/// The result of sending an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sending {
    /// Sending begins: nobody else sends it before `until`. When the entry was begun, sent or tried
    /// after it was read, this is `NotFound`.
    Begun {
        /// When it was due, as it was read.
        due_at: UnixMillis,
        /// When another sender may try, if no result is recorded.
        until: UnixMillis,
    },
    /// It arrived; the entry is removed.
    Sent,
    /// It did not arrive and is tried again.
    Failed {
        /// When.
        retry_at: UnixMillis,
        /// Why.
        error: String,
    },
    /// It will never be sent; the entry is removed, and the audit should say so.
    GivenUp,
}

//! Errors of the store, one variant for each thing that a caller can do next.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plexus_core::{CallError, ErrorKind};
use serde::Serialize;
use serde_json::Value;

/// The kind of thing that was not found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thing {
    /// A session.
    Session,
    /// A chat of a session.
    Chat,
    /// An event.
    Event,
    /// A run.
    Run,
    /// An approval.
    Approval,
    /// A rule.
    Rule,
    /// A named consumer.
    Consumer,
    /// An Arbor tree.
    Tree,
    /// An Arbor node.
    Node,
    /// An entry of the outbox.
    Outbox,
    /// A server that shares the store.
    Server,
    /// A device of the operator.
    Device,
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Chat => "chat",
            Self::Event => "event",
            Self::Run => "run",
            Self::Approval => "approval",
            Self::Rule => "rule",
            Self::Consumer => "consumer",
            Self::Tree => "tree",
            Self::Node => "node",
            Self::Outbox => "outbox entry",
            Self::Server => "server",
            Self::Device => "device",
        })
    }
}

/// Why the store refused. Whatever the variant, nothing of the refused change list was written.
///
/// Messages are lowercase fragments that read well after "could not".
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It does not exist.
    #[error("find the {what} {id}")]
    NotFound {
        /// Its kind.
        what: Thing,
        /// Which one was asked for.
        id: String,
    },
    /// A precondition does not hold: the current record differs from what the caller expects.
    #[error("{message}")]
    Conflict {
        /// The attempt, and why it was refused.
        message: String,
        /// The current record, as JSON: a session, a chat, an approval, a run, a position.
        standing: Value,
    },
    /// The request itself is wrong; the same one will fail again.
    #[error("{message}")]
    Invalid {
        /// The mistake, and the bound if there is one.
        message: String,
    },
    /// A limit is reached.
    #[error("{message}")]
    Busy {
        /// Which limit.
        message: String,
        /// How long to wait before trying again.
        retry_after: Duration,
    },
    /// The store cannot be written or read right now: disk full, an I/O error. It stays consistent
    /// and works again once the cause is gone.
    #[error("use the store: {message}")]
    Unavailable {
        /// The system's own message.
        message: String,
        /// The underlying error, for the log.
        #[source]
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// The file is damaged. It was left as it is.
    #[error("read the store: {message}; restore a backup, or move the file away to start anew")]
    Corrupt {
        /// The damage.
        message: String,
    },
    /// The file was written by a newer version of Plexus. It was left as it is.
    #[error(
        "open the store: its schema is version {found} and this build knows up to {known}; use a \
         newer build"
    )]
    Newer {
        /// The version of the file.
        found: i64,
        /// The newest version this build knows.
        known: i64,
    },
    /// The file is a database, but not ours. It was left as it is.
    #[error("open the store: {message}; choose another data directory")]
    Foreign {
        /// A description of the file that was found.
        message: String,
    },
    /// Another server has the store open.
    #[error(
        "open the store: {holder} has it open; stop that server first, or use another data \
         directory"
    )]
    Locked {
        /// Who holds the lock.
        holder: String,
    },
    /// A flush to disk failed. The state of the disk is unknown until the file is opened again, so
    /// nothing more is written: stop the server.
    #[error("trust the disk: {message}; stop the server and check the disk")]
    Poisoned {
        /// The failure.
        message: String,
    },
    /// This server may not write: its lease has run out or was ended, or the record belongs to
    /// another server.
    #[error("{message}")]
    Fenced {
        /// The attempt, and the owner.
        message: String,
    },
    /// The store has been closed.
    #[error("use the store: it is closed")]
    Closed,
}

impl StoreError {
    /// Makes a [`StoreError::NotFound`].
    pub fn not_found(what: Thing, id: impl fmt::Display) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    /// Makes a [`StoreError::Conflict`] that carries the current record.
    pub fn conflict(message: impl fmt::Display, standing: &impl Serialize) -> Self {
        Self::Conflict {
            message: message.to_string(),
            standing: serde_json::to_value(standing).unwrap_or(Value::Null),
        }
    }

    /// Makes a [`StoreError::Invalid`].
    pub fn invalid(message: impl fmt::Display) -> Self {
        Self::Invalid { message: message.to_string() }
    }

    /// Makes a [`StoreError::Fenced`].
    pub fn fenced(message: impl fmt::Display) -> Self {
        Self::Fenced { message: message.to_string() }
    }

    /// Makes a [`StoreError::Busy`].
    pub fn busy(message: impl fmt::Display, retry_after: Duration) -> Self {
        Self::Busy { message: message.to_string(), retry_after }
    }

    /// Returns whether the server must stop: it could otherwise promise data that the disk does not
    /// hold.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Poisoned { .. })
    }
}

/// How long a caller waits before it tries again when the disk, not the load, is the cause.
const RETRY_UNAVAILABLE: Duration = Duration::from_secs(1);

impl From<StoreError> for CallError {
    /// Converts the error for a caller; the sources go to the log only.
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        match error {
            StoreError::NotFound { .. } => CallError::not_found(message),
            StoreError::Conflict { standing, .. } => {
                let conflict = CallError::conflict(message);
                // Ids mean the same everywhere. A record has the store's own shape: the code that
                // answers a caller converts it to the wire's shape.
                if matches!(standing, Value::String(_) | Value::Array(_)) {
                    conflict.with_standing(standing)
                } else {
                    conflict
                }
            }
            StoreError::Invalid { .. } => CallError::invalid(message),
            StoreError::Busy { retry_after, .. } => CallError::busy(message, millis(retry_after)),
            StoreError::Unavailable { source, .. } => {
                tracing::warn!(%message, source = source.as_ref().map(tracing::field::display), "the store is unavailable");
                let mut call = CallError::unavailable(message)
                    .with_hint("nothing was changed; free the disk, then try again");
                call.retry_after_ms = Some(millis(RETRY_UNAVAILABLE));
                call
            }
            StoreError::Fenced { .. } => {
                tracing::warn!(%message, "this server is fenced");
                CallError::unavailable(message)
                    .with_hint("nothing was changed; ask the server that owns the session")
            }
            StoreError::Corrupt { .. }
            | StoreError::Newer { .. }
            | StoreError::Foreign { .. }
            | StoreError::Locked { .. }
            | StoreError::Poisoned { .. }
            | StoreError::Closed => {
                tracing::error!(%message, "the store cannot be used");
                CallError::new(ErrorKind::Unavailable, message)
            }
        }
    }
}

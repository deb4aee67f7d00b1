//! Chats: one prompt and all that follows from it, numbered 0, 1, 2… within its session, each with
//! one event stream.

use plexus_core::{EventId, NodeId, PluginId, ServerId, SessionId, TreeId};
pub use plexus_wire::{ChatStatus, PromptImage};
use serde::Serialize;
use uuid::Uuid;

use super::arbor::Position;
use super::budget::Reservation;
use super::event::{NewEvent, first_owner};
use super::json::JsonText;
use super::time::UnixMillis;

/// One chat and its stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Chat {
    /// Its session.
    pub session: SessionId,
    /// Its number within the session.
    pub number: u32,
    /// The activation that owns its handles. It never changes.
    pub owner: PluginId,
    /// Its status.
    pub status: ChatStatus,
    /// The uuid its prompt carries to the CLI, so that the same prompt sent twice runs once.
    pub prompt_uuid: Uuid,
    /// The caller's key: the same key again finds this chat.
    pub idempotency_key: Option<String>,
    /// Whether the session continues after it (`Kept`) or as if it had not been (`Ephemeral`).
    pub trace: Trace,
    /// Who started it.
    pub origin: Origin,
    /// The run that serves it.
    pub run: Option<u32>,
    /// The server it belongs to; `None` where the store has one server and no leases.
    pub server: Option<ServerId>,
    /// The session's tree.
    pub tree: TreeId,
    /// The node of the prompt.
    pub user_node: NodeId,
    /// The node its events hang from.
    pub root_node: NodeId,
    /// The node of its newest event.
    pub head_node: NodeId,
    /// When it started.
    pub started_at: UnixMillis,
    /// When it ended.
    pub ended_at: Option<UnixMillis>,
    /// Why it failed or was cancelled.
    pub error: Option<String>,
    /// Its usage, from its `complete` event.
    pub usage: Option<JsonText>,
    /// How many events it has; the next one gets this seq.
    pub total_events: u32,
    /// The default read position: the seq of the first event that no `poll` has sent.
    pub read_position: u32,
    /// Whether retention has removed the content of its events.
    pub pruned: bool,
}

/// Whether a chat leaves a trace in its session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    /// The next chat starts after this one.
    Kept,
    /// The next chat starts where this one did; its events stay readable.
    Ephemeral,
}

/// Who started a chat.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A caller's prompt.
    Prompt,
    /// The child itself: a task's notification, a wake-up.
    SelfStarted,
}

/// Starts a chat: the node of the prompt, the stream's root node and the `start` event (seq 0),
/// after the session's head.
///
/// A session with an open chat refuses with a conflict that names it; callers answer `busy`. So
/// does one with an open run of another server, with a conflict that names the run: the prompt is
/// for that server to take. The same idempotency key again changes nothing and returns the chat
/// that has it, whatever has become of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartChat {
    /// The session.
    pub session: SessionId,
    /// The activation that owns its handles, and those of its events.
    pub owner: PluginId,
    /// The prompt.
    pub prompt: String,
    /// Its images; the text of the prompt mentions each.
    pub images: Vec<PromptImage>,
    /// Travels with the prompt.
    pub prompt_uuid: Uuid,
    /// The caller's key, if it gave one.
    pub idempotency_key: Option<String>,
    /// Whether the session continues after it.
    pub trace: Trace,
    /// Who started it.
    pub origin: Origin,
    /// The run that serves it, if there is one already.
    pub run: Option<u32>,
    /// Its reservation; a chat that is found makes none.
    pub reserve: Option<Reservation>,
    /// When.
    pub at: UnixMillis,
}

impl StartChat {
    /// A caller's prompt, now, to an agent whose handles are of
    /// [`FIRST_OWNER`](super::FIRST_OWNER).
    pub fn new(session: SessionId, prompt: impl Into<String>) -> Self {
        Self {
            session,
            owner: first_owner(),
            prompt: prompt.into(),
            images: Vec::new(),
            prompt_uuid: Uuid::now_v7(),
            idempotency_key: None,
            trace: Trace::Kept,
            origin: Origin::Prompt,
            run: None,
            reserve: None,
            at: UnixMillis::now(),
        }
    }
}

/// A chat that was started or found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartedChat {
    /// Its number.
    pub chat: u32,
    /// Whether this call made it, or its idempotency key found it.
    pub fresh: Fresh,
    /// The node of the prompt.
    pub user_position: Position,
    /// The id of its `start` event.
    pub start_event: EventId,
    /// The uuid its prompt carries: the one of the call that made it.
    pub prompt_uuid: Uuid,
}

/// Whether a change made something or found that it was there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fresh {
    /// It is new.
    Made,
    /// It was there; nothing changed.
    Found,
}

/// Says which run serves a chat. The chat must be open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssignRun {
    /// The session.
    pub session: SessionId,
    /// The chat.
    pub chat: u32,
    /// The run.
    pub run: u32,
}

/// How a chat ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// With a result.
    Complete,
    /// With an error, and this reason.
    Failed(String),
    /// Cancelled, for this reason.
    Cancelled(String),
}

impl Ending {
    /// Returns the status a chat has after it.
    #[must_use]
    pub fn status(&self) -> ChatStatus {
        match self {
            Self::Complete => ChatStatus::Complete,
            Self::Failed(_) => ChatStatus::Failed,
            Self::Cancelled(_) => ChatStatus::Cancelled,
        }
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Complete => None,
            Self::Failed(reason) | Self::Cancelled(reason) => Some(reason),
        }
    }
}

/// Ends a chat, with its last event, and releases what it had reserved. A chat that has ended
/// already is a conflict that names how.
///
/// The session's head becomes the node of `event` (whose id, and so node, the caller chose), unless
/// the chat is ephemeral.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndChat {
    /// The session.
    pub session: SessionId,
    /// The chat.
    pub chat: u32,
    /// How it ends.
    pub ending: Ending,
    /// Its usage.
    pub usage: Option<JsonText>,
    /// The final `complete` or `error` event.
    pub event: NewEvent,
}

//! Events of a chat, as its readers see them. `seq` counts 0, 1, 2… within the chat, without gap or
//! repeat.

use std::sync::LazyLock;

use plexus_core::{EventId, Handle, NodeId, PluginId, SessionId};
use plexus_wire::ChatEvent;
use serde::Serialize;

use super::chat::ChatStatus;
use super::cursor::Cursor;
use super::error::StoreError;
use super::json::JsonText;
use super::time::UnixMillis;

/// The path and major version of the activation that owns streams and their events when a chat
/// names no other. All data of the first releases have this owner.
pub const FIRST_OWNER: (&str, u64) = ("claudecode", 1);

/// The version of the handle format of every owner.
pub const HANDLE_VERSION: &str = "1.0.0";

static FIRST: LazyLock<PluginId> = LazyLock::new(|| PluginId::of(FIRST_OWNER.0, FIRST_OWNER.1));

/// Returns the plugin id of [`FIRST_OWNER`].
#[must_use]
pub fn first_owner() -> PluginId {
    *FIRST
}

/// Returns the handle of an event: method `chat_event`, meta `[event_id, event_type]`.
#[must_use]
pub fn event_handle(owner: PluginId, id: EventId, event_type: &str) -> Handle {
    Handle::new(owner, HANDLE_VERSION, "chat_event")
        .with_meta([id.to_string(), event_type.to_owned()])
}

/// Returns the handle of a chat's stream: method `chat_stream`, meta `[session_id, chat]`. It is
/// the data of the stream's root node, and its owner is the owner of the chat and of its events.
#[must_use]
pub fn stream_handle(owner: PluginId, session: SessionId, chat: u32) -> Handle {
    Handle::new(owner, HANDLE_VERSION, "chat_stream")
        .with_meta([session.to_string(), chat.to_string()])
}

/// An event to append.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEvent {
    /// Its id, made by the caller. The event's node has the same UUID, so a body may name its own
    /// node.
    pub id: EventId,
    /// Its type, for example `content`.
    pub event_type: String,
    /// The whole event as readers see it; an object, with its `type` inside.
    pub body: JsonText,
    /// When it happened.
    pub timestamp: UnixMillis,
}

impl NewEvent {
    /// Makes an event that happens now.
    pub fn now(event_type: impl Into<String>, body: JsonText) -> Self {
        Self {
            id: EventId::generate(),
            event_type: event_type.into(),
            body,
            timestamp: UnixMillis::now(),
        }
    }

    /// Makes an event that the store itself reports.
    ///
    /// # Errors
    /// When it cannot be represented as JSON, which these types rule out.
    pub(crate) fn of(event: &ChatEvent, timestamp: UnixMillis) -> Result<Self, StoreError> {
        Ok(Self { timestamp, ..Self::now(event.type_name(), JsonText::of(event)?) })
    }

    /// Returns the node it will have.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        NodeId::from_uuid(*self.id.as_uuid())
    }
}

/// A stored event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Event {
    /// Its session.
    pub session: SessionId,
    /// Its chat.
    pub chat: u32,
    /// The owner of its handle, which is that of its chat.
    pub owner: PluginId,
    /// Its number within the chat.
    pub seq: u32,
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: String,
    /// The whole event as readers see it.
    pub body: JsonText,
    /// When it happened.
    pub timestamp: UnixMillis,
}

impl Event {
    /// Returns its node in the session's tree.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        NodeId::from_uuid(*self.id.as_uuid())
    }

    /// Returns its handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        event_handle(self.owner, self.id, &self.event_type)
    }

    /// Returns the position after it.
    #[must_use]
    pub fn cursor_after(&self) -> Cursor {
        Cursor { session: self.session, chat: self.chat, next: self.seq + 1 }
    }
}

/// Appends events to an open chat, in order, each as a node after the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendEvents {
    /// The session.
    pub session: SessionId,
    /// The chat; one that has ended refuses with a conflict.
    pub chat: u32,
    /// The events.
    pub events: Vec<NewEvent>,
}

/// Some events of a session, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// The position after the last of them (or the one asked for, when there are none).
    pub next: Cursor,
    /// Whether there are more right now.
    pub has_more: bool,
    /// The status, when the page was read, of the chat that `next` is in.
    pub status: Option<ChatStatus>,
    /// How many events that chat had.
    pub total_events: u32,
    /// The default read position of `poll` in that chat.
    pub read_position: u32,
}

impl EventPage {
    /// Makes the page for a position in a chat that has not begun.
    pub(crate) fn before_any_chat(next: Cursor) -> Self {
        Self {
            events: Vec::new(),
            next,
            has_more: false,
            status: None,
            total_events: 0,
            read_position: 0,
        }
    }
}

/// How much one read may return. Both bounds are cut to
/// [`MAX_PAGE_EVENTS`](super::limits::MAX_PAGE_EVENTS) and
/// [`MAX_PAGE_BYTES`](super::limits::MAX_PAGE_BYTES). A first event that is larger than the byte
/// limit is returned alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadLimit {
    /// How many events.
    pub events: usize,
    /// How many bytes of bodies.
    pub bytes: usize,
}

impl ReadLimit {
    /// Limits a read to `events` events, and to the largest page in bytes.
    #[must_use]
    pub fn events(events: usize) -> Self {
        Self { events, bytes: super::limits::MAX_PAGE_BYTES }
    }

    pub(crate) fn bounded(self) -> Self {
        Self {
            events: self.events.clamp(1, super::limits::MAX_PAGE_EVENTS),
            bytes: self.bytes.clamp(1, super::limits::MAX_PAGE_BYTES),
        }
    }
}

/// An event of the feed over all sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedEvent {
    /// The commit that stored it; several events may share one.
    pub commit: u64,
    /// The event.
    pub event: Event,
}

/// Some events of all sessions, in commit order. Commits are never split between two pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedPage {
    /// The events.
    pub events: Vec<FeedEvent>,
    /// The position to continue after them.
    pub after: u64,
    /// Whether there are more right now.
    pub has_more: bool,
}

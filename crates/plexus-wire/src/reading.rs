//! Reading events: `poll`, `follow`, and live pieces of text.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::approval::Approval;
use crate::bounds::{PageLimit, WaitMs};
use crate::event::ChatEvent;
use crate::handle::Handle;
use crate::ids::{NodeId, SessionId};
use crate::json::Json;
use crate::said::Said;
use crate::schema::tagged;
use crate::session::{SessionRef, SessionStatus};
use crate::time::Millis;
use crate::tool::ToolTarget;

/// Parameters of `poll`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct PollParams {
    /// The session's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Read from this event on, and move nobody's position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<u32>,
    /// How many events (100, at most 1,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
    /// How many milliseconds to wait for the first event (0, at most 60,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<WaitMs>,
    /// Read as this named reader, whose position is kept. It moves when you hand back the cursor
    /// you got.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Name, _>"
    )]
    #[schemars(length(min = 1, max = 256))]
    pub consumer: Option<String>,
    /// Read after this position.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub cursor: Option<String>,
    /// Which chat (the newest).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<u32>,
    /// Also handles and node ids (true; not by `agents_poll` over MCP) and targets (true; not over
    /// MCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handles: Option<bool>,
}

impl PollParams {
    /// The next events of a session's newest chat.
    #[must_use]
    pub fn new(session: impl Into<SessionRef>) -> Self {
        let SessionRef { session_id, name } = session.into();
        Self {
            session_id,
            name,
            from_seq: None,
            limit: None,
            wait_ms: None,
            consumer: None,
            cursor: None,
            chat: None,
            handles: None,
        }
    }
}

/// A result of `poll`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Polled", transform = tagged("ok"))]
pub struct Polled {
    /// What the session is doing.
    pub status: Said<SessionStatus>,
    /// The events.
    pub events: Vec<PolledEvent>,
    /// Permission requests of this session that wait.
    pub pending_approvals: Vec<Approval>,
    /// Where the default reader stands in this chat.
    pub read_position: u32,
    /// How many events the chat has.
    pub total_events: u32,
    /// Whether there are more right now.
    pub has_more: bool,
    /// The position after the last event; hand it back to go on there.
    pub cursor: Option<String>,
    /// The chat of the last event, or the one that the reader goes on in. A page from a cursor may
    /// span chats: each event says its own.
    pub chat: Option<u32>,
}

impl Polled {
    /// Leaves out handles and node ids, which a model pays for and does not use.
    #[must_use]
    pub fn without_handles(mut self) -> Self {
        for event in &mut self.events {
            event.node_id = None;
            event.handle = None;
        }
        for approval in &mut self.pending_approvals {
            approval.handle = None;
        }
        self
    }
}

/// An event as `poll` shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct PolledEvent {
    /// Its chat; always there in `poll` from this version on. An item of `follow` has it beside
    /// the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<u32>,
    /// Its number within the chat.
    pub seq: u32,
    /// The event.
    #[schemars(with = "ChatEvent")]
    pub event: Json,
    /// What the call of a `tool_use` or `awaiting_approval` acts on; absent when the server no
    /// longer knows the session's agent, and in a `poll` without `handles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Said<ToolTarget>>,
    /// When.
    pub timestamp: Millis,
    /// Its node in the session's tree; not in a `poll` without `handles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Its handle, which `plexus.resolve_handle` takes; not in a `poll` without `handles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

impl PolledEvent {
    /// Reads the event. One of a later version is [`ChatEvent::Other`].
    ///
    /// # Errors
    /// When it is no JSON, which a server of ours does not send.
    pub fn read(&self) -> Result<ChatEvent, serde_json::Error> {
        self.event.read()
    }
}

/// Parameters of `follow`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct FollowParams {
    /// The session; without it, all that you may see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Go on after this position.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub cursor: Option<String>,
    /// Continue at the position of this named reader.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Name, _>"
    )]
    #[schemars(length(min = 1, max = 256))]
    pub consumer: Option<String>,
    /// Also live pieces of text, which are never stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deltas: Option<bool>,
}

impl FollowParams {
    /// One session, from its first event on.
    #[must_use]
    pub fn of(session_id: SessionId) -> Self {
        Self { session_id: Some(session_id), ..Self::default() }
    }

    /// The same, after this position.
    #[must_use]
    pub fn after(self, cursor: impl Into<String>) -> Self {
        Self { cursor: Some(cursor.into()), ..self }
    }

    /// The same, with live pieces of text.
    #[must_use]
    pub fn with_deltas(self) -> Self {
        Self { deltas: Some(true), ..self }
    }
}

/// One item of `follow`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(untagged)]
pub enum Followed {
    /// An event, which is stored.
    Event(FollowedEvent),
    /// A live piece of text, which never is.
    Live(LiveText),
}

/// An event as a stream shows it: the same, and where it belongs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[schemars(transform = is_whole)]
pub struct FollowedEvent {
    /// The session.
    pub session_id: SessionId,
    /// The chat.
    pub chat: u32,
    /// The event.
    #[serde(flatten)]
    pub event: PolledEvent,
}

/// An item has its chat, its node and its handle, whatever a page leaves out.
fn is_whole(schema: &mut Schema) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.extend(["node_id", "handle"].map(Value::from));
    }
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    if let Some(fields) = fields {
        let chat = json!({"description": "The chat.", "type": "integer", "minimum": 0});
        fields.insert("chat".to_owned(), chat);
    }
}

/// A live piece of text of a session. It has no cursor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct LiveText {
    /// The session.
    pub session_id: SessionId,
    /// The piece.
    pub event: Delta,
}

/// What a live piece says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// A message begins: pieces that have not become an event are void.
    DeltaStart,
    /// A piece of text.
    Delta {
        /// The text.
        text: String,
    },
}

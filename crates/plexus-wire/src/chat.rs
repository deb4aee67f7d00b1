//! Chats: one prompt and all that follows from it; starting, steering, ending and listing them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{PageLimit, WaitMs};
use crate::handle::Handle;
use crate::ids::{NodeId, SessionId, TreeId};
use crate::images::PromptImage;
use crate::said::Said;
use crate::schema::tagged;
use crate::session::{SessionRef, SessionStatus};
use crate::time::Millis;

/// The status of a chat. It ends once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ChatStatus {
    /// It is open: events may come.
    Running,
    /// It ended with a result.
    Complete,
    /// It ended with an error.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
}

/// Parameters of `chat_async`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ChatParams {
    /// The session's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub name: Option<String>,
    /// What to tell the agent.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Prompt, _>")]
    #[schemars(length(min = 1, max = 10_485_760))]
    pub prompt: String,
    /// Images that belong to the prompt. Its text is stored and shown with a line for each. They
    /// need the power `images` of the session's agent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::images::maybe_images"
    )]
    #[schemars(length(max = 20))]
    pub images: Option<Vec<PromptImage>>,
    /// Whether the session goes on as if this chat had not been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
    /// The same key again finds the chat that it started, instead of starting another.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Name, _>"
    )]
    #[schemars(length(min = 1, max = 256))]
    pub idempotency_key: Option<String>,
    /// Only for `chat`: how many milliseconds to wait (60,000 at most).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<WaitMs>,
}

impl ChatParams {
    /// Gives a session a prompt.
    pub fn new(session: SessionRef, prompt: impl Into<String>) -> Self {
        Self {
            session_id: session.session_id,
            name: session.name,
            prompt: prompt.into(),
            images: None,
            ephemeral: None,
            idempotency_key: None,
            wait_ms: None,
        }
    }
}

/// A result of `chat_async`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "started")]
#[schemars(rename = "ChatStarted", transform = tagged("started"))]
pub struct ChatStarted {
    /// The session.
    pub session_id: SessionId,
    /// The chat's number.
    pub chat: u32,
    /// Its status: a chat that its idempotency key found may have ended. Always there from this
    /// version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Said<SessionStatus>>,
}

/// Parameters of `send`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct SendParams {
    /// The session's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub name: Option<String>,
    /// The message.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Prompt, _>")]
    #[schemars(length(min = 1, max = 10_485_760))]
    pub text: String,
}

impl SendParams {
    /// Puts a message into the running chat of a session.
    pub fn new(session: SessionRef, text: impl Into<String>) -> Self {
        Self { session_id: session.session_id, name: session.name, text: text.into() }
    }
}

/// A result of `send`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "sent")]
#[schemars(rename = "MessageSent", transform = tagged("sent"))]
pub struct MessageSent {}

/// Parameters of `cancel`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct CancelParams {
    /// The session's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub name: Option<String>,
    /// Why; readers of the chat see it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub reason: Option<String>,
}

impl CancelParams {
    /// Ends the running chat of a session.
    #[must_use]
    pub fn new(session: SessionRef) -> Self {
        Self { session_id: session.session_id, name: session.name, reason: None }
    }
}

/// A result of `cancel`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "cancelled")]
#[schemars(rename = "ChatCancelled", transform = tagged("cancelled"))]
pub struct ChatCancelled {}

/// Parameters of `streams`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct StreamsParams {
    /// Only of this session, by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Only of this session, by its exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many (100, at most 1,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
    /// The `cursor` of the page before.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub cursor: Option<String>,
}

/// A chat's stream of events, as `streams` shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Stream {
    /// The session.
    pub session_id: SessionId,
    /// The chat.
    pub chat: u32,
    /// The session's tree.
    pub tree_id: TreeId,
    /// The node its events hang from.
    pub root_node: NodeId,
    /// The node of its newest event.
    pub head_node: NodeId,
    /// Its status, as `poll` shows it.
    pub status: Said<SessionStatus>,
    /// True for a chat that nobody asked for: the agent went on by itself, for example when it had
    /// scheduled something. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub self_started: bool,
    /// When it started.
    pub started_at: Millis,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Why it failed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many events it has.
    pub total_events: u32,
    /// The position of the default reader.
    pub read_position: u32,
    /// Its handle, which `plexus.resolve_handle` takes. Always there from this version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

/// A result of `streams`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "StreamList", transform = tagged("ok"))]
pub struct StreamList {
    /// The streams, oldest first.
    pub streams: Vec<Stream>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

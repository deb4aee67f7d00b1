//! Results of the `claudecode` methods, as they are on the wire.

use std::path::PathBuf;

use plexus_core::{NodeId, SessionId, TreeId};
use plexus_store::{Position, SessionStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::config::Budget;
use super::feed::PolledEvent;
use crate::settings::ChannelChoice;

/// A result of `create`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "created")]
pub struct Created {
    /// The new session.
    pub id: SessionId,
    /// Its tree and the node its first chat starts behind.
    pub head: Position,
}

/// A result of `chat_async`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "started")]
pub struct Started {
    /// The session.
    pub session_id: SessionId,
    /// The chat's number.
    pub chat: u32,
}

/// A result of `poll`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Polled {
    /// What the session is doing.
    pub status: SessionStatus,
    /// The events.
    pub events: Vec<PolledEvent>,
    /// Permission requests of this session that wait.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub pending_approvals: Vec<Value>,
    /// Where the default reader stands in this chat.
    pub read_position: u32,
    /// How many events the chat has.
    pub total_events: u32,
    /// Whether there are more right now.
    pub has_more: bool,
    /// The position behind the last event; hand it back to go on there.
    pub cursor: Option<String>,
    /// The chat these events are of.
    pub chat: Option<u32>,
}

/// One session of `wait`.
#[derive(Serialize, JsonSchema)]
pub struct Changed {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub status: SessionStatus,
    /// Its newest chat.
    pub chat: Option<u32>,
    /// How many events that has.
    pub total_events: u32,
    /// How many permission requests wait.
    pub pending: u32,
    /// The newest thing that happened, in one line.
    pub line: String,
    /// How far its budget is used, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetUse>,
}

/// A result of `wait`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Waited {
    /// Hand this back to hear only of later changes.
    pub after: u64,
    /// What changed.
    pub sessions: Vec<Changed>,
}

/// A session as `get` and `list` show it.
#[derive(Serialize, JsonSchema)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: String,
    /// The session that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Where it works.
    pub working_dir: PathBuf,
    /// The model, if one was named.
    pub model: Option<String>,
    /// How its permission requests travel.
    pub channel: ChannelChoice,
    /// Whether they come to its parent.
    pub loopback_enabled: bool,
    /// Whether it may create sessions.
    pub can_spawn: bool,
    /// What it is doing.
    pub status: SessionStatus,
    /// Its newest chat.
    pub chat: Option<u32>,
    /// The node its next chat starts behind.
    pub head: Position,
    /// The CLI's own id of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude_session_id: Option<String>,
    /// Its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What it and everything below it have spent.
    pub spent: Spent,
    /// What running chats have set aside, when a budget limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Reserved>,
    /// What its creator noted.
    #[schemars(with = "Map<String, Value>")]
    pub metadata: Value,
    /// When it was created, in Unix milliseconds.
    pub created_at: i64,
    /// When it was changed.
    pub updated_at: i64,
    /// A mode that the operator set for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub mode: Option<Value>,
}

/// What a session and everything below it have spent.
#[derive(Serialize, JsonSchema)]
pub struct Spent {
    /// US dollars.
    pub cost_usd: f64,
    /// Turns of the model.
    pub turns: u64,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Milliseconds that chats took, from prompt to end. A running one counts when it ends.
    pub wall_ms: u64,
}

/// What running chats of a session, and of everything below it, have set aside until their results come.
#[derive(Serialize, JsonSchema)]
pub struct Reserved {
    /// US dollars.
    pub cost_usd: f64,
    /// Turns of the model.
    pub turns: u64,
}

/// How far a budget is used.
#[derive(Serialize, JsonSchema)]
pub struct BudgetUse {
    /// The limit that is nearest to its end: `cost`, `turns` or `wall time`.
    pub of: &'static str,
    /// How much of it is spent; 1 is all.
    pub used: f64,
}

/// A result of `get`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Got {
    /// The session.
    pub session: SessionView,
}

/// A result of `list`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Listed {
    /// The sessions, oldest first.
    pub sessions: Vec<SessionView>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A result of `fork`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "forked")]
pub struct Forked {
    /// The new session.
    pub id: SessionId,
    /// Where it starts.
    pub head: Position,
}

/// A result of `delete`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "deleted")]
pub struct Deleted {
    /// The session that is gone.
    pub id: SessionId,
}

/// One stream of `streams`.
#[derive(Serialize, JsonSchema)]
pub struct StreamView {
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
    /// How it stands.
    pub status: plexus_store::ChatStatus,
    /// True for a chat that nobody asked for: the agent went on by itself, for example when it had scheduled something. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub self_started: bool,
    /// When it started, in Unix milliseconds.
    pub started_at: i64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// Why it failed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many events it has.
    pub total_events: u32,
    /// Where the default reader stands.
    pub read_position: u32,
}

/// A result of `streams`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Streams {
    /// The streams, oldest first.
    pub streams: Vec<StreamView>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A result of `get_tree`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct TreeOf {
    /// The session's tree.
    pub tree_id: TreeId,
    /// Its head.
    pub head: Position,
}

/// One message of `render_context`.
#[derive(Serialize, JsonSchema, PartialEq, Debug)]
pub struct Message {
    /// `user` or `assistant`.
    pub role: &'static str,
    /// Text, tool use, tool result and thinking blocks.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub content: Vec<Value>,
}

/// A result of `render_context`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Rendered {
    /// The conversation as the model's API would take it.
    pub messages: Vec<Message>,
}

/// One reader of `cursors`.
#[derive(Serialize, JsonSchema)]
pub struct ConsumerView {
    /// Its name.
    pub consumer: String,
    /// The chat it stands in.
    pub chat: u32,
    /// The number of the next event it will get.
    pub seq: u32,
    /// Its position.
    pub cursor: String,
    /// When it moved last, in Unix milliseconds.
    pub updated_at: i64,
}

/// A result of `cursors`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Cursors {
    /// The named readers of the session.
    pub cursors: Vec<ConsumerView>,
}

/// A result that says only that it is done.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Done {}

/// A result of `send`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "sent")]
pub struct Sent {}

/// A result of `cancel`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "cancelled")]
pub struct Cancelled {}

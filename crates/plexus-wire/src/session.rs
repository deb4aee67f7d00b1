//! Sessions: what one is, how it is found, forked and watched.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arbor::Position;
use crate::bounds::{PageLimit, WaitMs};
use crate::budget::{Budget, BudgetUse, Reserved, Spent};
use crate::handle::Handle;
use crate::ids::{NodeId, SessionId, TreeId};
use crate::json::{Json, Object};
use crate::said::Said;
use crate::schema::tagged;
use crate::time::{Millis, Seconds};
use crate::wall::Wall;

/// What a session is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// There has been no chat.
    Idle,
    /// A chat is open.
    Running,
    /// A chat is open and somebody must decide before it goes on.
    AwaitingPermission,
    /// The newest chat ended well.
    Complete,
    /// The newest chat failed.
    Failed,
    /// The newest chat was cancelled.
    Cancelled,
}

impl SessionStatus {
    /// Says whether a chat is open.
    #[must_use]
    pub fn is_busy(self) -> bool {
        match self {
            Self::Running | Self::AwaitingPermission => true,
            Self::Idle | Self::Complete | Self::Failed | Self::Cancelled => false,
        }
    }

    /// Returns its word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::AwaitingPermission => "awaiting_permission",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Which way permission requests travel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ChannelChoice {
    /// `control` for a CLI that we have tested, else `mcp`.
    Auto,
    /// The CLI's own protocol on its stdin and stdout.
    Control,
    /// The `permit` tool of our MCP server.
    Mcp,
}

/// How much of what a child does is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum Supervise {
    /// What the CLI asks about by itself.
    #[default]
    Default,
    /// Also what the CLI would run unasked: reads, harmless commands, subagents.
    All,
}

/// What an agent reads of a repository's own files. Its settings hold hooks, which run unasked and
/// can answer permissions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ProjectSettings {
    /// Nothing.
    Ignore,
    /// Its instructions (`CLAUDE.md`), and no settings, hooks, permission rules or MCP servers.
    #[default]
    Instructions,
    /// Everything; only the operator may say so.
    Trust,
}

/// What is allowed unasked for a while.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing: every request is asked.
    Ask,
    /// Edits and writes inside the session's directories.
    AcceptEdits,
    /// Everything.
    AllowAll,
}

/// A mode that the operator set, and when it ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct TimedMode {
    /// What is allowed unasked.
    pub mode: Mode,
    /// When it ends.
    pub until: Seconds,
}

/// A session as `get` and `list` show it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: String,
    /// The session that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Its agent.
    #[serde(default = "first_agent")]
    pub agent: String,
    /// Where it works.
    pub working_dir: PathBuf,
    /// The model, if one was named.
    pub model: Option<String>,
    /// How its permission requests travel.
    pub channel: Said<ChannelChoice>,
    /// Whether they come to its parent.
    pub loopback_enabled: bool,
    /// Whether it may create sessions.
    pub can_spawn: bool,
    /// The names of the MCP servers that its agent was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<String>,
    /// The wall around its children.
    #[serde(default)]
    pub confine: Wall,
    /// What it is doing.
    pub status: Said<SessionStatus>,
    /// True while its agent has no process, which a decision starts again. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parked: bool,
    /// Its newest chat.
    pub chat: Option<u32>,
    /// The node after which its next chat starts.
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
    #[schemars(with = "Object")]
    pub metadata: Json,
    /// When it was created.
    pub created_at: Millis,
    /// When it was changed.
    pub updated_at: Millis,
    /// A mode that the operator set for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Said<TimedMode>>,
    /// How many permission requests of the newest chat were not allowed. Absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// The last thing the agent said in the newest chat, once that has ended; only in `get`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<LastAnswer>,
    /// Its handle, which `plexus.resolve_handle` takes. Always there from this version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

fn first_agent() -> String {
    crate::agent::FIRST_AGENT.to_owned()
}

/// How many permission requests of a chat were not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Refused {
    /// Somebody or a rule denied them.
    pub denied: u32,
    /// Their deadline passed.
    pub expired: u32,
}

impl Refused {
    /// Says whether there is none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// The last text of a chat that has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct LastAnswer {
    /// The chat.
    pub chat: u32,
    /// The number of its event, from which `poll` reads the whole text.
    pub seq: u32,
    /// The text, or how it begins.
    pub text: String,
    /// True when the text is longer. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A session by its id or its exact name.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct SessionRef {
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub name: Option<String>,
}

impl SessionRef {
    /// The session with this id.
    #[must_use]
    pub fn id(id: SessionId) -> Self {
        Self { session_id: Some(id), name: None }
    }

    /// The session of exactly this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { session_id: None, name: Some(name.into()) }
    }
}

impl From<SessionId> for SessionRef {
    fn from(id: SessionId) -> Self {
        Self::id(id)
    }
}

/// A result of `get`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "SessionGot", transform = tagged("ok"))]
pub struct SessionGot {
    /// The session.
    pub session: Session,
}

/// Parameters of `list`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Only children of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Only sessions in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionStatus>,
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

impl ListParams {
    /// The page after `cursor`, as long as a page may be.
    #[must_use]
    pub fn page(cursor: Option<String>) -> Self {
        Self { limit: Some(PageLimit::MAX), cursor, ..Self::default() }
    }
}

/// A result of `list`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "SessionList", transform = tagged("ok"))]
pub struct SessionList {
    /// The sessions, oldest first.
    pub sessions: Vec<Session>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of `fork`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ForkParams {
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
    /// The new session's name.
    #[serde(deserialize_with = "crate::text::one::<crate::text::SessionName, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub new_name: String,
    /// The node to start after: that of a `complete` event of the session, or the root of the tree
    /// for a new conversation; the head without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<NodeId>,
}

impl ForkParams {
    /// Forks a session at its head.
    pub fn new(session: SessionRef, new_name: impl Into<String>) -> Self {
        Self {
            session_id: session.session_id,
            name: session.name,
            new_name: new_name.into(),
            at: None,
        }
    }
}

/// A result of `fork`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "forked")]
#[schemars(rename = "SessionForked", transform = tagged("forked"))]
pub struct SessionForked {
    /// The new session.
    pub id: SessionId,
    /// Where it starts.
    pub head: Position,
}

/// Parameters of `rename`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RenameParams {
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
    /// The name it gets.
    #[serde(deserialize_with = "crate::text::one::<crate::text::SessionName, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub new_name: String,
}

impl RenameParams {
    /// Gives a session another name.
    pub fn new(session: SessionRef, new_name: impl Into<String>) -> Self {
        Self { session_id: session.session_id, name: session.name, new_name: new_name.into() }
    }
}

/// A result of `rename`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "renamed")]
#[schemars(rename = "SessionRenamed", transform = tagged("renamed"))]
pub struct SessionRenamed {
    /// The session.
    pub id: SessionId,
    /// Its name from now on.
    pub name: String,
}

/// A result of `delete`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "deleted")]
#[schemars(rename = "SessionDeleted", transform = tagged("deleted"))]
pub struct SessionDeleted {
    /// The session that is gone.
    pub id: SessionId,
}

/// A result of `get_tree`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "TreeOf", transform = tagged("ok"))]
pub struct TreeOf {
    /// The session's tree.
    pub tree_id: TreeId,
    /// Its head.
    pub head: Position,
}

/// One session of `wait`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ChangedSession {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub status: Said<SessionStatus>,
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
    /// The last thing the agent said in the newest chat, once that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<LastAnswer>,
}

/// What a waiter is woken by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum WakeOn {
    /// Any change, every event among them.
    #[default]
    Change,
    /// A session asks for permission, or its chat has ended.
    AsksOrEnds,
}

/// Parameters of `wait`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct WaitParams {
    /// Which sessions; all that you may see without it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::bounds::maybe_list::<{ crate::bounds::MAX_WAIT_SESSIONS }, _, _>"
    )]
    #[schemars(length(max = 1_000))]
    pub session_ids: Option<Vec<SessionId>>,
    /// The `after` of the answer before: only what changed since is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How many milliseconds to wait for a change (0, at most 60,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<WaitMs>,
    /// What counts as a change: `change` (any), or `asks_or_ends`: a session asks for permission,
    /// or its chat has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_on: Option<WakeOn>,
}

/// A result of `wait`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Waited", transform = tagged("ok"))]
pub struct Waited {
    /// Hand this back to hear only of later changes.
    pub after: u64,
    /// What changed.
    pub sessions: Vec<ChangedSession>,
}

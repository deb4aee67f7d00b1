//! Parameters of the `claudecode` methods, as they are on the wire. Unknown ones are refused by name. What they give back is in [`results`](super::results).

use std::collections::BTreeMap;
use std::path::PathBuf;

use plexus_core::{NodeId, SessionId};
use plexus_store::SessionStatus;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::{Budget, ProjectSettings, Supervise};
use crate::settings::ChannelChoice;

/// Parameters of `create`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateParams {
    /// A name, unique among the sessions you create.
    pub name: String,
    /// Where the agent works; the directory must exist.
    pub working_dir: PathBuf,
    /// The session that is to be its parent. Only the operator may say.
    pub parent: Option<SessionId>,
    /// After how many seconds an unanswered permission request goes to your own parent.
    pub escalate_after_secs: Option<u64>,
    /// The model, as the CLI names it.
    pub model: Option<String>,
    /// Added to the agent's own instructions.
    pub system_prompt: Option<String>,
    /// Whether permission requests come to you (true). Without it, what would ask is denied.
    pub loopback_enabled: Option<bool>,
    /// How many seconds a permission request waits before it is denied; 0 for ever (300).
    pub loopback_timeout_secs: Option<u64>,
    /// `default`, or `all`: ask also about what the CLI would run unasked.
    pub supervise: Option<Supervise>,
    /// Whether it may create and supervise sessions of its own.
    pub can_spawn: Option<bool>,
    /// Which calls of its own children it may allow, as patterns such as `Bash(git diff:*)`.
    pub may_decide: Option<Vec<String>>,
    /// `ignore`, or `trust`: read the repository's own settings and hooks. The operator's to say.
    pub project_settings: Option<ProjectSettings>,
    /// How permission requests travel: `auto`, `control` or `mcp`.
    pub channel: Option<ChannelChoice>,
    /// Tools that it may use unasked.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that it may not use.
    pub disallowed_tools: Option<Vec<String>>,
    /// More directories it may work in.
    pub add_dirs: Option<Vec<PathBuf>>,
    /// Variables for its environment.
    pub env: Option<BTreeMap<String, String>>,
    /// Limits for it and everything below it.
    pub budget: Option<Budget>,
    /// Anything you want to find again; an object.
    pub metadata: Option<Map<String, Value>>,
}

/// A session by its id or its exact name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRef {
    /// Its id.
    pub session_id: Option<SessionId>,
    /// Its exact name.
    pub name: Option<String>,
}

/// Parameters of `budget_set`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetSetParams {
    /// The session.
    pub session_id: Option<SessionId>,
    /// Its exact name.
    pub name: Option<String>,
    /// All its limits from now on; what is not named is not limited.
    pub budget: Budget,
}

/// Parameters of `chat_async`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatParams {
    /// The session's id.
    pub session_id: Option<SessionId>,
    /// Its exact name.
    pub name: Option<String>,
    /// What to tell the agent.
    pub prompt: String,
    /// Whether the session goes on as if this chat had not been.
    pub ephemeral: Option<bool>,
    /// The same key again finds the chat that it started, instead of starting another.
    pub idempotency_key: Option<String>,
    /// Only for `chat`: how many milliseconds to wait (60,000 at most).
    pub wait_ms: Option<u64>,
}

/// Parameters of `poll`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PollParams {
    /// The session.
    pub session_id: SessionId,
    /// Read from this event on, and move nobody's position.
    pub from_seq: Option<u32>,
    /// How many events (100, at most 1,000).
    pub limit: Option<u32>,
    /// How many milliseconds to wait for the first event (0, at most 60,000).
    pub wait_ms: Option<u64>,
    /// Read as this named reader, whose position is kept. It moves when you hand back the cursor you got.
    pub consumer: Option<String>,
    /// Read behind this position.
    pub cursor: Option<String>,
    /// Which chat (the newest).
    pub chat: Option<u32>,
}

/// Parameters of `follow`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowParams {
    /// The session; without it, all that you may see.
    pub session_id: Option<SessionId>,
    /// Go on behind this position.
    pub cursor: Option<String>,
    /// Go on where this named reader stands.
    pub consumer: Option<String>,
    /// Also live pieces of text, which are never stored.
    pub deltas: Option<bool>,
}

/// Parameters of `wait`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitParams {
    /// Which sessions; all that you may see without it.
    pub session_ids: Option<Vec<SessionId>>,
    /// The `after` of the answer before: only what changed since is told.
    pub after: Option<u64>,
    /// How many milliseconds to wait for a change (0, at most 60,000).
    pub wait_ms: Option<u64>,
}

/// Parameters of `send`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendParams {
    /// The session's id.
    pub session_id: Option<SessionId>,
    /// Its exact name.
    pub name: Option<String>,
    /// The message.
    pub text: String,
}

/// Parameters of `cancel`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelParams {
    /// The session's id.
    pub session_id: Option<SessionId>,
    /// Its exact name.
    pub name: Option<String>,
    /// Why; readers of the chat see it.
    pub reason: Option<String>,
}

/// Parameters of `list`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Only children of this session.
    pub parent: Option<SessionId>,
    /// Only sessions in this state.
    pub status: Option<SessionStatus>,
    /// How many (100, at most 1,000).
    pub limit: Option<u32>,
    /// The `cursor` of the page before.
    pub cursor: Option<String>,
}

/// Parameters of `fork`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkParams {
    /// The session's id.
    pub session_id: Option<SessionId>,
    /// Its exact name.
    pub name: Option<String>,
    /// The new session's name.
    pub new_name: String,
    /// The node to start behind: that of a `complete` event of the session, or the root of the tree for a new conversation; the head without it.
    pub at: Option<NodeId>,
}

/// Parameters of `streams`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamsParams {
    /// Only of this session.
    pub session_id: Option<SessionId>,
    /// How many (100, at most 1,000).
    pub limit: Option<u32>,
    /// The `cursor` of the page before.
    pub cursor: Option<String>,
}

/// Parameters of `render_context`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenderParams {
    /// The session's id.
    pub session_id: Option<SessionId>,
    /// Its exact name.
    pub name: Option<String>,
    /// The first node; the root without it.
    pub start: Option<NodeId>,
    /// The last node; the head without it.
    pub end: Option<NodeId>,
}

/// Parameters of `cursors`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CursorsParams {
    /// The session.
    pub session_id: SessionId,
}

/// Parameters of `cursor_set`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CursorSetParams {
    /// The session.
    pub session_id: SessionId,
    /// The reader's name.
    pub consumer: String,
    /// Where it stands from now on.
    pub cursor: String,
}

/// Parameters of `cursor_delete`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CursorDeleteParams {
    /// The session.
    pub session_id: SessionId,
    /// The reader's name.
    pub consumer: String,
}

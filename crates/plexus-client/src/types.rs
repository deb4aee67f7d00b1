//! What the usual methods take and give. Fields that a later server adds are ignored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plexus_core::{ApprovalId, RuleId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a session is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No chat yet.
    Idle,
    /// A chat runs.
    Running,
    /// It stands still until somebody answers.
    AwaitingPermission,
    /// The newest chat ended well.
    Complete,
    /// The newest chat failed.
    Failed,
    /// The newest chat was cancelled.
    Cancelled,
    /// A status of a later version.
    #[serde(other)]
    Unknown,
}

impl Status {
    /// Says whether a chat is under way.
    #[must_use]
    pub fn is_busy(self) -> bool {
        match self {
            Self::Running | Self::AwaitingPermission => true,
            Self::Idle | Self::Complete | Self::Failed | Self::Cancelled | Self::Unknown => false,
        }
    }

    /// Returns the word for it on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::AwaitingPermission => "awaiting_permission",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}

/// Parameters of `claudecode.create`.
#[derive(Clone, Debug, Serialize)]
pub struct CreateSession {
    /// Its name.
    pub name: String,
    /// Where it works.
    pub working_dir: PathBuf,
    /// Its parent; the operator may say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Any other parameter of the method, by its name.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl CreateSession {
    /// A session that works in a directory, with every default.
    pub fn new(name: impl Into<String>, working_dir: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            working_dir: working_dir.into(),
            parent: None,
            model: None,
            more: Map::new(),
        }
    }

    /// Sets any other parameter of the method.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

/// A session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: String,
    /// The session that created it.
    pub parent: Option<SessionId>,
    /// Where it works.
    pub working_dir: PathBuf,
    /// The model, if one was named.
    pub model: Option<String>,
    /// What it is doing.
    pub status: Status,
    /// Its newest chat.
    pub chat: Option<u32>,
    /// The CLI's own id of the conversation.
    pub claude_session_id: Option<String>,
    /// What it and everything below it have spent.
    #[serde(default)]
    pub spent: Spent,
    /// When it was created, in Unix milliseconds.
    pub created_at: i64,
    /// When it changed.
    pub updated_at: i64,
}

/// What was spent.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// US dollars.
    pub cost_usd: f64,
    /// Turns of the model.
    pub turns: u64,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Milliseconds that chats took, from prompt to end.
    pub wall_ms: u64,
}

/// A permission request that waits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The session that asks.
    pub session_id: SessionId,
    /// That session's name.
    pub session_name: String,
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: String,
    /// Its input.
    pub input: Value,
    /// The digest of that input: hand it back with the answer.
    pub input_digest: String,
    /// What the CLI says about it.
    pub description: Option<String>,
    /// The directory in which the session's commands and relative paths start.
    pub working_dir: Option<String>,
    /// Rules that would answer this call.
    #[serde(default)]
    pub suggested_rules: Vec<SuggestedRule>,
    /// When it was asked, in Unix seconds.
    pub created_at: i64,
    /// When it is denied by itself, in Unix seconds.
    pub expires_at: Option<i64>,
}

/// A rule that would answer a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SuggestedRule {
    /// In words.
    pub label: String,
    /// The pattern.
    pub pattern: String,
}

/// Parameters of `loopback.respond`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Respond {
    /// Which approval.
    pub approval_id: ApprovalId,
    /// Whether the tool may run.
    pub approve: bool,
    /// Why, for the agent to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What runs instead of what was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    /// The digest of the input that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<String>,
    /// A rule for the next time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
}

impl Respond {
    /// Allows what was looked at.
    #[must_use]
    pub fn allow(approval: &Approval) -> Self {
        Self { input_digest: Some(approval.input_digest.clone()), ..Self::bare(approval.id, true) }
    }

    /// Denies it, with a reason.
    pub fn deny(id: ApprovalId, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::bare(id, false) }
    }

    fn bare(approval_id: ApprovalId, approve: bool) -> Self {
        Self {
            approval_id,
            approve,
            message: None,
            updated_input: None,
            input_digest: None,
            remember: None,
        }
    }
}

/// A rule for the next time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Remember {
    /// The pattern; without it, exactly this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// For whom.
    pub scope: RuleScope,
}

/// For whom a rule is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// One session.
    Session(SessionId),
    /// A session and everything below it.
    Subtree(SessionId),
    /// Everybody.
    All,
}

/// A rule.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Rule {
    /// Its id; rules of a file have none that can be removed.
    #[serde(alias = "rule_id")]
    pub id: Option<RuleId>,
    /// Everything else, as the server says it.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A result of `claudecode.poll`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Polled {
    /// What the session is doing.
    pub status: Status,
    /// The events, as the server sent them.
    pub events: Vec<Value>,
    /// Permission requests that wait.
    #[serde(default)]
    pub pending_approvals: Vec<Approval>,
    /// How many events the chat has.
    pub total_events: u32,
    /// Whether there are more right now.
    pub has_more: bool,
    /// The position behind the last event.
    pub cursor: Option<String>,
    /// The chat.
    pub chat: Option<u32>,
}

/// One session of `claudecode.wait`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct ChangedSession {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub status: Status,
    /// How many permission requests wait.
    pub pending: u32,
    /// The newest thing that happened, in one line.
    pub line: String,
}

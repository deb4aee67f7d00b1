//! Webhooks: what is told to somebody outside, and the answer that may come back.

use std::fmt;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::approval::{ApprovalStatus, DecidedApproval, DecidedBy, Owner};
use crate::audit::BudgetUsed;
use crate::chat::ChatStatus;
use crate::ids::{ApprovalId, SessionId};
use crate::json::{Json, Object};
use crate::question::{Answers, Question};
use crate::said::Said;
use crate::schema::tagged;
use crate::time::{Millis, Seconds};
use crate::tool::{Risk, ToolTarget};

/// What can be told. The names are part of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum HookEvent {
    /// A permission request waits for somebody.
    #[serde(rename = "approval.requested")]
    ApprovalRequested,
    /// It was passed on to somebody above, or somebody is reminded of it.
    #[serde(rename = "approval.escalated")]
    ApprovalEscalated,
    /// It was allowed, denied or withdrawn.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved,
    /// Nobody answered in time: it is denied.
    #[serde(rename = "approval.expired")]
    ApprovalExpired,
    /// A chat of a session has ended: complete, failed or cancelled.
    #[serde(rename = "session.ended")]
    SessionEnded,
    /// Most of a budget is used up.
    #[serde(rename = "budget.warned")]
    BudgetWarned,
    /// A budget is used up, and every chat below it is stopped.
    #[serde(rename = "budget.stopped")]
    BudgetStopped,
    /// A run did what nobody allowed, and was stopped.
    #[serde(rename = "breach")]
    Breach,
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalEscalated => "approval.escalated",
            Self::ApprovalResolved => "approval.resolved",
            Self::ApprovalExpired => "approval.expired",
            Self::SessionEnded => "session.ended",
            Self::BudgetWarned => "budget.warned",
            Self::BudgetStopped => "budget.stopped",
            Self::Breach => "breach",
        })
    }
}

/// A message as it is sent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct HookMessage {
    /// Its id, the same at every attempt.
    pub id: Uuid,
    /// What it tells.
    #[serde(rename = "type")]
    pub event: HookEvent,
    /// When that happened.
    pub created_at: Millis,
    /// The rest, by its kind.
    #[serde(flatten)]
    pub body: HookBody,
    /// How to answer, for a receiver that may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub respond: Option<HookRespond>,
}

/// What a message says, by its kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(untagged)]
pub enum HookBody {
    /// `approval.requested`, `approval.escalated`.
    Asked {
        /// The request that waits.
        approval: AskedApproval,
    },
    /// `approval.resolved`, `approval.expired`.
    Resolved {
        /// The request that needs nobody any more.
        approval: ResolvedApproval,
    },
    /// `session.ended`.
    Ended(ChatEnded),
    /// `budget.warned`, `budget.stopped`.
    Budget(BudgetUsed),
    /// `breach`.
    Breach {
        /// The session.
        session: BareSession,
        /// What its run did.
        what: String,
    },
}

/// How a message is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct HookRespond {
    /// Until when the token works.
    pub expires_at: Millis,
    /// The one-time token. The outbox never holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Where the answer goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A request that waits, as somebody outside is told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AskedApproval {
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
    /// The tool's input; null when it is too large to tell.
    #[schemars(with = "Option<Object>")]
    pub input: Option<Json>,
    /// How large an input is that is not told, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
    /// The digest of the input.
    pub input_digest: String,
    /// What the call would act on; absent when the input is too large to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Said<ToolTarget>>,
    /// What the CLI says about it.
    pub description: Option<String>,
    /// `pending`.
    pub status: ApprovalStatus,
    /// When it was asked.
    pub created_at: Seconds,
    /// When it is denied automatically.
    pub expires_at: Option<Seconds>,
    /// Who is asked now, if it was passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalated_to: Option<Owner>,
    /// The directory in which the session's commands and relative paths start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<PathBuf>,
    /// How much harm the call could do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Said<Risk>>,
    /// What the agent asks its user, when the call is a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Said<Question>>,
}

/// A request that needs nobody any more. Its input was told when it was asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ResolvedApproval {
    /// Its id.
    pub approval_id: ApprovalId,
    /// The session that asked.
    pub session_id: SessionId,
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: String,
    /// The digest of the input.
    pub input_digest: String,
    /// How it was decided.
    pub status: Said<ApprovalStatus>,
    /// When it was asked.
    pub created_at: Seconds,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Said<DecidedBy>>,
    /// The receiver that the answer came through, where `decided_by` is `webhook`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Seconds>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the answer reached the child.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Seconds>,
    /// What the child did against the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breach: Option<String>,
}

impl From<DecidedApproval> for ResolvedApproval {
    fn from(decided: DecidedApproval) -> Self {
        Self {
            approval_id: decided.approval_id,
            session_id: decided.session_id,
            tool_name: decided.tool_name,
            tool_use_id: decided.tool_use_id,
            input_digest: decided.input_digest,
            status: decided.status,
            created_at: decided.created_at,
            decided_by: decided.decided_by,
            receiver: None,
            decided_at: decided.decided_at,
            message: decided.message,
            delivered_at: decided.delivered_at,
            breach: decided.breach,
        }
    }
}

/// A chat that has ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ChatEnded {
    /// The session.
    pub session: EndedSession,
    /// The chat.
    pub chat: u32,
    /// How it ended.
    pub status: ChatStatus,
    /// Why it failed or was cancelled.
    pub error: Option<String>,
    /// What it used, if it says so.
    #[schemars(with = "Option<crate::event::Usage>")]
    pub usage: Option<Json>,
}

/// The session of a chat that has ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct EndedSession {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: String,
    /// The session that created it.
    pub parent: Option<SessionId>,
}

/// A session by its id alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct BareSession {
    /// Its id.
    pub id: SessionId,
}

/// The body of `POST /hooks/respond`.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct HookAnswer {
    /// The token of the message.
    pub token: String,
    /// Whether the tool may run.
    #[serde(alias = "allow")]
    pub approve: bool,
    /// Why; the model reads it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub message: Option<String>,
    /// What is answered to a question of the agent, as `loopback.respond` takes it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_answers"
    )]
    pub answers: Option<Answers>,
    /// The digest of the input that was shown; another one is a conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<String>,
}

impl HookAnswer {
    /// Decides what the message told.
    pub fn new(token: impl Into<String>, approve: bool) -> Self {
        Self { token: token.into(), approve, message: None, answers: None, input_digest: None }
    }
}

impl fmt::Debug for HookAnswer {
    /// Leaves the token out: it decides.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookAnswer").field("approve", &self.approve).finish_non_exhaustive()
    }
}

/// The answer of `POST /hooks/respond`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "HookAnswered", transform = tagged("ok"))]
pub struct HookAnswered {
    /// The approval.
    pub approval_id: ApprovalId,
    /// How it was decided.
    pub status: ApprovalStatus,
}

/// What stands when an answer comes too late, as the error of `POST /hooks/respond` shows it.
/// Nothing of the input is in it: the token may have come through services that were told less.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct HookStanding {
    /// The approval.
    pub approval_id: ApprovalId,
    /// How it was decided; `pending` when it is not.
    pub status: Said<ApprovalStatus>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Said<DecidedBy>>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Seconds>,
}

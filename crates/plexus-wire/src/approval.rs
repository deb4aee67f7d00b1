//! Permission requests: those that wait, those that are decided, and who decides.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{ModeSecs, PageLimit, WaitMs};
use crate::handle::Handle;
use crate::ids::{ApprovalId, DeviceId, RuleId, SessionId};
use crate::json::{Json, Object};
use crate::question::{Answers, Question};
use crate::rule::SuggestedRule;
use crate::said::Said;
use crate::schema::tagged;
use crate::session::{ChangedSession, Mode, SessionRef};
use crate::time::Seconds;
use crate::tool::{Risk, ToolTarget};

/// Whether an approval waits, and how it was decided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Nobody has decided.
    Pending,
    /// The tool may run.
    Allowed,
    /// It may not.
    Denied,
    /// The deadline passed first: a denial.
    Expired,
    /// The question went away: the run ended or withdrew it.
    Cancelled,
}

/// Who is asked now. It says whom to tell, not who may decide: `authority.rs` of the engine says
/// that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The operator.
    Operator,
    /// A session, a strict ancestor of the one that asks.
    Session(SessionId),
}

/// Who decided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The operator.
    Operator,
    /// A session.
    Session(SessionId),
    /// A rule.
    Rule(RuleId),
    /// The deadline.
    Deadline,
    /// Nobody: the agent ended, or withdrew its question.
    AgentEnded,
    /// Whoever held the one-time token of a webhook.
    Webhook,
    /// A device of the operator.
    Device(DeviceId),
}

/// A permission request that waits, as `pending` and `poll` show it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
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
    /// The tool's input.
    #[schemars(with = "Object")]
    pub input: Json,
    /// The digest of that input: hand it back with the answer.
    pub input_digest: String,
    /// What the CLI says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Why only the operator may allow it: no rule, mode or session does. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person_only: Option<String>,
    /// The directory in which the session's commands and relative paths start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<PathBuf>,
    /// What the call would act on, in one form for every agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Said<ToolTarget>>,
    /// How much harm it could do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Said<Risk>>,
    /// What the agent asks its user, when the call is a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Said<Question>>,
    /// Whether `loopback.preview` can try it over a copy: a shell command of a session with a wall.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview: bool,
    /// Rules that would answer this call, narrow to wide.
    pub suggested_rules: Vec<SuggestedRule>,
    /// `pending`.
    pub status: Said<ApprovalStatus>,
    /// When it was asked.
    pub created_at: Seconds,
    /// When it is denied automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Seconds>,
    /// Who is asked now, if it was passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalated_to: Option<Said<Owner>>,
    /// True while the agent has no process, which a decision starts again. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parked: bool,
    /// Its handle, which `plexus.resolve_handle` takes. Always there from this version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

/// A permission request and its decision, as `history` shows it and as a conflict names what
/// stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct DecidedApproval {
    /// Its id.
    pub approval_id: ApprovalId,
    /// The session that asked.
    pub session_id: SessionId,
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: String,
    /// The tool's input, as it was asked for.
    #[schemars(with = "Object")]
    pub input: Json,
    /// The digest of that input.
    pub input_digest: String,
    /// What the call would act on; only in `history`, and absent over MCP and when the server no
    /// longer knows the session's agent. It fits `input`, and not `updated_input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Said<ToolTarget>>,
    /// How it was decided; `pending` where a conflict shows one that is not.
    pub status: Said<ApprovalStatus>,
    /// When it was asked.
    pub created_at: Seconds,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Said<DecidedBy>>,
    /// The name of the device that decided; only in `history`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Seconds>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The input as the decider edited it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    pub updated_input: Option<Json>,
    /// What the agent asked its user, when the call was a question; only in `history`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Said<Question>>,
    /// What was answered to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// When the answer reached the child.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Seconds>,
    /// What the child did against the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breach: Option<String>,
    /// Its handle, which `plexus.resolve_handle` takes. Always there from this version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

/// Parameters of `pending`, `history` and `audit`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ApprovalPageParams {
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

impl ApprovalPageParams {
    /// The session that it names, if any.
    #[must_use]
    pub fn session(&self) -> SessionRef {
        SessionRef { session_id: self.session_id, name: self.name.clone() }
    }

    /// The page after `cursor`, as long as a page may be.
    #[must_use]
    pub fn page(cursor: Option<String>) -> Self {
        Self { limit: Some(PageLimit::MAX), cursor, ..Self::default() }
    }
}

/// Parameters of `wait_for_approval`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct WaitForApprovalParams {
    /// Only of this session, by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Only of this session, by its exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many milliseconds to wait (60,000 at most).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<WaitMs>,
    /// Also return when the chat of such a session has ended after this number: the `after` of the
    /// answer before, or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

impl WaitForApprovalParams {
    /// The session that it names, if any.
    #[must_use]
    pub fn session(&self) -> SessionRef {
        SessionRef { session_id: self.session_id, name: self.name.clone() }
    }
}

/// A result of `pending` and `wait_for_approval`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PendingApprovals {
    /// What waits, oldest first; empty when nothing does.
    Ok {
        /// The approvals.
        approvals: Vec<Approval>,
        /// Where the next page starts, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        /// Sessions whose chat has ended; only in `wait_for_approval` with `after`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ended: Vec<ChangedSession>,
        /// Hand this back to hear only of later ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// Nothing came within the wait.
    Timeout {
        /// Hand this back to hear only of later ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
}

/// A result of `history`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "DecisionList", transform = tagged("ok"))]
pub struct DecisionList {
    /// Decisions, newest first.
    pub decisions: Vec<DecidedApproval>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of `mode_set`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ModeSetParams {
    /// The session.
    pub session_id: SessionId,
    /// `ask`, `accept_edits` or `allow_all`.
    pub mode: Mode,
    /// How many seconds it holds.
    pub expires_in_secs: ModeSecs,
}

impl ModeSetParams {
    /// A mode for a session and for a while.
    #[must_use]
    pub fn new(session_id: SessionId, mode: Mode, expires_in_secs: ModeSecs) -> Self {
        Self { session_id, mode, expires_in_secs }
    }
}

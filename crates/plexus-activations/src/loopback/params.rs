//! Parameters and results of the `loopback` methods, as they are on the wire.

use std::path::PathBuf;

use plexus_core::{ApprovalId, RuleId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::claudecode::Mode;
use crate::rules::{Decision, Scope};

/// A permission request as the CLI sends it over MCP: exactly these arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct PermitRequest {
    /// The tool.
    pub tool_name: String,
    /// Its input.
    pub input: Map<String, Value>,
    /// The call.
    pub tool_use_id: String,
}

/// Joins a permission request that was open when the server stopped.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejoinParams {
    /// The call.
    pub tool_use_id: String,
}

/// Remembers a decision as a rule.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    /// The pattern; the narrowest that covers the call without it.
    pub pattern: Option<String>,
    /// Which sessions it holds for.
    pub scope: Scope,
    /// When it ends, in seconds from now.
    pub expires_in_secs: Option<u64>,
    /// How many decisions it may make.
    pub uses: Option<u32>,
}

/// Parameters of `respond`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RespondParams {
    /// The approval.
    pub approval_id: ApprovalId,
    /// Whether the tool may run.
    #[serde(alias = "allow")]
    pub approve: bool,
    /// Why; the model reads it when you deny.
    pub message: Option<String>,
    /// Run with this input instead; the whole of it.
    pub updated_input: Option<Map<String, Value>>,
    /// The digest of the input you saw; another input then is a conflict.
    pub input_digest: Option<String>,
    /// Also answer such calls from now on.
    pub remember: Option<Remember>,
}

/// Parameters of `respond_many`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RespondManyParams {
    /// The approvals, by their exact ids.
    pub approval_ids: Vec<ApprovalId>,
    /// Whether the tools may run.
    #[serde(alias = "allow")]
    pub approve: bool,
    /// Why.
    pub message: Option<String>,
}

/// Parameters of `pending`, `history` and their like.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageParams {
    /// Only of this session.
    pub session_id: Option<SessionId>,
    /// How many (100, at most 1,000).
    pub limit: Option<u32>,
    /// The `cursor` of the page before.
    pub cursor: Option<String>,
}

/// Parameters of `wait_for_approval`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitForApprovalParams {
    /// Only of this session.
    pub session_id: Option<SessionId>,
    /// How many milliseconds to wait (60,000 at most).
    pub wait_ms: Option<u64>,
}

/// Parameters of `mode_set`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeSetParams {
    /// The session.
    pub session_id: SessionId,
    /// `ask`, `accept_edits` or `allow_all`.
    pub mode: Mode,
    /// How many seconds it holds.
    pub expires_in_secs: u64,
}

/// Parameters of `rule_add`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleAddParams {
    /// `allow`, `deny` or `ask`.
    pub decision: Decision,
    /// Which calls, in the CLI's notation: `Bash(git diff:*)`, `Read(/src/**)`, `WebFetch(domain:example.org)`.
    pub pattern: String,
    /// `{"session": ID}`, `{"subtree": ID}` or `"all"`.
    pub scope: Option<Scope>,
    /// When it ends, in seconds from now.
    pub expires_in_secs: Option<u64>,
    /// How many decisions it may make.
    pub uses: Option<u32>,
    /// Why it exists.
    pub reason: Option<String>,
    /// Calls it must fit, as `Tool(argument)`.
    pub matches: Option<Vec<String>>,
    /// Calls it must not fit.
    pub does_not_match: Option<Vec<String>>,
}

/// Parameters of `rules`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesParams {
    /// How many (100, at most 1,000).
    pub limit: Option<u32>,
    /// The `cursor` of the page before.
    pub cursor: Option<String>,
}

/// Parameters of `rule_remove`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleRemoveParams {
    /// The rule.
    pub rule_id: RuleId,
}

/// Parameters of `rule_test`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTestParams {
    /// The tool.
    pub tool_name: String,
    /// Its input.
    pub input: Map<String, Value>,
    /// The session that would ask; without it, your oldest.
    pub session_id: Option<SessionId>,
    /// Instead of a session: the directory of one that is yet to be created.
    pub working_dir: Option<PathBuf>,
}

/// Parameters of `rule_preview`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RulePreviewParams {
    /// The approval whose decision would be remembered.
    pub approval_id: ApprovalId,
    /// Whether it would be allowed.
    #[serde(alias = "allow")]
    pub approve: bool,
    /// How it would be remembered.
    pub remember: Remember,
}

/// Parameters of `configure`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigureParams {
    /// The session whose child somebody else starts.
    pub session_id: SessionId,
}

/// A result of `respond`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Responded {
    /// The approval.
    pub approval_id: ApprovalId,
    /// The rule that was remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<RuleId>,
    /// Other approvals that it answered at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<ApprovalId>,
}

/// One outcome of `respond_many`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// The approval.
    pub approval_id: ApprovalId,
    /// Whether it is decided as you said.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<plexus_core::CallError>,
}

/// A result of `respond_many`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Outcomes {
    /// One for each id, in that order.
    pub outcomes: Vec<Outcome>,
}

/// A result of `pending`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Pending {
    /// What waits, oldest first; empty when nothing does.
    Ok {
        /// The approvals.
        #[schemars(with = "Vec<Map<String, Value>>")]
        approvals: Vec<Value>,
        /// Where the next page starts, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
    },
    /// Nothing came within the wait.
    Timeout,
}

/// A result of `history`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct History {
    /// Decisions, newest first.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub decisions: Vec<Value>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A result of `audit`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Audit {
    /// Lines `{at, kind, session_id, body}`, newest first.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub lines: Vec<Value>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A result of `rule_add`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct RuleAdded {
    /// The rule.
    pub rule_id: RuleId,
}

/// A result of `rules`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct RuleList {
    /// The rules, oldest first, with how often each has decided.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub rules: Vec<Value>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A result of `rule_test`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct RuleTested {
    /// What would happen.
    pub decision: Decision,
    /// The rule that would decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<RuleId>,
    /// Why.
    pub why: String,
}

/// A result of `rule_preview`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct RulePreviewed {
    /// The pattern that the rule would have.
    pub pattern: String,
    /// The other pending approvals that it would decide at once.
    pub releases: Vec<ApprovalId>,
}

/// A result of `configure`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Configured {
    /// What goes into the file for `--mcp-config`. It holds a token: keep it private.
    #[schemars(with = "Map<String, Value>")]
    pub mcp_config: Value,
    /// The flags to start the CLI with.
    pub flags: Vec<String>,
}

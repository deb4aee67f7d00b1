//! Deciding permission requests: `respond` and its like, and what the CLI itself asks and is told.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::bounds::{RuleSecs, Uses};
use crate::error::CallError;
use crate::ids::{ApprovalId, RuleId, SessionId};
use crate::json::{Json, Object};
use crate::question::Answers;
use crate::rule::RuleScope;
use crate::schema::tagged;

/// Remembers a decision as a rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    /// The pattern; the narrowest that covers the call without it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub pattern: Option<String>,
    /// Which sessions it holds for.
    pub scope: RuleScope,
    /// When it ends, in seconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_secs: Option<RuleSecs>,
    /// How many decisions it may make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<Uses>,
}

impl Remember {
    /// Remembers it as the narrowest rule that covers the call.
    #[must_use]
    pub fn new(scope: RuleScope) -> Self {
        Self { scope, pattern: None, expires_in_secs: None, uses: None }
    }
}

/// Parameters of `respond`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RespondParams {
    /// The approval.
    pub approval_id: ApprovalId,
    /// Whether the tool may run.
    #[serde(alias = "allow")]
    pub approve: bool,
    /// Why; the model reads it when you deny.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub message: Option<String>,
    /// Run with this input instead; the whole of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Object>,
    /// What is answered to a question of the agent: for the id of each part, labels of its options,
    /// or own words where it takes them.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_answers"
    )]
    pub answers: Option<Answers>,
    /// The digest of the input you saw; another input then is a conflict.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub input_digest: Option<String>,
    /// Also answer such calls from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
}

impl RespondParams {
    /// Allows what the decider saw: another input by then is a conflict.
    #[must_use]
    pub fn allow(approval: &Approval) -> Self {
        Self { input_digest: Some(approval.input_digest.clone()), ..Self::of(approval.id, true) }
    }

    /// Denies it, with a reason that the model reads.
    pub fn deny(approval_id: ApprovalId, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::of(approval_id, false) }
    }

    fn of(approval_id: ApprovalId, approve: bool) -> Self {
        Self {
            approval_id,
            approve,
            message: None,
            updated_input: None,
            answers: None,
            input_digest: None,
            remember: None,
        }
    }
}

/// A result of `respond`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Responded", transform = tagged("ok"))]
pub struct Responded {
    /// The approval.
    pub approval_id: ApprovalId,
    /// The rule that was remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<RuleId>,
    /// Other approvals that it answered at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<ApprovalId>,
}

/// Parameters of `respond_many`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RespondManyParams {
    /// The approvals, by their exact ids.
    #[serde(
        deserialize_with = "crate::bounds::list::<1, { crate::bounds::MAX_RESPOND_MANY }, _, _>"
    )]
    #[schemars(length(min = 1, max = 256))]
    pub approval_ids: Vec<ApprovalId>,
    /// Whether the tools may run.
    #[serde(alias = "allow")]
    pub approve: bool,
    /// Why.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub message: Option<String>,
}

impl RespondManyParams {
    /// Decides several the same way.
    #[must_use]
    pub fn new(approval_ids: Vec<ApprovalId>, approve: bool) -> Self {
        Self { approval_ids, approve, message: None }
    }
}

/// One outcome of `respond_many`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RespondOutcome {
    /// The approval.
    pub approval_id: ApprovalId,
    /// Whether it is decided as you said.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
}

/// A result of `respond_many`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "RespondOutcomes", transform = tagged("ok"))]
pub struct RespondOutcomes {
    /// One for each id, in that order.
    pub outcomes: Vec<RespondOutcome>,
}

/// Parameters of `configure`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ConfigureParams {
    /// The session whose child somebody else starts.
    pub session_id: SessionId,
}

impl ConfigureParams {
    /// Makes what a child needs that somebody else starts.
    #[must_use]
    pub fn new(session_id: SessionId) -> Self {
        Self { session_id }
    }
}

/// A result of `configure`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Configured", transform = tagged("ok"))]
pub struct Configured {
    /// What goes into the file for `--mcp-config`. It holds a token: keep it private.
    pub mcp_config: McpConfig,
    /// The flags to start the CLI with.
    pub flags: Vec<String>,
}

/// The MCP servers of a child, as the CLI's `--mcp-config` takes them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "camelCase")]
pub struct McpConfig {
    /// The servers, by name.
    pub mcp_servers: BTreeMap<String, McpServer>,
}

/// One MCP server over HTTP.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct McpServer {
    /// `http`.
    pub r#type: String,
    /// Its address.
    pub url: String,
    /// What every request carries.
    pub headers: BTreeMap<String, String>,
    /// How long a call may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// A permission request as the CLI sends it over MCP: exactly these arguments.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct PermitRequest {
    /// The tool.
    #[serde(deserialize_with = "crate::text::one::<crate::text::SomeText, _>")]
    #[schemars(length(min = 1))]
    pub tool_name: String,
    /// Its input.
    pub input: Object,
    /// The call.
    #[serde(deserialize_with = "crate::text::one::<crate::text::SomeText, _>")]
    #[schemars(length(min = 1))]
    pub tool_use_id: String,
}

/// The answer to `permit`, in the CLI's own words.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "behavior", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum PermitAnswer {
    /// The tool runs with this input. Always the whole of it: older CLIs run a bare allow with
    /// empty arguments.
    Allow {
        /// The input.
        #[schemars(with = "Object")]
        updated_input: Json,
    },
    /// The tool does not run.
    Deny {
        /// What the model reads.
        message: String,
    },
}

impl PermitAnswer {
    /// A denial.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into() }
    }
}

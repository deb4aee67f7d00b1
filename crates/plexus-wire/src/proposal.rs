//! Rules that decisions already taken speak for: `rule_suggest`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::LastDecisions;
use crate::ids::ApprovalId;
use crate::rule::RuleScope;
use crate::schema::tagged;

/// Parameters of `rule_suggest`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RuleSuggestParams {
    /// How many of your newest decisions are looked at (100, at most 200).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastDecisions>,
}

/// A result of `rule_suggest`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "RuleSuggestions", transform = tagged("ok"))]
pub struct RuleSuggestions {
    /// How many of your decisions were looked at.
    pub looked_at: u32,
    /// The rules, the narrowest first. None is in force: `rule_add` makes it one.
    pub suggestions: Vec<ProposedRule>,
}

/// An allow that decisions already taken speak for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ProposedRule {
    /// The pattern.
    pub pattern: String,
    /// What it means, in words.
    pub label: String,
    /// Which sessions it would hold for.
    pub scope: RuleScope,
    /// How many of the decisions it would have taken. You allowed each of them.
    pub answers: u32,
    /// How many that you denied it would have allowed. Always 0: no other is proposed.
    pub denied: u32,
    /// How many sessions asked.
    pub sessions: u32,
    /// The newest of the decisions that it would have taken, at most five.
    pub evidence: Vec<ApprovalId>,
}

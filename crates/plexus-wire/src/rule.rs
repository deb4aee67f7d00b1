//! Standing rules, which answer permission requests before anybody is asked.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{PageLimit, RuleSecs, Uses};
use crate::decision::Remember;
use crate::handle::Handle;
use crate::ids::{ApprovalId, RuleId, SessionId};
use crate::json::Object;
use crate::said::Said;
use crate::schema::tagged;
use crate::time::Seconds;

/// What a rule says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum RuleDecision {
    /// The call may run.
    Allow,
    /// It may not.
    Deny,
    /// Somebody is asked.
    Ask,
}

/// Which sessions a rule holds for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// This session alone.
    Session(SessionId),
    /// This session and everything below it.
    Subtree(SessionId),
    /// Every session.
    All,
}

impl RuleScope {
    /// Returns the session it names.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Session(id) | Self::Subtree(id) => Some(*id),
            Self::All => None,
        }
    }
}

/// Who made a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum RuleAuthor {
    /// The operator.
    Operator,
    /// A session, for its strict descendants.
    Session(SessionId),
    /// The server's own file of rules.
    File,
}

/// A standing rule, as `rules` shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Rule {
    /// Its id. The file's rules get new ones whenever it is read.
    pub id: RuleId,
    /// What it says.
    pub decision: Said<RuleDecision>,
    /// Which calls it is about, in the CLI's notation.
    pub pattern: String,
    /// Which sessions it holds for.
    pub scope: Said<RuleScope>,
    /// Who made it.
    pub author: Said<RuleAuthor>,
    /// When it ends.
    pub expires_at: Option<Seconds>,
    /// How many decisions it may make; without a number, any.
    pub uses: Option<u32>,
    /// How many it has made; not counted for the file's.
    pub used: Option<u32>,
    /// How many more it may make.
    pub uses_left: Option<u32>,
    /// Why it exists.
    pub reason: Option<String>,
    /// Calls it must fit.
    pub matches: Vec<String>,
    /// Calls it must not fit.
    pub does_not_match: Vec<String>,
    /// When it was added; the file does not say.
    pub created_at: Option<Seconds>,
    /// Its handle, which `plexus.resolve_handle` takes. Always there from this version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

/// A rule that would answer a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct SuggestedRule {
    /// The pattern.
    pub pattern: String,
    /// What it means, for a button or a menu.
    pub label: String,
}

/// Parameters of `rule_add`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RuleAddParams {
    /// `allow`, `deny` or `ask`.
    pub decision: RuleDecision,
    /// Which calls, in the CLI's notation: `Bash(git diff:*)`, `Read(/src/**)`,
    /// `WebFetch(domain:example.org)`.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub pattern: String,
    /// `{"session": ID}`, `{"subtree": ID}` or `"all"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
    /// When it ends, in seconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_secs: Option<RuleSecs>,
    /// How many decisions it may make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<Uses>,
    /// Why it exists.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub reason: Option<String>,
    /// Calls it must fit, as `Tool(argument)`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_list::<crate::text::Text, _>"
    )]
    #[schemars(length(max = 1_000))]
    pub matches: Option<Vec<String>>,
    /// Calls it must not fit.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_list::<crate::text::Text, _>"
    )]
    #[schemars(length(max = 1_000))]
    pub does_not_match: Option<Vec<String>>,
}

impl RuleAddParams {
    /// A rule for these calls, where its author may make one.
    pub fn new(decision: RuleDecision, pattern: impl Into<String>) -> Self {
        Self {
            decision,
            pattern: pattern.into(),
            scope: None,
            expires_in_secs: None,
            uses: None,
            reason: None,
            matches: None,
            does_not_match: None,
        }
    }
}

/// A result of `rule_add`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "RuleAdded", transform = tagged("ok"))]
pub struct RuleAdded {
    /// The rule.
    pub rule_id: RuleId,
}

/// Parameters of `rules`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RulesParams {
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

impl RulesParams {
    /// The page after `cursor`, as long as a page may be.
    #[must_use]
    pub fn page(cursor: Option<String>) -> Self {
        Self { limit: Some(PageLimit::MAX), cursor }
    }
}

/// A result of `rules`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "RuleList", transform = tagged("ok"))]
pub struct RuleList {
    /// The rules, oldest first, with how often each has decided.
    pub rules: Vec<Rule>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of `rule_remove`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RuleRemoveParams {
    /// The rule.
    pub rule_id: RuleId,
}

impl RuleRemoveParams {
    /// Removes a rule.
    #[must_use]
    pub fn new(rule_id: RuleId) -> Self {
        Self { rule_id }
    }
}

/// Parameters of `rule_test`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RuleTestParams {
    /// The tool.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub tool_name: String,
    /// Its input.
    pub input: Object,
    /// The session that would ask; without it, your oldest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Instead of a session: the directory of one that is yet to be created.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_path"
    )]
    pub working_dir: Option<PathBuf>,
}

impl RuleTestParams {
    /// A call as the oldest session of the caller would make it.
    pub fn new(tool_name: impl Into<String>, input: Object) -> Self {
        Self { tool_name: tool_name.into(), input, session_id: None, working_dir: None }
    }
}

/// A result of `rule_test`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "RuleTested", transform = tagged("ok"))]
pub struct RuleTested {
    /// What would happen.
    pub decision: Said<RuleDecision>,
    /// The rule that would decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<RuleId>,
    /// Why.
    pub why: String,
}

/// Parameters of `rule_preview`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
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

impl RulePreviewParams {
    /// A decision, remembered so.
    #[must_use]
    pub fn new(approval_id: ApprovalId, approve: bool, remember: Remember) -> Self {
        Self { approval_id, approve, remember }
    }
}

/// A result of `rule_preview`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "RulePreviewed", transform = tagged("ok"))]
pub struct RulePreviewed {
    /// The pattern that the rule would have.
    pub pattern: String,
    /// The other pending approvals that it would decide at once.
    pub releases: Vec<ApprovalId>,
}

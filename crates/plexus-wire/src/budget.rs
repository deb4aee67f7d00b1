//! Budgets: what a session and everything below it may spend, and has spent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::session::SessionRef;

/// Limits for a session and everything below it. What is not set is not limited.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Cost in US dollars.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::bounds::maybe_amount"
    )]
    #[schemars(range(min = 0.0))]
    pub cost_usd: Option<f64>,
    /// Turns of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Tokens, read and written: for agents that know no money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Seconds of running chats, added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_secs: Option<u64>,
    /// How many sessions there may be below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    /// How many generations there may be below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
}

/// What a session and everything below it have spent.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
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

/// What running chats of a session, and of everything below it, have set aside until their results
/// come.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Reserved {
    /// US dollars.
    pub cost_usd: f64,
    /// Turns of the model.
    pub turns: u64,
}

/// How far a budget is used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct BudgetUse {
    /// The limit that is nearest to its end: `cost`, `turns`, `tokens` or `wall time`.
    pub of: String,
    /// How much of it is spent; 1 is all.
    pub used: f64,
}

/// What is spent already, as the `standing` of a budget below it says.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct SpentAlready {
    /// US dollars.
    pub cost_usd: f64,
    /// Turns of the model.
    pub turns: u64,
    /// Tokens, read and written.
    pub tokens: u64,
    /// Seconds of running chats, added up.
    pub wall_secs: f64,
    /// Sessions below it.
    pub children: u64,
}

/// Parameters of `budget_set`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct BudgetSetParams {
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub name: Option<String>,
    /// All its limits from now on; what is not named is not limited.
    pub budget: Budget,
}

impl BudgetSetParams {
    /// Gives a session these limits.
    #[must_use]
    pub fn new(session: SessionRef, budget: Budget) -> Self {
        Self { session_id: session.session_id, name: session.name, budget }
    }
}

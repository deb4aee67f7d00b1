//! Conversations with a model itself, without tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::ids::SessionId;
use crate::json::Object;

/// Parameters of `cone.create`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ConeCreateParams {
    /// A name, unique among the sessions you create.
    #[serde(deserialize_with = "crate::text::one::<crate::text::SessionName, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// The model, perhaps with `anthropic/` or `openai/` before it, which chooses the API. Without
    /// that, models whose names begin with `claude` have the Messages API and all others that of
    /// chat completions.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub model: Option<String>,
    /// What the model is told before everything else.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub system_prompt: Option<String>,
    /// The session that is to be its parent. Only the operator may say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Limits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Anything you want to find again; an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

impl ConeCreateParams {
    /// A conversation with the server's default model.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            model: None,
            system_prompt: None,
            parent: None,
            budget: None,
            metadata: None,
        }
    }
}

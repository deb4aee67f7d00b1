//! Full-text search over what was asked, said and done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::SearchLimit;
use crate::ids::{EventId, SessionId};
use crate::said::Said;
use crate::schema::tagged;
use crate::time::Millis;

/// Parameters of `search`. Every condition that is given must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct SearchParams {
    /// Words that must all occur, in any order; `"quoted words"` stand together, and `word*` is the
    /// beginning of a word. Nothing or an empty text finds everything.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    #[schemars(length(max = 1_000))]
    pub query: Option<String>,
    /// In this session alone, by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// In this session alone, by its exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Calls and results of this tool alone; its exact name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub tool: Option<String>,
    /// This kind alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<SearchKind>,
    /// Nothing before this moment, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// Nothing at or after this moment, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// How many hits (20, at most 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<SearchLimit>,
    /// The position that the last page gave.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub cursor: Option<String>,
}

impl SearchParams {
    /// Looks for these words everywhere.
    #[must_use]
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: Some(query.into()), ..Self::default() }
    }
}

/// What a hit is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum SearchKind {
    /// What the agent was asked to do.
    Prompt,
    /// A text of the model.
    Said,
    /// What the model thought.
    Thought,
    /// A call of a tool.
    Call,
    /// What a tool gave.
    Result,
    /// What was said with a decision about a call.
    Decision,
    /// A notice or an error.
    Notice,
    /// A message that was put into a running chat.
    Steered,
}

/// A result of `search`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "SearchFound", transform = tagged("ok"))]
pub struct SearchFound {
    /// The hits, newest first. There may be more although these are few or none: `cursor` says so.
    pub hits: Vec<SearchHit>,
    /// Hand it back to go on; missing when nothing is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// What was not understood in the query, or taken otherwise than it looks.
    pub notes: Vec<String>,
    /// How many commits of the store are not indexed yet; their events are not found.
    pub behind: u64,
}

/// One thing that was found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct SearchHit {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub session_name: String,
    /// The chat.
    pub chat: u32,
    /// The event in the chat; 0 stands for the prompt.
    pub seq: u32,
    /// The event.
    pub event_id: EventId,
    /// When it happened.
    pub at: Millis,
    /// What it is.
    pub kind: Said<SearchKind>,
    /// The tool of a call or a result, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// A part of its text, around the first place that fits.
    pub excerpt: Vec<SearchPiece>,
}

/// A piece of an excerpt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct SearchPiece {
    /// The text, as somebody else wrote it.
    pub text: String,
    /// Whether it is what was looked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hit: bool,
}

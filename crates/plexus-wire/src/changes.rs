//! What changed in a session's directory since the session began.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preview::PreviewedChange;
use crate::said::Said;
use crate::schema::tagged;
use crate::time::Millis;

/// A result of `changes`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "ChangesFound", transform = tagged("ok"))]
pub struct ChangesFound {
    /// Where the answer comes from.
    pub source: Said<ChangesSource>,
    /// When the session began.
    pub since: Millis,
    /// The changes, sorted by path.
    pub changes: Vec<PreviewedChange>,
    /// Whether there are more than are listed.
    pub cut: bool,
    /// What the answer does not tell, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Where an answer about changes comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ChangesSource {
    /// The files of now, compared with those of the beginning.
    Git,
    /// The edits that the tools of the agent recorded.
    Edits,
}

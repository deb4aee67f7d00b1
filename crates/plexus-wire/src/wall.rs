//! The wall around the children of a session: which one was asked for, and what it holds here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::said::Said;

/// How tightly the children of a session are confined. The order goes from loose to tight.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum Confine {
    /// No wall: an approved command can do what the user can do.
    #[default]
    None,
    /// Reads the system and the user's tool chains, writes the session's directories, reaches the
    /// model and the hosts that somebody allowed.
    Workspace,
    /// Reads the system, writes the session's directories, reaches the model and nothing else.
    Strict,
}

impl Confine {
    /// Returns its word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Workspace => "workspace",
            Self::Strict => "strict",
        }
    }
}

impl std::fmt::Display for Confine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The wall around the children of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Wall {
    /// Which one the session has.
    pub profile: Said<Confine>,
    /// What it is made of on this machine: `full` or `landlock`. Absent without a wall, and in
    /// `list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// What it prevents, in words; only in `get`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enforced: Vec<String>,
    /// What it does not prevent, in words; only in `get`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// Where the key of the model is; only in `get`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Why this machine cannot build the wall, with the next step; only in `get`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl Wall {
    /// Names the profile and nothing else.
    #[must_use]
    pub fn of(profile: Confine) -> Self {
        Self {
            profile: profile.into(),
            tier: None,
            enforced: Vec::new(),
            gaps: Vec::new(),
            key: None,
            missing: None,
        }
    }
}

impl Default for Wall {
    fn default() -> Self {
        Self::of(Confine::None)
    }
}

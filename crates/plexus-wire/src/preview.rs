//! What a waiting shell command would change: a dry run over a copy of the session's directory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ApprovalId;
use crate::said::Said;
use crate::schema::tagged;

/// Parameters of `preview`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct PreviewParams {
    /// The approval whose command is run over a copy.
    pub approval_id: ApprovalId,
}

impl PreviewParams {
    /// Asks for a dry run of this approval's command.
    #[must_use]
    pub fn new(approval_id: ApprovalId) -> Self {
        Self { approval_id }
    }
}

/// A result of `preview`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Previewed", transform = tagged("ok"))]
pub struct Previewed {
    /// How the dry run ended.
    pub end: Said<PreviewEnd>,
    /// What it changed below the session's working directory, sorted by path.
    pub changes: Vec<PreviewedChange>,
    /// Whether there were more changes than are listed.
    pub cut: bool,
    /// The beginning of its output.
    pub stdout: String,
    /// The beginning of its errors.
    pub stderr: String,
    /// What a dry run is worth: it is information, and bound to nothing.
    pub note: String,
}

/// How a dry run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum PreviewEnd {
    /// The command ended.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal ended it.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// It took too long and was killed. What it had changed by then is listed.
    OutOfTime {},
    /// It wrote too much and was killed. What it had changed by then is listed.
    TooLarge {},
}

impl std::fmt::Display for PreviewEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit code {code}"),
            Self::Killed { signal } => write!(f, "ended by signal {signal}"),
            Self::OutOfTime {} => f.write_str("ended because it took too long"),
            Self::TooLarge {} => f.write_str("ended because it wrote too much"),
        }
    }
}

/// One path that a dry run changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct PreviewedChange {
    /// The path, from the session's working directory.
    pub path: String,
    /// How it changed.
    pub change: Said<PathChange>,
    /// The difference as a unified diff. Absent for a directory, a link or a change of mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Why a difference is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a path changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum PathChange {
    /// It was made.
    Added,
    /// Its content, kind or mode changed.
    Modified,
    /// It was removed.
    Removed,
}

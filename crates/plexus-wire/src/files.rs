//! The files that a pending call would change, as they are now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ApprovalId;
use crate::schema::tagged;

/// Parameters of `files`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct FilesParams {
    /// The approval whose call would change them.
    pub approval_id: ApprovalId,
}

impl FilesParams {
    /// Asks for the files of this approval.
    #[must_use]
    pub fn new(approval_id: ApprovalId) -> Self {
        Self { approval_id }
    }
}

/// A result of `files`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "FilesRead", transform = tagged("ok"))]
pub struct FilesRead {
    /// Each file once, in the order of the changes.
    pub files: Vec<FileNow>,
}

/// One file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct FileNow {
    /// The path as the call says it.
    pub path: String,
    /// What is there.
    #[serde(flatten)]
    pub content: FileContent,
}

/// What is at a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FileContent {
    /// A text.
    Text {
        /// All of it.
        text: String,
    },
    /// Nothing: the call would create it.
    Absent {},
    /// Something that is not shown.
    Unread {
        /// Why.
        why: String,
    },
}

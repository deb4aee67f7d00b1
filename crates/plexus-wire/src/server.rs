//! The operator's methods over the server itself.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::tagged;

/// Parameters of `stop`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct StopParams {
    /// Whether the children end first (false: they go on, and the next server picks them up).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<bool>,
    /// Whether children that wait for a decision are parked first, where that is safe (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub park: Option<bool>,
}

/// A result of `stop`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "stopping")]
#[schemars(rename = "Stopping", transform = tagged("stopping"))]
pub struct Stopping {
    /// Children that go on running.
    pub children: u64,
}

/// Parameters of `prune`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct PruneParams {
    /// What ended longer ago than this many days goes.
    pub older_than_days: u64,
    /// Whether the texts of prompts go too (false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<bool>,
}

impl PruneParams {
    /// Removes what ended longer ago than this, but no prompts.
    #[must_use]
    pub fn new(older_than_days: u64) -> Self {
        Self { older_than_days, prompts: None }
    }

    /// The same, and the prompts.
    #[must_use]
    pub fn with_prompts(self) -> Self {
        Self { prompts: Some(true), ..self }
    }
}

/// A result of `prune`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Pruned", transform = tagged("ok"))]
pub struct Pruned {
    /// Approvals removed.
    pub approvals: u64,
    /// Chats whose events were removed.
    pub chats: u64,
    /// Events removed.
    pub events: u64,
    /// Prompts removed.
    #[serde(default)]
    pub prompts: u64,
    /// Audit lines removed.
    pub audit: u64,
    /// Directories of runs removed that an accident had left.
    pub run_directories: u64,
}

/// Parameters of `backup`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct BackupParams {
    /// Where the copy goes; the file must not exist.
    #[serde(deserialize_with = "crate::text::path")]
    pub path: PathBuf,
}

impl BackupParams {
    /// Copies the store to this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

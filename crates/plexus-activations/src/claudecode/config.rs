//! What a session was created with, as it is stored, and what the activation remembers of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use plexus_core::SessionId;
use plexus_store::{JsonText, Session, StoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::settings::ChannelChoice;

/// How much of what a child does is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Supervise {
    /// What the CLI asks about by itself.
    #[default]
    Default,
    /// Also what the CLI would run unasked: reads, harmless commands, subagents.
    All,
}

/// Whether the settings of a repository are read: its hooks run unasked and can answer permissions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProjectSettings {
    /// They are not read.
    #[default]
    Ignore,
    /// They are; only the operator may say so.
    Trust,
}

/// Limits for a session and everything below it. What is not set is not limited.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Turns of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
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

/// What a session was created with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct SessionConfig {
    pub(crate) working_dir: PathBuf,
    pub(crate) model: Option<String>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) loopback_enabled: bool,
    /// Zero: no deadline.
    pub(crate) loopback_timeout_secs: u64,
    pub(crate) escalate_after_secs: Option<u64>,
    pub(crate) supervise: Supervise,
    pub(crate) can_spawn: bool,
    pub(crate) may_decide: Vec<String>,
    pub(crate) project_settings: ProjectSettings,
    pub(crate) channel: ChannelChoice,
    pub(crate) allowed_tools: Vec<String>,
    pub(crate) disallowed_tools: Vec<String>,
    pub(crate) add_dirs: Vec<PathBuf>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) budget: Option<Budget>,
}

impl SessionConfig {
    pub(crate) fn of(session: &Session) -> Result<Self, StoreError> {
        session.config.read()
    }

    pub(crate) fn to_json(&self) -> Result<JsonText, StoreError> {
        JsonText::of(self)
    }

    pub(crate) fn approval_timeout(&self) -> Option<Duration> {
        (self.loopback_timeout_secs > 0).then(|| Duration::from_secs(self.loopback_timeout_secs))
    }
}

/// What the activation remembers of a session besides its configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SessionState {
    /// The CLI's id to fork from at the next start; cleared once the CLI has shown the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fork_from: Option<String>,
    /// Whose conversation that is: what it has cost is known there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fork_of: Option<SessionId>,
    /// The last message of that one which the fork shares; all of it without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fork_behind: Option<Uuid>,
    /// What the conversation had cost when a CLI last left it: whoever resumes or forks it counts on from there.
    #[serde(default)]
    pub(crate) conversation_cost: f64,
    /// A mode for a while, set by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<TimedMode>,
}

/// A mode and when it ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TimedMode {
    pub(crate) mode: Mode,
    /// Unix seconds.
    pub(crate) until: i64,
}

/// What is allowed unasked for a while.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing: every request is asked.
    Ask,
    /// Edits and writes inside the session's directories.
    AcceptEdits,
    /// Everything.
    AllowAll,
}

impl SessionState {
    pub(crate) fn of(session: &Session) -> Result<Self, StoreError> {
        session.state.read()
    }

    pub(crate) fn to_json(&self) -> Result<JsonText, StoreError> {
        JsonText::of(self)
    }
}

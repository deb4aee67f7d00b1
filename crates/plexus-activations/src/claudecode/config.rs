//! What a session was created with, as it is stored, and what the activation remembers of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use plexus_core::SessionId;
use plexus_store::{JsonText, Session, StoreError};
use plexus_wire::{Budget, ChannelChoice, ProjectSettings, Supervise, TimedMode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

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

    /// The home directory of its children, where `~/` starts.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.env.get("HOME").map(PathBuf::from).or_else(std::env::home_dir)
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

impl SessionState {
    pub(crate) fn of(session: &Session) -> Result<Self, StoreError> {
        session.state.read()
    }

    pub(crate) fn to_json(&self) -> Result<JsonText, StoreError> {
        JsonText::of(self)
    }
}

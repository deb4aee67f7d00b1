//! One event of a run, in a form that is the same for every agent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::AgentWrapperKind;

/// The kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentWrapperEventKind {
    /// The agent said something: `text`, and no `message`.
    TextOutput,
    /// The agent uses a tool: metadata in `data`, never its input.
    ToolCall,
    /// A tool returned: metadata in `data`, never its output.
    ToolResult,
    /// The run continues: an optional `message`, an optional facet in `data`, no `text`.
    Status,
    /// Something failed: a `message` in our own words, and no `text`. A run that fails ends with
    /// one of these.
    Error,
    /// The agent did something that its backend has no name for.
    Unknown,
}

/// One event of a run. Each field obeys its limit in [`bounds`](crate::bounds).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentWrapperEvent {
    /// The agent that the event comes from.
    pub agent_kind: AgentWrapperKind,
    /// The kind of the event.
    pub kind: AgentWrapperEventKind,
    /// A name to group events by, such as `assistant`, `tool`, `status` or `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The text of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A description in our own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A facet: an object that names its `schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl AgentWrapperEvent {
    /// Creates an event with nothing but its kind.
    pub fn bare(agent_kind: &AgentWrapperKind, kind: AgentWrapperEventKind) -> Self {
        Self {
            agent_kind: agent_kind.clone(),
            kind,
            channel: None,
            text: None,
            message: None,
            data: None,
        }
    }

    /// Creates a text event on the channel `assistant`.
    pub fn text(agent_kind: &AgentWrapperKind, text: impl Into<String>) -> Self {
        Self {
            channel: Some("assistant".to_owned()),
            text: Some(text.into()),
            ..Self::bare(agent_kind, AgentWrapperEventKind::TextOutput)
        }
    }

    /// Creates a status event on the channel `status`.
    pub fn status(agent_kind: &AgentWrapperKind, message: impl Into<String>) -> Self {
        Self {
            channel: Some("status".to_owned()),
            message: Some(message.into()),
            ..Self::bare(agent_kind, AgentWrapperEventKind::Status)
        }
    }

    /// Creates an error event on the channel `error`.
    pub fn error(agent_kind: &AgentWrapperKind, message: impl Into<String>) -> Self {
        Self {
            channel: Some("error".to_owned()),
            message: Some(message.into()),
            ..Self::bare(agent_kind, AgentWrapperEventKind::Error)
        }
    }

    /// Replaces the event's facet.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

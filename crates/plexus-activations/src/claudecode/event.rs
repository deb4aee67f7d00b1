//! What readers of a chat see: the events of the design, and how one becomes a row of the store.

use plexus_store::{JsonText, NewEvent, Position, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::scrub;

/// One thing a reader of a chat sees. The `start` event is written by the store, with the chat.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatEvent {
    /// The chat has begun.
    Start {
        /// The session.
        id: plexus_core::SessionId,
        /// The node of the prompt.
        user_position: Position,
    },
    /// A text block of the model.
    Content {
        /// The text.
        text: String,
    },
    /// A thinking block of the model.
    Thinking {
        /// The text.
        thinking: String,
    },
    /// The model wants to use a tool.
    ToolUse {
        /// The tool.
        tool_name: String,
        /// The call.
        tool_use_id: String,
        /// Its input.
        #[schemars(with = "Map<String, Value>")]
        input: JsonText,
    },
    /// A tool waits for permission.
    AwaitingApproval {
        /// The approval to answer.
        approval_id: plexus_core::ApprovalId,
        /// The tool.
        tool_name: String,
        /// The call.
        tool_use_id: String,
        /// Its input.
        #[schemars(with = "Map<String, Value>")]
        input: JsonText,
    },
    /// A permission request was decided.
    ApprovalResolved {
        /// The approval.
        approval_id: plexus_core::ApprovalId,
        /// Whether the tool may run.
        approved: bool,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The input as the decider edited it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Map<String, Value>>")]
        updated_input: Option<JsonText>,
        /// Who decided: `"operator"`, `{"session": ID}`, `{"rule": ID}`, `"deadline"` or `"agent_ended"`.
        #[schemars(with = "plexus_store::DecidedBy")]
        decided_by: Value,
    },
    /// A tool has run, or was refused.
    ToolResult {
        /// The call.
        tool_use_id: String,
        /// What it gave: text, or an array of content blocks.
        #[schemars(with = "String")]
        output: JsonText,
        /// Whether it failed.
        is_error: bool,
    },
    /// A child session asks for permission; in the running chat of its parent.
    ToolRequest {
        /// The approval to answer.
        approval_id: plexus_core::ApprovalId,
        /// The child.
        session_id: plexus_core::SessionId,
        /// The child's name.
        session_name: String,
        /// The tool.
        tool_name: String,
        /// The call.
        tool_use_id: String,
        /// Its input.
        #[schemars(with = "Map<String, Value>")]
        input: JsonText,
    },
    /// Something a reader should know: retries, stderr, escalation, budget.
    Notice {
        /// The words.
        message: String,
    },
    /// Something of the CLI that we do not translate, as it was.
    Passthrough {
        /// Its type, with its subtype behind a slash.
        event_type: String,
        /// The whole line.
        #[schemars(with = "Map<String, Value>")]
        data: JsonText,
    },
    /// The chat has ended well.
    Complete {
        /// The session's head from now on.
        new_head: Position,
        /// The CLI's own id of the conversation.
        claude_session_id: Option<String>,
        /// The CLI's own id of the last thing it said: where a fork behind this chat goes on.
        #[serde(skip_serializing_if = "Option::is_none")]
        claude_message_id: Option<Uuid>,
        /// What the chat used.
        usage: Usage,
    },
    /// Something failed: a line that could not be read, or, as the last event, the chat.
    Error {
        /// What.
        message: String,
    },
}

/// What a chat used.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, serde::Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// What it cost, in US dollars.
    pub cost_usd: f64,
    /// Turns of the model.
    pub num_turns: u64,
}

impl ChatEvent {
    /// Returns the `type` it has on the wire.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Content { .. } => "content",
            Self::Thinking { .. } => "thinking",
            Self::ToolUse { .. } => "tool_use",
            Self::AwaitingApproval { .. } => "awaiting_approval",
            Self::ApprovalResolved { .. } => "approval_resolved",
            Self::ToolResult { .. } => "tool_result",
            Self::ToolRequest { .. } => "tool_request",
            Self::Notice { .. } => "notice",
            Self::Passthrough { .. } => "passthrough",
            Self::Complete { .. } => "complete",
            Self::Error { .. } => "error",
        }
    }

    /// Makes a notice.
    pub fn notice(message: impl Into<String>) -> Self {
        Self::Notice { message: message.into() }
    }

    /// Makes the row that happens now, with tokens of ours scrubbed from what a child printed. A
    /// permission request is kept as it is: its input holds no token, and its reader must see what
    /// would be sent.
    ///
    /// # Errors
    /// When it cannot be JSON, which these types rule out.
    pub fn to_new_event(&self) -> Result<NewEvent, StoreError> {
        let body = JsonText::of(self)?;
        let body = match self {
            Self::AwaitingApproval { .. } | Self::ToolRequest { .. } => body,
            _ => scrub::json(body),
        };
        Ok(NewEvent::now(self.type_name(), body))
    }
}

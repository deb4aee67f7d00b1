//! What happens in a chat: one variant for each kind of event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::approval::DecidedBy;
use crate::arbor::Position;
use crate::caller::Caller;
use crate::conversation::ToolOutput;
use crate::ids::{ApprovalId, SessionId};
use crate::json::{Json, Object};
use crate::question::{Answers, Question};

/// One thing that a reader of a chat sees.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatEvent {
    /// The chat has begun.
    Start {
        /// The session.
        id: SessionId,
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
        #[schemars(with = "Object")]
        input: Json,
    },
    /// A tool waits for permission.
    AwaitingApproval {
        /// The approval to answer.
        approval_id: ApprovalId,
        /// The tool.
        tool_name: String,
        /// The call.
        tool_use_id: String,
        /// Its input.
        #[schemars(with = "Object")]
        input: Json,
        /// What the agent asks its user, when the call is a question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Box<Question>>,
        /// Why only the operator may allow it; absent where rules, modes and sessions may too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        person_only: Option<String>,
    },
    /// A permission request was decided.
    ApprovalResolved {
        /// The approval.
        approval_id: ApprovalId,
        /// Whether the tool may run.
        approved: bool,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The input as the decider edited it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Object>")]
        updated_input: Option<Json>,
        /// What was answered to a question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<Answers>,
        /// Who decided: `"operator"`, `{"session": ID}`, `{"rule": ID}`, `"deadline"`,
        /// `"agent_ended"` or `"webhook"`.
        decided_by: DecidedBy,
    },
    /// A tool has run, or was refused.
    ToolResult {
        /// The call.
        tool_use_id: String,
        /// What it gave: text, or an array of content blocks.
        #[schemars(with = "ToolOutput")]
        output: Json,
        /// Whether it failed.
        is_error: bool,
    },
    /// A child session asks for permission. The event is in the running chat of its parent.
    ToolRequest {
        /// The approval to answer.
        approval_id: ApprovalId,
        /// The child.
        session_id: SessionId,
        /// The child's name.
        session_name: String,
        /// The tool.
        tool_name: String,
        /// The call.
        tool_use_id: String,
        /// Its input.
        #[schemars(with = "Object")]
        input: Json,
        /// What the agent asks its user, when the call is a question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Box<Question>>,
        /// Why only the operator may allow it; absent where rules, modes and sessions may too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        person_only: Option<String>,
    },
    /// Somebody put a message into the running chat.
    Steered {
        /// Who: `"operator"` or `{"session": ID}`.
        by: Caller,
        /// The message.
        text: String,
    },
    /// Something a reader should know: retries, stderr, escalation, budget.
    Notice {
        /// The words.
        message: String,
    },
    /// Something of the CLI that we do not translate, as it was.
    Passthrough {
        /// Its type, with its subtype after a slash.
        event_type: String,
        /// The whole line.
        #[schemars(with = "Object")]
        data: Json,
    },
    /// The chat has ended well.
    Complete {
        /// The session's head from now on.
        new_head: Position,
        /// The CLI's own id of the conversation.
        claude_session_id: Option<String>,
        /// The CLI's own id of the last thing it said: where a fork after this chat goes on.
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
    /// An event that happened long ago, whose content was removed. Its number and its place in the
    /// tree are those of the event that it was.
    Pruned {
        /// The type of the event that it was, for example `content`.
        was: String,
    },
    /// An event of a later version, or one that is not as it used to be; whole. No server of this
    /// version writes it.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(Value),
}

/// What a chat used.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
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
    pub fn type_name(&self) -> &str {
        match self {
            Self::Start { .. } => "start",
            Self::Content { .. } => "content",
            Self::Thinking { .. } => "thinking",
            Self::ToolUse { .. } => "tool_use",
            Self::AwaitingApproval { .. } => "awaiting_approval",
            Self::ApprovalResolved { .. } => "approval_resolved",
            Self::ToolResult { .. } => "tool_result",
            Self::ToolRequest { .. } => "tool_request",
            Self::Steered { .. } => "steered",
            Self::Notice { .. } => "notice",
            Self::Passthrough { .. } => "passthrough",
            Self::Complete { .. } => "complete",
            Self::Error { .. } => "error",
            Self::Pruned { .. } => "pruned",
            Self::Other(event) => event["type"].as_str().unwrap_or_default(),
        }
    }

    /// Makes a notice.
    pub fn notice(message: impl Into<String>) -> Self {
        Self::Notice { message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_events_are_typed_and_others_are_kept_whole() {
        let read = |value: Value| serde_json::from_value::<ChatEvent>(value).unwrap();
        assert_eq!(
            read(json!({"type": "content", "text": "a", "more": 1})),
            ChatEvent::Content { text: "a".into() }
        );
        for odd in [
            json!({"type": "tomorrow", "x": 1}),
            json!({"type": "content"}),
            json!({"pruned": true}),
            json!(7),
        ] {
            assert_eq!(read(odd.clone()), ChatEvent::Other(odd));
        }
    }

    #[test]
    fn an_input_keeps_its_text() {
        let input = r#"{"z":1.0,"a":123456789012345678901234567890}"#;
        let event = ChatEvent::ToolUse {
            tool_name: "T".into(),
            tool_use_id: "t".into(),
            input: Json::from_text(input),
        };
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            format!(r#"{{"type":"tool_use","tool_name":"T","tool_use_id":"t","input":{input}}}"#)
        );
    }
}

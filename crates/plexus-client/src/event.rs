//! What a reader of a chat sees.

use plexus_core::{ApprovalId, NodeId, SessionId};
use serde::Deserialize;
use serde_json::Value;

/// One event with its place.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionEvent {
    /// The session.
    pub session_id: SessionId,
    /// The chat.
    pub chat: u32,
    /// Its number within the chat.
    pub seq: u32,
    /// When, in Unix milliseconds.
    pub timestamp: i64,
    /// Its node in the session's tree.
    pub node_id: NodeId,
    /// The event.
    pub event: Event,
    /// The position behind it.
    pub cursor: Option<String>,
    /// The whole of it as the server sent it.
    pub raw: Value,
}

/// The head of [`SessionEvent`] on the wire.
#[derive(Deserialize)]
struct Wire {
    session_id: SessionId,
    chat: u32,
    seq: u32,
    timestamp: i64,
    node_id: NodeId,
    event: Event,
}

impl SessionEvent {
    /// Reads an event as `follow` and `/events` send it.
    ///
    /// # Errors
    /// When it is not one.
    pub fn read(raw: Value, cursor: Option<String>) -> Result<Self, serde_json::Error> {
        let Wire { session_id, chat, seq, timestamp, node_id, event } = Wire::deserialize(&raw)?;
        Ok(Self { session_id, chat, seq, timestamp, node_id, event, cursor, raw })
    }
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The chat has begun.
    Start,
    /// The agent says something.
    Content {
        /// The text.
        text: String,
    },
    /// The agent thinks.
    Thinking {
        /// The text.
        thinking: String,
    },
    /// The agent uses a tool.
    ToolUse {
        /// The tool.
        tool_name: String,
        /// The call.
        tool_use_id: String,
        /// Its input.
        input: Value,
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
        input: Value,
    },
    /// A permission request was decided.
    ApprovalResolved {
        /// The approval.
        approval_id: ApprovalId,
        /// Whether the tool may run.
        approved: bool,
        /// Why.
        message: Option<String>,
        /// The input as the decider edited it.
        updated_input: Option<Value>,
        /// Who decided: `"operator"`, `{"session": …}`, `{"rule": …}`, `"deadline"`, …
        #[serde(default)]
        decided_by: Value,
    },
    /// A tool has run, or was refused.
    ToolResult {
        /// The call.
        tool_use_id: String,
        /// What it gave: text, or an array of content blocks.
        output: Value,
        /// Whether it failed.
        #[serde(default)]
        is_error: bool,
    },
    /// A child of this session asks for permission.
    ToolRequest {
        /// The approval to answer.
        approval_id: ApprovalId,
        /// The child.
        session_id: SessionId,
        /// The child's name.
        session_name: String,
        /// The tool.
        tool_name: String,
        /// Its input.
        input: Value,
    },
    /// Something a reader should know.
    Notice {
        /// The words.
        message: String,
    },
    /// The chat has ended well.
    Complete {
        /// What it used.
        #[serde(default)]
        usage: Usage,
    },
    /// Something failed; as the last event of a chat, the chat.
    Error {
        /// What.
        message: String,
    },
    /// Something else: a passthrough of the CLI, a type of a later version, or one that is not as it used to be. It is kept whole.
    #[serde(untagged)]
    Other(Value),
}

/// What a chat used.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_events_are_typed_and_others_are_kept_whole() {
        let read = |value: Value| serde_json::from_value::<Event>(value).unwrap();
        assert_eq!(
            read(json!({"type": "content", "text": "a", "more": 1})),
            Event::Content { text: "a".into() }
        );
        for odd in [
            json!({"type": "tomorrow", "x": 1}),
            json!({"type": "content"}),
            json!({"pruned": true}),
            json!(7),
        ] {
            assert_eq!(read(odd.clone()), Event::Other(odd));
        }
    }
}

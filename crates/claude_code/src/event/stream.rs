//! `stream_event` lines: a message while the model writes it (with `--include-partial-messages`).
//!
//! An `assistant` line repeats the complete text: count it once.

use super::message::{ContentBlock, Message, Usage};
use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StreamEvent {
    /// The part.
    pub event: StreamPart,
    /// The tool use that started the subagent; `None` for the main agent.
    pub parent_tool_use_id: Option<Text>,
    /// The message it belongs to.
    pub api_message_id: Option<Text>,
    /// Time to the first token, on the first part.
    pub ttft_ms: Option<u64>,
}

/// The kinds of part, in the order they come.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StreamPart {
    /// A message begins.
    MessageStart(Box<Message>),
    /// A block begins.
    ContentBlockStart {
        /// Its index in the message.
        index: u64,
        /// Its empty form.
        content_block: ContentBlock,
    },
    /// A block grows.
    ContentBlockDelta {
        /// Its index in the message.
        index: u64,
        /// The addition.
        delta: Delta,
    },
    /// A block is complete.
    ContentBlockStop {
        /// Its index in the message.
        index: u64,
    },
    /// The message's own fields change.
    MessageDelta(Box<MessageDelta>),
    /// The message is complete.
    MessageStop,
    /// The API keeps the connection open.
    Ping,
    /// Any other part, whole.
    Unknown(RawJson),
}

/// An addition to a block.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// Text.
    Text(Text),
    /// A piece of a tool's input; the pieces together are JSON.
    InputJson(Text),
    /// Thinking.
    Thinking(Text),
    /// The signature of the thinking.
    Signature(Text),
    /// A citation.
    Citations(RawJson),
    /// Any other delta, whole.
    Unknown(RawJson),
}

json_object! {
    /// The fields that a message gets at its end.
    pub struct MessageDelta {
        /// The new fields.
        delta: StopDelta = "delta",
        /// The token usage of the message.
        usage: Option<Box<Usage>> = "usage",
    }

    /// Why the model stopped.
    pub struct StopDelta {
        /// The reason.
        stop_reason: Option<Text> = "stop_reason",
        /// The sequence that stopped it.
        stop_sequence: Option<Text> = "stop_sequence",
    }
}

impl FromJson for StreamEvent {
    fn from_json(line: Value<'_>) -> Option<Self> {
        let (mut event, mut parent_tool_use_id, mut api_message_id, mut ttft_ms) =
            (None, None, None, None);
        line.each_field(|key, value| match key {
            "event" => event = value.is_object().then(|| StreamPart::read(value)),
            "parent_tool_use_id" => parent_tool_use_id = value.text(),
            "api_message_id" => api_message_id = value.text(),
            "ttft_ms" => ttft_ms = value.as_number(),
            _ => {}
        });
        event.map(|event| Self { event, parent_tool_use_id, api_message_id, ttft_ms })
    }
}

/// The fields of a part, collected in one pass over it.
#[derive(Default)]
struct PartFields<'a> {
    kind: Option<Value<'a>>,
    index: Option<u64>,
    delta: Option<Value<'a>>,
    content_block: Option<Value<'a>>,
    message: Option<Value<'a>>,
}

impl StreamPart {
    fn read(value: Value<'_>) -> Self {
        let mut fields = PartFields::default();
        value.each_field(|key, value| match key {
            "type" => fields.kind = Some(value),
            "index" => fields.index = value.as_number(),
            "delta" => fields.delta = Some(value),
            "content_block" => fields.content_block = Some(value),
            "message" => fields.message = Some(value),
            _ => {}
        });
        let kind = fields.kind.and_then(Value::as_str);
        let known = match kind.as_deref().unwrap_or_default() {
            "content_block_delta" => fields
                .index
                .zip(fields.delta)
                .map(|(index, delta)| Self::ContentBlockDelta { index, delta: Delta::read(delta) }),
            "content_block_start" => {
                fields.index.zip(fields.content_block).map(|(index, block)| {
                    let content_block = ContentBlock::read(block);
                    Self::ContentBlockStart { index, content_block }
                })
            }
            "content_block_stop" => fields.index.map(|index| Self::ContentBlockStop { index }),
            "message_start" => fields.message.and_then(FromJson::from_json).map(Self::MessageStart),
            "message_delta" => FromJson::from_json(value).map(Box::new).map(Self::MessageDelta),
            "message_stop" => Some(Self::MessageStop),
            "ping" => Some(Self::Ping),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Unknown(value.raw()))
    }
}

impl Delta {
    fn read(value: Value<'_>) -> Self {
        let text = |name| value.get(name).and_then(Value::text);
        let kind = value.get("type").and_then(Value::as_str);
        let known = match kind.as_deref().unwrap_or_default() {
            "text_delta" => text("text").map(Self::Text),
            "input_json_delta" => text("partial_json").map(Self::InputJson),
            "thinking_delta" => text("thinking").map(Self::Thinking),
            "signature_delta" => text("signature").map(Self::Signature),
            "citations_delta" => {
                value.get("citation").map(|citation| Self::Citations(citation.raw()))
            }
            _ => None,
        };
        known.unwrap_or_else(|| Self::Unknown(value.raw()))
    }
}

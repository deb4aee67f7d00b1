//! Assistant and user lines, and the content blocks inside them.

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

/// An `assistant` line: one content block of the model, or a synthetic message about a failure.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The message the block belongs to.
    pub message: Message,
    /// The fields that the CLI adds to the line.
    pub meta: AssistantMeta,
}

/// A `user` line: a prompt, the echo of one, or the results of tools.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// The message.
    pub message: Message,
    /// The fields that the CLI adds to the line.
    pub meta: UserMeta,
}

json_object! {
    /// A message of the model's API.
    pub struct Message {
        /// The message's id; all lines of one message share it.
        id: Option<Text> = "id",
        /// `assistant` or `user`.
        role: Option<Text> = "role",
        /// The model; `<synthetic>` for messages that the CLI wrote itself.
        model: Option<Text> = "model",
        /// The content.
        content: MessageContent = "content",
        /// Why the model stopped; null in `assistant` lines while it continues.
        stop_reason: Option<Text> = "stop_reason",
        /// The sequence that stopped it.
        stop_sequence: Option<Text> = "stop_sequence",
        /// The token usage so far.
        usage: Option<Box<Usage>> = "usage",
    }

    /// The fields beside `message` in an `assistant` line.
    pub struct AssistantMeta {
        /// The tool use that started the subagent; `None` for the main agent.
        parent_tool_use_id: Option<Text> = "parent_tool_use_id",
        /// When the CLI wrote it, RFC 3339.
        timestamp: Option<Text> = "timestamp",
        /// The API's id of the request.
        request_id: Option<Text> = "request_id",
        /// The failure that this synthetic message reports.
        error: Option<Text> = "error",
        /// Whether the CLI wrote it to report a failure of the API.
        is_api_error_message: Option<bool> = "is_api_error_message",
        /// The HTTP status of that failure.
        api_error_status: Option<i64> = "api_error_status",
        /// The API's name for that failure.
        api_error_type: Option<Text> = "api_error_type",
        /// Whether the message was aborted.
        aborted: Option<bool> = "aborted",
        /// The prompt it answers.
        user_message_uuid: Option<Text> = "user_message_uuid",
        /// All prompts it answers.
        user_message_uuids: Vec<Text> = "user_message_uuids",
        /// The subagent that wrote the message.
        agent_id: Option<Text> = "agent_id",
        /// That subagent's kind.
        subagent_type: Option<Text> = "subagent_type",
        /// That subagent's task.
        task_description: Option<Text> = "task_description",
        /// How long the model thought.
        thinking_duration_ms: Option<u64> = "thinking_duration_ms",
        /// How the thinking is shown.
        thinking_display: Option<Text> = "thinking_display",
    }

    /// The fields beside `message` in a `user` line.
    pub struct UserMeta {
        /// The tool use that started the subagent; `None` for the main agent.
        parent_tool_use_id: Option<Text> = "parent_tool_use_id",
        /// When the CLI wrote it, RFC 3339.
        timestamp: Option<Text> = "timestamp",
        /// Whether this is the echo of a line that we sent (with `--replay-user-messages`).
        is_replay: Option<bool> = "isReplay",
        /// Whether the CLI generated the message itself.
        is_synthetic: Option<bool> = "isSynthetic",
        /// The result in the tool's own form.
        tool_use_result: Option<RawJson> = "tool_use_result",
        /// Who allowed or refused each tool use.
        tool_result_meta: Vec<ToolResultMeta> = "tool_result_meta",
        /// The origin of the message, if it is not a prompt.
        origin: Option<Origin> = "origin",
        /// The subagent this belongs to.
        agent_id: Option<Text> = "agent_id",
        /// That subagent's kind.
        subagent_type: Option<Text> = "subagent_type",
        /// That subagent's task.
        task_description: Option<Text> = "task_description",
    }

    /// The CLI's note about one tool result.
    pub struct ToolResultMeta {
        /// The tool use.
        id: Option<Text> = "id",
        /// Who allowed or refused it, and how.
        permission_decision: Option<PermissionDecision> = "permission_decision",
        /// Why it did not run.
        non_execution_kind: Option<Text> = "non_execution_kind",
    }

    /// The decision about one tool use, as the CLI recorded it.
    pub struct PermissionDecision {
        /// `accept` or `reject`.
        decision: Option<Text> = "decision",
        /// `user_temporary` (an answer), `config` (nobody was asked), `hook`, …
        source: Option<Text> = "source",
        /// Details of the source.
        reason_type: Option<Text> = "reason_type",
    }

    /// The cause of a turn or message that the CLI started by itself.
    pub struct Origin {
        /// `task-notification`, …
        kind: Option<Text> = "kind",
        /// The part of the CLI that started it.
        producer: Option<Text> = "producer",
        /// The run it belongs to.
        run_id: Option<Text> = "runId",
    }

    /// Token counts of one request or one turn.
    pub struct Usage {
        /// Input tokens.
        input_tokens: Option<u64> = "input_tokens",
        /// Output tokens.
        output_tokens: Option<u64> = "output_tokens",
        /// Input tokens that were written to the cache.
        cache_creation_input_tokens: Option<u64> = "cache_creation_input_tokens",
        /// Input tokens that were read from the cache.
        cache_read_input_tokens: Option<u64> = "cache_read_input_tokens",
        /// The API's service tier.
        service_tier: Option<Text> = "service_tier",
        /// The tools that ran at the API.
        server_tool_use: Option<RawJson> = "server_tool_use",
    }
}

impl FromJson for AssistantMessage {
    fn from_json(line: Value<'_>) -> Option<Self> {
        Some(Self {
            message: Message::from_json(line.get("message")?)?,
            meta: AssistantMeta::from_json(line)?,
        })
    }
}

impl FromJson for UserMessage {
    fn from_json(line: Value<'_>) -> Option<Self> {
        Some(Self {
            message: Message::from_json(line.get("message")?)?,
            meta: UserMeta::from_json(line)?,
        })
    }
}

/// The content of a message or of a tool's result.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageContent {
    /// Plain text.
    Text(Text),
    /// Blocks, in order.
    Blocks(Vec<ContentBlock>),
    /// Any other content; see the event's raw JSON.
    Other(RawJson),
}

impl MessageContent {
    /// Returns the blocks; empty if the content is plain text.
    pub fn blocks(&self) -> &[ContentBlock] {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Text(_) | Self::Other(_) => &[],
        }
    }

    /// Returns all its text, with the blocks joined without a separator.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            Self::Blocks(blocks) => blocks
                .iter()
                .filter_map(|block| match block {
                    ContentBlock::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect(),
            Self::Other(_) => String::new(),
        }
    }
}

impl Default for MessageContent {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl FromJson for MessageContent {
    fn from_json(value: Value<'_>) -> Option<Self> {
        Some(if let Some(text) = value.text() {
            Self::Text(text)
        } else if value.is_array() {
            Self::Blocks(value.items().map(ContentBlock::read).collect())
        } else {
            Self::Other(value.raw())
        })
    }
}

/// One block of content. The larger kinds are boxed so that a message of a million empty blocks
/// stays a small multiple of its line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(Text),
    /// The model's thinking.
    Thinking(Box<Thinking>),
    /// Thinking that is encrypted for the API.
    RedactedThinking(RawJson),
    /// The model calls a tool.
    ToolUse(Box<ToolUse>),
    /// The model calls a tool that runs at the API.
    ServerToolUse(Box<ToolUse>),
    /// The result of a tool.
    ToolResult(Box<ToolResult>),
    /// The result of a tool at the API.
    ServerToolResult(Box<ServerToolResult>),
    /// An image.
    Image(RawJson),
    /// A document.
    Document(RawJson),
    /// Any other block, whole.
    Unknown(RawJson),
}

json_object! {
    /// The model's thinking.
    pub struct Thinking {
        /// The text; may be empty if the API withholds it.
        thinking: Text = "thinking",
        /// The API's signature of it.
        signature: Option<Text> = "signature",
    }

    /// A call of a tool.
    pub struct ToolUse {
        /// The id of the call; its result carries the same.
        id: Text = "id",
        /// The tool.
        name: Text = "name",
        /// Its arguments, as the model wrote them.
        input: RawJson = "input",
    }

    /// The result of a call.
    pub struct ToolResult {
        /// The call.
        tool_use_id: Text = "tool_use_id",
        /// The result.
        content: MessageContent = "content",
        /// Whether it failed or was refused.
        is_error: Option<bool> = "is_error",
    }

    /// The result of a call that ran at the API.
    pub struct ServerToolResult {
        /// The type of the result: `web_search_tool_result`, …
        block_type: Text = "type",
        /// The call.
        tool_use_id: Option<Text> = "tool_use_id",
        /// The result.
        content: Option<RawJson> = "content",
    }
}

impl ContentBlock {
    /// Reads one block. A block that does not have the form of its type is kept as `Unknown`.
    pub(crate) fn read(value: Value<'_>) -> Self {
        let kind = value.get("type").and_then(Value::as_str);
        let known = match kind.as_deref().unwrap_or_default() {
            "text" => value.get("text").and_then(Value::text).map(Self::Text),
            "thinking" => FromJson::from_json(value).map(Self::Thinking),
            "redacted_thinking" => Some(Self::RedactedThinking(value.raw())),
            "tool_use" => FromJson::from_json(value).map(Self::ToolUse),
            "server_tool_use" | "mcp_tool_use" => {
                FromJson::from_json(value).map(Self::ServerToolUse)
            }
            "tool_result" => FromJson::from_json(value).map(Self::ToolResult),
            "image" => Some(Self::Image(value.raw())),
            "document" => Some(Self::Document(value.raw())),
            other if other.ends_with("_tool_result") => {
                FromJson::from_json(value).map(Self::ServerToolResult)
            }
            _ => None,
        };
        known.unwrap_or_else(|| Self::Unknown(value.raw()))
    }
}

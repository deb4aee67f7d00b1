//! Assistant and user lines, and the content blocks inside them.

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

/// An `assistant` line: one content block of the model, or a synthetic message about a failure.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The message the block belongs to.
    pub message: Message,
    /// What the CLI says about the line.
    pub meta: AssistantMeta,
}

/// A `user` line: a prompt, the echo of one, or the results of tools.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// The message.
    pub message: Message,
    /// What the CLI says about the line.
    pub meta: UserMeta,
}

json_object! {
    /// A message of the model's API.
    pub struct Message {
        /// The message's id; all lines of one message share it.
        id: Option<Text> = "id",
        /// `assistant` or `user`.
        role: Option<Text> = "role",
        /// The model, `<synthetic>` for what the CLI wrote itself.
        model: Option<Text> = "model",
        /// What was said.
        content: MessageContent = "content",
        /// Why the model stopped; null in `assistant` lines while it has not.
        stop_reason: Option<Text> = "stop_reason",
        /// The sequence that stopped it.
        stop_sequence: Option<Text> = "stop_sequence",
        /// What it cost so far.
        usage: Option<Box<Usage>> = "usage",
    }

    /// What stands beside `message` in an `assistant` line.
    pub struct AssistantMeta {
        /// The tool use whose subagent speaks; none for the main agent.
        parent_tool_use_id: Option<Text> = "parent_tool_use_id",
        /// When the CLI wrote it, RFC 3339.
        timestamp: Option<Text> = "timestamp",
        /// The API's id of the request.
        request_id: Option<Text> = "request_id",
        /// Which failure this synthetic message is about.
        error: Option<Text> = "error",
        /// Whether the CLI wrote it about a failure of the API.
        is_api_error_message: Option<bool> = "is_api_error_message",
        /// The HTTP status of that failure.
        api_error_status: Option<i64> = "api_error_status",
        /// The API's name for that failure.
        api_error_type: Option<Text> = "api_error_type",
        /// Whether the message was cut short.
        aborted: Option<bool> = "aborted",
        /// The prompt it answers.
        user_message_uuid: Option<Text> = "user_message_uuid",
        /// All prompts it answers.
        user_message_uuids: Vec<Text> = "user_message_uuids",
        /// The subagent that speaks.
        agent_id: Option<Text> = "agent_id",
        /// That subagent's kind.
        subagent_type: Option<Text> = "subagent_type",
        /// That subagent's task.
        task_description: Option<Text> = "task_description",
        /// How long the model thought.
        thinking_duration_ms: Option<u64> = "thinking_duration_ms",
        /// How its thinking is shown.
        thinking_display: Option<Text> = "thinking_display",
    }

    /// What stands beside `message` in a `user` line.
    pub struct UserMeta {
        /// The tool use whose subagent this belongs to; none for the main agent.
        parent_tool_use_id: Option<Text> = "parent_tool_use_id",
        /// When the CLI wrote it, RFC 3339.
        timestamp: Option<Text> = "timestamp",
        /// Whether this is the echo of a line that we sent (with `--replay-user-messages`).
        is_replay: Option<bool> = "isReplay",
        /// Whether the CLI made it up itself.
        is_synthetic: Option<bool> = "isSynthetic",
        /// The tool's own form of its result.
        tool_use_result: Option<RawJson> = "tool_use_result",
        /// Who let each tool run.
        tool_result_meta: Vec<ToolResultMeta> = "tool_result_meta",
        /// Where the message comes from, when not from a prompt.
        origin: Option<Origin> = "origin",
        /// The subagent this belongs to.
        agent_id: Option<Text> = "agent_id",
        /// That subagent's kind.
        subagent_type: Option<Text> = "subagent_type",
        /// That subagent's task.
        task_description: Option<Text> = "task_description",
    }

    /// What the CLI notes about one tool result.
    pub struct ToolResultMeta {
        /// The tool use.
        id: Option<Text> = "id",
        /// Who decided that it may run.
        permission_decision: Option<PermissionDecision> = "permission_decision",
        /// Why it did not run.
        non_execution_kind: Option<Text> = "non_execution_kind",
    }

    /// A decision about one tool use, as the CLI noted it.
    pub struct PermissionDecision {
        /// `accept` or `reject`.
        decision: Option<Text> = "decision",
        /// `user_temporary` (an answer), `config` (never asked), `hook`, …
        source: Option<Text> = "source",
        /// More about the source.
        reason_type: Option<Text> = "reason_type",
    }

    /// What made the CLI start a turn or write a message by itself.
    pub struct Origin {
        /// `task-notification`, …
        kind: Option<Text> = "kind",
        /// Which part of the CLI.
        producer: Option<Text> = "producer",
        /// The run it belongs to.
        run_id: Option<Text> = "runId",
    }

    /// Tokens of one request or one turn.
    pub struct Usage {
        /// Tokens read.
        input_tokens: Option<u64> = "input_tokens",
        /// Tokens written.
        output_tokens: Option<u64> = "output_tokens",
        /// Tokens put into the cache.
        cache_creation_input_tokens: Option<u64> = "cache_creation_input_tokens",
        /// Tokens read from the cache.
        cache_read_input_tokens: Option<u64> = "cache_read_input_tokens",
        /// The API's service tier.
        service_tier: Option<Text> = "service_tier",
        /// Tools that ran at the API.
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
    /// Something else; see the event's raw JSON.
    Other(RawJson),
}

impl MessageContent {
    /// Returns the blocks; none when the content is plain text.
    pub fn blocks(&self) -> &[ContentBlock] {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Text(_) | Self::Other(_) => &[],
        }
    }

    /// Returns all text in it, blocks joined without a separator.
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
    /// Thinking that only the API can read.
    RedactedThinking(RawJson),
    /// The model calls a tool.
    ToolUse(Box<ToolUse>),
    /// The model calls a tool that runs at the API.
    ServerToolUse(Box<ToolUse>),
    /// What a tool gave back.
    ToolResult(Box<ToolResult>),
    /// What a tool at the API gave back.
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
        /// What it thought; may be empty when the API keeps it.
        thinking: Text = "thinking",
        /// The API's seal on it.
        signature: Option<Text> = "signature",
    }

    /// A call of a tool.
    pub struct ToolUse {
        /// Names this call; its result carries the same.
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
        /// What came back.
        content: MessageContent = "content",
        /// Whether it failed or was refused.
        is_error: Option<bool> = "is_error",
    }

    /// The result of a call that ran at the API.
    pub struct ServerToolResult {
        /// Which tool: `web_search_tool_result`, …
        block_type: Text = "type",
        /// The call.
        tool_use_id: Option<Text> = "tool_use_id",
        /// What came back.
        content: Option<RawJson> = "content",
    }
}

impl ContentBlock {
    /// Reads one block. What cannot be read as its type says is kept whole.
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

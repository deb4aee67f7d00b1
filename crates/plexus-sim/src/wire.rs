//! The lines of stream-json as the CLI writes them: one type for each, fields in the order of the
//! recorded runs.
//!
//! The order matters in places: a `result` does not begin with `"type"`, and a permission request
//! has its `request_id` near the head of the line and its `tool_use_id` at the end. Types with
//! named fields keep that order; maps would sort the fields.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

/// The version that the simulator reports: the one whose recorded runs it follows.
pub(crate) const VERSION: &str = "2.1.325";

/// The model that is reported when none was chosen.
pub(crate) const DEFAULT_MODEL: &str = "claude-opus-5-5";

/// Returns the time as the CLI writes it.
pub(crate) fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Returns a new id for a line.
pub(crate) fn line_id() -> Uuid {
    Uuid::new_v4()
}

/// Returns JSON as it goes into a line.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    #[expect(clippy::expect_used, reason = "a JSON value always serialises")]
    serde_json::value::to_raw_value(value).expect("a JSON value is valid JSON")
}

/// `system/init`: opens every turn.
#[derive(Serialize)]
pub(crate) struct Init<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) subtype: &'static str,
    pub(crate) cwd: &'a str,
    pub(crate) session_id: &'a str,
    pub(crate) tools: Vec<String>,
    pub(crate) mcp_servers: Vec<McpServerStatus>,
    pub(crate) model: &'a str,
    #[serde(rename = "permissionMode")]
    pub(crate) permission_mode: &'a str,
    pub(crate) slash_commands: [&'static str; 3],
    pub(crate) terminal_slash_commands: [&'static str; 1],
    #[serde(rename = "apiKeySource")]
    pub(crate) api_key_source: &'static str,
    pub(crate) claude_code_version: &'static str,
    pub(crate) output_style: &'static str,
    pub(crate) agents: [&'static str; 1],
    pub(crate) skills: [&'static str; 0],
    pub(crate) plugins: [Value; 0],
    pub(crate) capabilities: [&'static str; 2],
    pub(crate) analytics_disabled: bool,
    pub(crate) product_feedback_disabled: bool,
    pub(crate) uuid: Uuid,
    pub(crate) memory_paths: Value,
    pub(crate) original_cwd: &'a str,
    pub(crate) additional_directories: &'a [String],
    pub(crate) fast_mode_state: &'static str,
    pub(crate) fast_mode_disabled_reason: &'static str,
    pub(crate) per_turn_effort_active: bool,
    pub(crate) ultrathink_available: bool,
    pub(crate) ultrathink_typed_raises: bool,
    pub(crate) view_mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_message_uuids: Option<Vec<String>>,
}

/// One server of the MCP configuration, as `init` and `mcp_status` name it.
#[derive(Serialize, Clone)]
pub(crate) struct McpServerStatus {
    pub(crate) name: String,
    pub(crate) status: &'static str,
    pub(crate) source: &'static str,
}

/// `assistant`: one content block of a message.
#[derive(Serialize)]
pub(crate) struct Assistant<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) message: AssistantMessage<'a>,
    pub(crate) parent_tool_use_id: Option<&'a str>,
    pub(crate) session_id: &'a str,
    pub(crate) uuid: Uuid,
    pub(crate) timestamp: String,
    pub(crate) request_id: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) aborted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_display: Option<&'static str>,
    #[serde(flatten)]
    pub(crate) prompted_by: PromptedBy,
}

/// The prompts with a `uuid` that a line belongs to; left out when there are none.
#[derive(Serialize, Default, Clone)]
pub(crate) struct PromptedBy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_message_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_message_uuids: Option<Vec<String>>,
}

impl PromptedBy {
    pub(crate) fn new(uuids: &[String]) -> Self {
        Self {
            // The first prompt is the turn's own; the others were merged into it.
            user_message_uuid: uuids.first().cloned(),
            user_message_uuids: (!uuids.is_empty()).then(|| uuids.to_vec()),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct AssistantMessage<'a> {
    pub(crate) id: &'a str,
    pub(crate) r#type: &'static str,
    pub(crate) role: &'static str,
    pub(crate) model: &'a str,
    pub(crate) content: [&'a Block; 1],
    pub(crate) stop_reason: Option<&'static str>,
    pub(crate) stop_sequence: Option<&'static str>,
    pub(crate) usage: MessageUsage,
    pub(crate) context_management: Option<()>,
}

/// The usage of one message at its beginning.
#[derive(Serialize)]
pub(crate) struct MessageUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

impl MessageUsage {
    pub(crate) const AT_START: Self = Self {
        input_tokens: 100,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 1,
    };
}

/// The `assistant` line that the CLI invents when the API fails.
#[derive(Serialize)]
pub(crate) struct ApiErrorMessage<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) message: Value,
    pub(crate) parent_tool_use_id: Option<&'a str>,
    pub(crate) session_id: &'a str,
    pub(crate) uuid: Uuid,
    pub(crate) timestamp: String,
    pub(crate) error: &'static str,
    pub(crate) request_id: String,
    pub(crate) is_api_error_message: bool,
    pub(crate) api_error_status: u16,
    pub(crate) api_error_type: &'static str,
    #[serde(flatten)]
    pub(crate) prompted_by: PromptedBy,
}

/// One content block of the model.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block {
    Text { text: String },
    Thinking { thinking: String, signature: &'static str },
    ToolUse { id: String, name: String, input: Box<RawValue> },
}

/// `stream_event`: one event of the Messages API, with `--include-partial-messages`.
#[derive(Serialize)]
pub(crate) struct StreamEvent<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) event: ApiEvent<'a>,
    pub(crate) session_id: &'a str,
    pub(crate) parent_tool_use_id: Option<&'a str>,
    pub(crate) uuid: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttft_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_display: Option<&'static str>,
    pub(crate) api_message_id: &'a str,
    #[serde(flatten)]
    pub(crate) prompted_by: PromptedBy,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ApiEvent<'a> {
    MessageStart { message: StartedMessage<'a> },
    ContentBlockStart { index: usize, content_block: Value },
    ContentBlockDelta { index: usize, delta: Delta<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: StopDelta, usage: MessageUsage },
    MessageStop,
}

#[derive(Serialize)]
pub(crate) struct StartedMessage<'a> {
    pub(crate) id: &'a str,
    pub(crate) r#type: &'static str,
    pub(crate) role: &'static str,
    pub(crate) model: &'a str,
    pub(crate) content: [(); 0],
    pub(crate) stop_reason: Option<&'static str>,
    pub(crate) stop_sequence: Option<&'static str>,
    pub(crate) usage: MessageUsage,
}

#[derive(Serialize)]
#[serde(tag = "type")]
pub(crate) enum Delta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

#[derive(Serialize)]
pub(crate) struct StopDelta {
    pub(crate) stop_reason: Option<&'static str>,
    pub(crate) stop_sequence: Option<&'static str>,
}

/// `user`: a tool's result, an echoed prompt, or the note that a turn was interrupted.
#[derive(Serialize)]
pub(crate) struct User<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) message: UserMessage,
    pub(crate) parent_tool_use_id: Option<&'a str>,
    pub(crate) session_id: &'a str,
    pub(crate) uuid: Uuid,
    pub(crate) timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_use_result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_result_meta: Option<[ToolResultMeta; 1]>,
}

#[derive(Serialize)]
pub(crate) struct UserMessage {
    pub(crate) role: &'static str,
    pub(crate) content: Value,
}

/// Who decided about a tool call, and whether it ran.
#[derive(Serialize)]
pub(crate) struct ToolResultMeta {
    pub(crate) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) non_execution_kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permission_decision: Option<PermissionDecision>,
}

/// Who accepted or rejected a tool call.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermissionDecision {
    pub(crate) decision: &'static str,
    pub(crate) source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason_type: Option<&'static str>,
}

/// A prompt that is echoed because of `--replay-user-messages`.
#[derive(Serialize)]
pub(crate) struct Replay<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) message: &'a Value,
    pub(crate) session_id: &'a str,
    pub(crate) parent_tool_use_id: Option<&'a str>,
    pub(crate) uuid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<String>,
    #[serde(rename = "isReplay")]
    pub(crate) is_replay: bool,
}

/// Any `system` line but `init`.
#[derive(Serialize)]
pub(crate) struct System<'a, T> {
    pub(crate) r#type: &'static str,
    pub(crate) subtype: &'static str,
    #[serde(flatten)]
    pub(crate) fields: T,
    pub(crate) uuid: Uuid,
    pub(crate) session_id: &'a str,
}

/// `command_lifecycle`: the progress of a prompt with a `uuid`.
#[derive(Serialize)]
pub(crate) struct CommandLifecycle<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) command_uuid: &'a str,
    pub(crate) state: &'static str,
    pub(crate) uuid: Uuid,
    pub(crate) session_id: &'a str,
}

/// `control_request`: a question to the process that writes our stdin.
#[derive(Serialize)]
pub(crate) struct ControlRequest<'a, T> {
    pub(crate) r#type: &'static str,
    pub(crate) request_id: &'a str,
    pub(crate) request: &'a T,
}

/// The question whether a tool may run.
#[derive(Serialize, Clone)]
pub(crate) struct CanUseTool {
    pub(crate) subtype: &'static str,
    pub(crate) tool_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mcp_server: Option<Value>,
    pub(crate) display_name: String,
    pub(crate) input: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) permission_suggestions: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blocked_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision_reason_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision_reason_rule_source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_policy_ask_only: Option<bool>,
    pub(crate) tool_use_id: String,
}

/// `control_response`: the answer to a request from the process that writes our stdin.
#[derive(Serialize)]
pub(crate) struct ControlResponse<T> {
    pub(crate) r#type: &'static str,
    pub(crate) response: T,
}

/// Returns a successful `control_response`.
pub(crate) fn control_success(
    request_id: &str,
    response: Value,
) -> ControlResponse<impl Serialize> {
    #[derive(Serialize)]
    struct Success {
        subtype: &'static str,
        request_id: String,
        response: Value,
    }
    ControlResponse {
        r#type: "control_response",
        response: Success { subtype: "success", request_id: request_id.to_owned(), response },
    }
}

/// Returns a `control_response` with an error.
pub(crate) fn control_error(
    request_id: &str,
    error: String,
    error_code: Option<&'static str>,
) -> ControlResponse<impl Serialize> {
    #[derive(Serialize)]
    struct Failure {
        subtype: &'static str,
        request_id: String,
        error: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_code: Option<&'static str>,
    }
    ControlResponse {
        r#type: "control_response",
        response: Failure {
            subtype: "error",
            request_id: request_id.to_owned(),
            error,
            error_code,
        },
    }
}

/// The answer to `initialize`. The open questions are beside the response, not in it.
#[derive(Serialize)]
pub(crate) struct Initialized<'a> {
    pub(crate) subtype: &'static str,
    pub(crate) request_id: &'a str,
    pub(crate) response: Value,
    pub(crate) pending_permission_requests: Vec<Value>,
    pub(crate) pending_user_dialog_requests: [(); 0],
}

/// `control_cancel_request`: withdraws a question.
#[derive(Serialize)]
pub(crate) struct ControlCancelRequest<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) request_id: &'a str,
}

//! The `result` line: how a turn ended. The process may continue, and there may be several such
//! lines.

use super::message::{Origin, Usage};
use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

json_object! {
    /// The end of a turn.
    pub struct ResultEvent {
        /// `success` or one of the `error_…` kinds; see [`ResultEvent::failed`].
        subtype: Text = "subtype",
        /// Whether the turn failed although its subtype says success (a login or API failure).
        is_error: bool = "is_error",
        /// The last text of the model, or the failure in words.
        result: Option<Text> = "result",
        /// The errors.
        errors: Vec<Text> = "errors",
        /// Why the model stopped.
        stop_reason: Option<Text> = "stop_reason",
        /// Why the turn ended.
        terminal_reason: Option<Text> = "terminal_reason",
        /// The number of the model's turns.
        num_turns: Option<u64> = "num_turns",
        /// How long the turn took.
        duration_ms: Option<u64> = "duration_ms",
        /// How long the API took.
        duration_api_ms: Option<u64> = "duration_api_ms",
        /// The cost of the session so far.
        total_cost_usd: Option<f64> = "total_cost_usd",
        /// Tokens of the turn.
        usage: Option<Box<Usage>> = "usage",
        /// Tokens and cost of each model.
        model_usage: Option<RawJson> = "modelUsage",
        /// Tools that were refused.
        permission_denials: Vec<PermissionDenial> = "permission_denials",
        /// The output that `--json-schema` requested.
        structured_output: Option<RawJson> = "structured_output",
        /// The number of this result in the process, counted from 0.
        result_index: Option<u64> = "result_index",
        /// The number of prompts that still wait.
        queued_turn_count: Option<u64> = "queued_turn_count",
        /// The cause of the turn, if it was not a prompt.
        origin: Option<Origin> = "origin",
        /// The prompt this answers.
        user_message_uuid: Option<Text> = "user_message_uuid",
        /// All prompts this answers: prompts that are sent while the turn runs become part of it.
        user_message_uuids: Vec<Text> = "user_message_uuids",
        /// The HTTP status of the API's failure.
        api_error_status: Option<i64> = "api_error_status",
        /// The API's name for its failure.
        api_error_type: Option<Text> = "api_error_type",
    }

    /// A tool use that was refused.
    pub struct PermissionDenial {
        /// The tool.
        tool_name: Text = "tool_name",
        /// The call.
        tool_use_id: Option<Text> = "tool_use_id",
        /// Its arguments.
        tool_input: Option<RawJson> = "tool_input",
    }
}

impl ResultEvent {
    /// Returns whether the turn failed: the CLI reports a login or API failure as `success` with
    /// `is_error`.
    pub fn failed(&self) -> bool {
        self.is_error || self.subtype.starts_with("error")
    }
}

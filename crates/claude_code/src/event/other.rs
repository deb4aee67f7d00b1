//! The outer types that are neither messages nor system lines nor control.
//!
//! We have seen `command_lifecycle`. The others come from the vendor's type definitions, so every
//! field may be missing.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

json_object! {
    /// The state of a prompt.
    pub struct CommandLifecycle {
        /// The prompt, by the uuid we gave it.
        command_uuid: Option<Text> = "command_uuid",
        /// `queued`, `started`, `completed` or `cancelled`.
        state: Option<Text> = "state",
    }

    /// The API's report about its rate limits.
    pub struct RateLimitEvent {
        /// The limits.
        rate_limit_info: RateLimitInfo = "rate_limit_info",
    }

    /// The limits of an account.
    pub struct RateLimitInfo {
        /// `allowed`, `allowed_warning` or `rejected`.
        status: Option<Text> = "status",
        /// When the limit is lifted, in seconds of Unix time.
        resets_at: Option<f64> = "resetsAt",
        /// The kind of limit.
        rate_limit_type: Option<Text> = "rateLimitType",
        /// The part of it that is used.
        utilization: Option<f64> = "utilization",
        /// Whether paying beyond the limit is allowed.
        overage_status: Option<Text> = "overageStatus",
        /// Whether that is happening.
        is_using_overage: Option<bool> = "isUsingOverage",
    }

    /// A tool is still running.
    pub struct ToolProgress {
        /// The call.
        tool_use_id: Option<Text> = "tool_use_id",
        /// The tool.
        tool_name: Option<Text> = "tool_name",
        /// The tool use that started the subagent which runs it.
        parent_tool_use_id: Option<Text> = "parent_tool_use_id",
        /// How long it has been running.
        elapsed_time_seconds: Option<f64> = "elapsed_time_seconds",
        /// The task it belongs to.
        task_id: Option<Text> = "task_id",
    }

    /// The status of a login.
    pub struct AuthStatus {
        /// Whether the login is in progress.
        is_authenticating: Option<bool> = "isAuthenticating",
        /// Its output so far.
        output: Vec<Text> = "output",
        /// The error.
        error: Option<Text> = "error",
    }

    /// A summary of several tool uses.
    pub struct ToolUseSummary {
        /// The text of the summary.
        summary: Option<Text> = "summary",
        /// The tool uses.
        preceding_tool_use_ids: Vec<Text> = "preceding_tool_use_ids",
    }

    /// A suggestion for the user's next prompt.
    pub struct PromptSuggestion {
        /// The suggestion.
        suggestion: Option<Text> = "suggestion",
    }

    /// The conversation starts over.
    pub struct ConversationReset {
        /// The reason.
        reason: Option<Text> = "reason",
        /// Further data.
        metadata: Option<RawJson> = "metadata",
    }
}

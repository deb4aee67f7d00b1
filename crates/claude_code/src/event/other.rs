//! The outer types that are neither messages nor system lines nor control.
//!
//! `command_lifecycle` was seen; the others are typed by the vendor and were not seen here, so
//! every field may be missing.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

json_object! {
    /// How far a prompt has come.
    pub struct CommandLifecycle {
        /// The prompt, by the uuid we gave it.
        command_uuid: Option<Text> = "command_uuid",
        /// `queued`, `started`, `completed` or `cancelled`.
        state: Option<Text> = "state",
    }

    /// What the API says about its limits.
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
        /// Which limit.
        rate_limit_type: Option<Text> = "rateLimitType",
        /// How much of it is used.
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
        /// The tool use whose subagent runs it.
        parent_tool_use_id: Option<Text> = "parent_tool_use_id",
        /// How long it has been running.
        elapsed_time_seconds: Option<f64> = "elapsed_time_seconds",
        /// The task it belongs to.
        task_id: Option<Text> = "task_id",
    }

    /// The CLI logs in.
    pub struct AuthStatus {
        /// Whether it is at it.
        is_authenticating: Option<bool> = "isAuthenticating",
        /// What it says meanwhile.
        output: Vec<Text> = "output",
        /// What went wrong.
        error: Option<Text> = "error",
    }

    /// Several tool uses in one sentence.
    pub struct ToolUseSummary {
        /// The sentence.
        summary: Option<Text> = "summary",
        /// The tool uses.
        preceding_tool_use_ids: Vec<Text> = "preceding_tool_use_ids",
    }

    /// What the user might say next.
    pub struct PromptSuggestion {
        /// The suggestion.
        suggestion: Option<Text> = "suggestion",
    }

    /// The conversation starts over.
    pub struct ConversationReset {
        /// Why.
        reason: Option<Text> = "reason",
        /// What else the CLI says about it.
        metadata: Option<RawJson> = "metadata",
    }
}

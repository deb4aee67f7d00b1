//! Threads and turns: their state, their errors and the tokens they used.

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

use super::item::Item;

json_object! {
    /// A conversation.
    pub struct Thread {
        /// The id of the thread, which `thread/resume` takes.
        id: Text = "id",
        /// Its working directory.
        cwd: Option<Text> = "cwd",
        /// The file that it is stored in.
        path: Option<Text> = "path",
        /// The beginning of its first prompt.
        preview: Option<Text> = "preview",
        /// Its current status.
        status: ThreadStatus = "status",
        /// The thread that it was forked from.
        forked_from_id: Option<Text> = "forkedFromId",
        /// The thread that it is a subagent of.
        parent_thread_id: Option<Text> = "parentThreadId",
        /// The version of the CLI that created it.
        cli_version: Option<Text> = "cliVersion",
        /// When it was last used, in seconds of Unix time.
        updated_at: Option<i64> = "updatedAt",
        /// Its turns, if they were requested.
        turns: Vec<Turn> = "turns",
    }

    /// The status of a thread.
    pub struct ThreadStatus {
        /// `notLoaded`, `idle`, `active` or `systemError`.
        status_type: Text = "type",
        /// What an active thread waits for: `waitingOnApproval`, …
        active_flags: Vec<Text> = "activeFlags",
    }

    /// One prompt and all that followed from it.
    pub struct Turn {
        /// The id of the turn.
        id: Text = "id",
        /// Its status.
        status: TurnStatus = "status",
        /// Why it failed or was interrupted.
        error: Option<TurnError> = "error",
        /// Its items; in `turn/completed` only the last message.
        items: Vec<Item> = "items",
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// Why a turn failed.
    pub struct TurnError {
        /// The server's own words, which may repeat text of the model's service.
        message: Text = "message",
        /// The kind of error: a name, or an object with one name.
        info: ErrorInfo = "codexErrorInfo",
        /// More of the server's own words.
        additional_details: Option<Text> = "additionalDetails",
    }

    /// The token usage of a thread.
    pub struct TokenUsage {
        /// The usage of the whole thread; a fork starts with the usage of its original.
        total: Tokens = "total",
        /// The usage of the last model call. It may be sent repeatedly, and is an estimate after a
        /// compaction.
        last: Tokens = "last",
        /// The size of the model's context window in tokens.
        model_context_window: Option<u64> = "modelContextWindow",
    }

    /// Token counts.
    pub struct Tokens {
        /// All tokens.
        total_tokens: u64 = "totalTokens",
        /// Input tokens.
        input_tokens: u64 = "inputTokens",
        /// Input tokens that were read from the cache.
        cached_input_tokens: u64 = "cachedInputTokens",
        /// Input tokens that were written to the cache.
        cache_write_input_tokens: u64 = "cacheWriteInputTokens",
        /// Output tokens.
        output_tokens: u64 = "outputTokens",
        /// Output tokens of the reasoning.
        reasoning_output_tokens: u64 = "reasoningOutputTokens",
    }

    /// The settings of a thread, as it reports them when one changes.
    pub struct ThreadSettings {
        /// The model.
        model: Option<Text> = "model",
        /// The working directory.
        cwd: Option<Text> = "cwd",
        /// When the server asks for approval.
        approval_policy: Option<RawJson> = "approvalPolicy",
        /// Who answers the approvals.
        approvals_reviewer: Option<Text> = "approvalsReviewer",
        /// What a command may do.
        sandbox_policy: Option<RawJson> = "sandboxPolicy",
    }
}

/// The status of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TurnStatus {
    /// The turn runs.
    InProgress,
    /// The model finished.
    Completed,
    /// The turn was interrupted.
    Interrupted,
    /// The turn failed.
    Failed,
    /// Another status, or none.
    #[default]
    Unknown,
}

impl FromJson for TurnStatus {
    fn from_json(value: Value<'_>) -> Option<Self> {
        Some(match &*value.as_str()? {
            "inProgress" => Self::InProgress,
            "completed" => Self::Completed,
            "interrupted" => Self::Interrupted,
            "failed" => Self::Failed,
            _ => Self::Unknown,
        })
    }
}

/// The server's name for a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorInfo {
    /// The name, such as `usageLimitExceeded`; empty when there is none.
    pub name: Text,
    /// The HTTP status of the model's service, if there was one.
    pub http_status: Option<u32>,
}

impl FromJson for ErrorInfo {
    fn from_json(value: Value<'_>) -> Option<Self> {
        if let Some(name) = value.text() {
            return Some(Self { name, http_status: None });
        }
        let mut info = None;
        value.each_field(|name, more| {
            let http_status = more.get("httpStatusCode").and_then(Value::as_number);
            info = Some(Self { name: Text::from(name), http_status });
        });
        info
    }
}

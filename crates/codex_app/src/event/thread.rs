//! Threads and turns: what they are, how far they have come, what they have used.

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

use super::item::Item;

json_object! {
    /// A conversation.
    pub struct Thread {
        /// Names it; also what `thread/resume` takes.
        id: Text = "id",
        /// Where it works.
        cwd: Option<Text> = "cwd",
        /// The file that it is kept in.
        path: Option<Text> = "path",
        /// The beginning of its first prompt.
        preview: Option<Text> = "preview",
        /// Whether it works.
        status: ThreadStatus = "status",
        /// The thread that it was forked from.
        forked_from_id: Option<Text> = "forkedFromId",
        /// The thread that it is a subagent of.
        parent_thread_id: Option<Text> = "parentThreadId",
        /// The version of the CLI that made it.
        cli_version: Option<Text> = "cliVersion",
        /// When it was last used, in seconds of Unix time.
        updated_at: Option<i64> = "updatedAt",
        /// Its turns, where they were asked for.
        turns: Vec<Turn> = "turns",
    }

    /// Whether a thread works.
    pub struct ThreadStatus {
        /// `notLoaded`, `idle`, `active` or `systemError`.
        status_type: Text = "type",
        /// What an active thread waits for: `waitingOnApproval`, …
        active_flags: Vec<Text> = "activeFlags",
    }

    /// One prompt and all that followed from it.
    pub struct Turn {
        /// Names it.
        id: Text = "id",
        /// How far it has come.
        status: TurnStatus = "status",
        /// Why it failed or was interrupted.
        error: Option<TurnError> = "error",
        /// What happened in it; in `turn/completed` only the last message.
        items: Vec<Item> = "items",
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// Why a turn failed.
    pub struct TurnError {
        /// The server's own words, which may repeat what the model's service said.
        message: Text = "message",
        /// What kind: a name, or an object with one name.
        info: ErrorInfo = "codexErrorInfo",
        /// More of the server's own words.
        additional_details: Option<Text> = "additionalDetails",
    }

    /// What a thread has used.
    pub struct TokenUsage {
        /// Since the thread began; a fork begins with that of its original.
        total: Tokens = "total",
        /// By the last call of the model; repeated, and estimated after a compaction.
        last: Tokens = "last",
        /// How many tokens the model can see.
        model_context_window: Option<u64> = "modelContextWindow",
    }

    /// Numbers of tokens.
    pub struct Tokens {
        /// All of them.
        total_tokens: u64 = "totalTokens",
        /// Read by the model.
        input_tokens: u64 = "inputTokens",
        /// Of those, read from the cache.
        cached_input_tokens: u64 = "cachedInputTokens",
        /// Of those, written to the cache.
        cache_write_input_tokens: u64 = "cacheWriteInputTokens",
        /// Written by the model.
        output_tokens: u64 = "outputTokens",
        /// Of those, while it thought.
        reasoning_output_tokens: u64 = "reasoningOutputTokens",
    }

    /// The settings of a thread, as it tells them when one moves.
    pub struct ThreadSettings {
        /// The model.
        model: Option<Text> = "model",
        /// Where it works.
        cwd: Option<Text> = "cwd",
        /// When it asks.
        approval_policy: Option<RawJson> = "approvalPolicy",
        /// Who answers.
        approvals_reviewer: Option<Text> = "approvalsReviewer",
        /// What a command may do.
        sandbox_policy: Option<RawJson> = "sandboxPolicy",
    }
}

/// How far a turn has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TurnStatus {
    /// It runs.
    InProgress,
    /// The model says that it is done.
    Completed,
    /// Somebody ended it.
    Interrupted,
    /// It could not go on.
    Failed,
    /// Something else, or nothing was said.
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
    /// The HTTP status of the model's service, where there was one.
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

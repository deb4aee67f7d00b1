//! The `result` line: how a turn ended, and the cost of the process so far.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::wire::{PromptedBy, line_id};

/// The cost of one answer of the simulated model. A conversation adds it up over all its turns, as
/// the real CLI does.
const COST_OF_A_MESSAGE_USD: f64 = 0.0008;
const INPUT_TOKENS_OF_A_MESSAGE: u64 = 100;
const OUTPUT_TOKENS_OF_A_MESSAGE: u64 = 20;

/// The number of messages of each model; all costs follow from it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Bill(BTreeMap<String, u64>);

impl Bill {
    /// Adds one message of a model.
    pub(crate) fn add(&mut self, model: &str) {
        *self.0.entry(model.to_owned()).or_default() += 1;
    }

    /// Adds everything on another bill.
    pub(crate) fn add_all(&mut self, other: &Bill) {
        for (model, messages) in &other.0 {
            *self.0.entry(model.clone()).or_default() += messages;
        }
    }

    /// Returns the number of messages of all models.
    pub(crate) fn messages(&self) -> u64 {
        self.0.values().sum()
    }

    fn by_model(&self) -> Value {
        self.0
            .iter()
            .map(|(model, messages)| (model.clone(), model_usage(model, *messages)))
            .collect()
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The story ended; the text is the last one said.
    Success { text: String },
    /// It was interrupted while the model spoke.
    InterruptedSpeech,
    /// It was interrupted while a tool ran or waited for permission.
    InterruptedTools,
    /// The simulated API failed. The CLI reports that as a success with an error flag.
    ApiError { status: u16, text: String },
    /// `--max-turns` was reached.
    MaxTurns { max: u32 },
    /// The script could not be played.
    Failed { error: String },
}

impl Ending {
    /// Tells whether the exit code should report an error.
    pub(crate) fn is_error(&self) -> bool {
        !matches!(self, Ending::Success { .. })
    }

    /// Returns the final state of the turn's prompts.
    pub(crate) fn lifecycle(&self) -> &'static str {
        match self {
            Ending::Success { .. } | Ending::MaxTurns { .. } | Ending::Failed { .. } => "completed",
            Ending::InterruptedSpeech | Ending::InterruptedTools | Ending::ApiError { .. } => {
                "cancelled"
            }
        }
    }
}

/// The parts of a turn's report besides its ending.
pub(crate) struct TurnReport<'a> {
    pub(crate) session_id: &'a str,
    /// The cost of this turn.
    pub(crate) bill: &'a Bill,
    /// The cost of this process and of the conversation that it resumed.
    pub(crate) total: &'a Bill,
    pub(crate) num_turns: u64,
    pub(crate) duration: Duration,
    pub(crate) permission_denials: Vec<Denial>,
    /// For a turn that a finished background task started.
    pub(crate) origin: Option<Value>,
    pub(crate) prompted_by: PromptedBy,
    pub(crate) result_index: u64,
}

/// A denied tool call.
#[derive(Serialize, Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) tool_name: String,
    pub(crate) tool_use_id: String,
    pub(crate) tool_input: Value,
}

/// The line itself. Like the real one, it does not begin with `"type"`.
#[derive(Serialize)]
pub(crate) struct ResultLine {
    duration_api_ms: u64,
    stop_reason: Option<&'static str>,
    session_id: String,
    total_cost_usd: f64,
    usage: Value,
    #[serde(rename = "modelUsage")]
    model_usage: Value,
    permission_denials: Vec<Denial>,
    terminal_reason: &'static str,
    fast_mode_state: &'static str,
    fast_mode_disabled_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Value>,
    subagent_stats: Value,
    safety_stops: u64,
    is_error: bool,
    num_turns: u64,
    subtype: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
    r#type: &'static str,
    duration_ms: u64,
    uuid: Uuid,
    #[serde(flatten)]
    prompted_by: PromptedBy,
    #[serde(flatten)]
    timing: Option<Timing>,
    queued_turn_count: u64,
    result_index: u64,
    model_usage_since_last_result: Value,
}

/// The fields that differ between a success and a failure.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Success {
        api_error_status: Option<u16>,
        #[serde(skip_serializing_if = "Option::is_none")]
        api_error_type: Option<&'static str>,
        result: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        ttft_ms: Option<u64>,
    },
    Failure {
        errors: Vec<String>,
    },
}

/// When the first answer arrived; only a successful turn has it.
#[derive(Serialize)]
struct Timing {
    ttft_stream_ms: u64,
    time_to_request_ms: u64,
    first_content_frame_ms: u64,
    #[serde(flatten)]
    first_request: Option<FirstRequest>,
}

/// Present only for prompts that had a `uuid`.
#[derive(Serialize)]
struct FirstRequest {
    request_sent_wall_ms: i64,
    first_request_input_tokens: u64,
    first_request_cache_read_input_tokens: u64,
}

impl ResultLine {
    pub(crate) fn new(ending: &Ending, report: TurnReport<'_>) -> Self {
        let (subtype, terminal_reason, stop_reason) = match ending {
            Ending::Success { .. } => ("success", "completed", Some("end_turn")),
            Ending::InterruptedSpeech => ("error_during_execution", "aborted_streaming", None),
            Ending::InterruptedTools => {
                ("error_during_execution", "aborted_tools", Some("tool_use"))
            }
            Ending::ApiError { .. } => ("success", "api_error", Some("stop_sequence")),
            Ending::MaxTurns { .. } => ("error_max_turns", "max_turns", Some("tool_use")),
            Ending::Failed { .. } => ("error_during_execution", "completed", None),
        };
        let outcome = match ending {
            Ending::Success { text } => Outcome::Success {
                api_error_status: None,
                api_error_type: None,
                result: text.clone(),
                ttft_ms: Some(1),
            },
            Ending::ApiError { status, text } => Outcome::Success {
                api_error_status: Some(*status),
                api_error_type: Some(api_error_type(*status)),
                result: text.clone(),
                ttft_ms: None,
            },
            Ending::InterruptedSpeech | Ending::InterruptedTools => Outcome::Failure {
                errors: vec![format!(
                    "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={}",
                    stop_reason.unwrap_or("null")
                )],
            },
            Ending::MaxTurns { max } => Outcome::Failure {
                errors: vec![format!("Reached maximum number of turns ({max})")],
            },
            Ending::Failed { error } => Outcome::Failure { errors: vec![error.clone()] },
        };
        let prompted = report.prompted_by.user_message_uuid.is_some();
        let timing = matches!(ending, Ending::Success { .. }).then(|| Timing {
            ttft_stream_ms: 1,
            time_to_request_ms: 0,
            first_content_frame_ms: 1,
            first_request: prompted.then(|| FirstRequest {
                request_sent_wall_ms: jiff::Timestamp::now().as_millisecond(),
                first_request_input_tokens: INPUT_TOKENS_OF_A_MESSAGE,
                first_request_cache_read_input_tokens: 0,
            }),
        });
        let duration_ms = u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            duration_api_ms: duration_ms,
            stop_reason,
            session_id: report.session_id.to_owned(),
            total_cost_usd: cost(report.total.messages()),
            usage: usage(report.bill.messages()),
            model_usage: report.total.by_model(),
            permission_denials: report.permission_denials,
            terminal_reason,
            fast_mode_state: "off",
            fast_mode_disabled_reason: "sdk_opt_in_required",
            origin: report.origin,
            subagent_stats: subagent_stats(),
            safety_stops: 0,
            is_error: ending.is_error(),
            num_turns: report.num_turns,
            subtype,
            outcome,
            r#type: "result",
            duration_ms,
            uuid: line_id(),
            prompted_by: report.prompted_by,
            timing,
            queued_turn_count: 0,
            result_index: report.result_index,
            model_usage_since_last_result: report.bill.by_model(),
        }
    }
}

/// Returns the API's own name for a status.
pub(crate) fn api_error_type(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

/// Returns the line for a `--resume` of an unknown conversation. The real one has fewer fields than
/// any other result.
pub(crate) fn unknown_conversation(session_id: &str, error: &str) -> impl Serialize {
    #[derive(Serialize)]
    struct Line {
        r#type: &'static str,
        subtype: &'static str,
        duration_ms: u64,
        duration_api_ms: u64,
        is_error: bool,
        num_turns: u64,
        stop_reason: Option<&'static str>,
        session_id: String,
        total_cost_usd: u64,
        usage: Value,
        #[serde(rename = "modelUsage")]
        model_usage: Value,
        permission_denials: [(); 0],
        uuid: Uuid,
        errors: [String; 1],
        result_index: u64,
    }
    Line {
        r#type: "result",
        subtype: "error_during_execution",
        duration_ms: 0,
        duration_api_ms: 0,
        is_error: true,
        num_turns: 0,
        stop_reason: None,
        session_id: session_id.to_owned(),
        total_cost_usd: 0,
        usage: usage(0),
        model_usage: json!({}),
        permission_denials: [],
        uuid: line_id(),
        errors: [error.to_owned()],
        result_index: 0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a process answers far fewer than 2^52 times")]
fn cost(messages: u64) -> f64 {
    messages as f64 * COST_OF_A_MESSAGE_USD
}

fn usage(messages: u64) -> Value {
    json!({
        "input_tokens": messages * INPUT_TOKENS_OF_A_MESSAGE,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": messages * OUTPUT_TOKENS_OF_A_MESSAGE,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": null,
    })
}

fn model_usage(model: &str, messages: u64) -> Value {
    json!({
            "inputTokens": messages * INPUT_TOKENS_OF_A_MESSAGE,
            "outputTokens": messages * OUTPUT_TOKENS_OF_A_MESSAGE,
            "cacheReadInputTokens": 0,
            "cacheCreationInputTokens": 0,
            "webSearchRequests": 0,
            "costUSD": cost(messages),
            "contextWindow": 1_000_000,
            "maxOutputTokens": 128_000,
            "thinkingTokens": 0,
            "cacheCreationEphemeral5mInputTokens": 0,
            "cacheCreationEphemeral1hInputTokens": 0,
            "canonicalModel": model,
            "provider": "firstParty",
            "costBasis": "list",
    })
}

fn subagent_stats() -> Value {
    json!({
        "spawned": 0,
        "requested": {"background": 0, "foreground": 0, "unset": 0},
        "started_in_background": 0,
        "max_depth": 0,
        "spawned_by_subagents": 0,
        "completed": 0,
        "failed": 0,
        "killed": {"parent": 0, "user": 0, "system": 0},
        "refused": {"depth_limit": 0, "concurrency_limit": 0, "budget": 0},
        "by_type": {},
    })
}

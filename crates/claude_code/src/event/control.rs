//! The control lines of the CLI: its requests, its answers, and the echoes of our answers.
//!
//! [`crate::control`] has the other direction, the lines that we write.

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

/// A request. The CLI waits for a `control_response` with the same `request_id`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ControlRequest {
    /// Identifies the request; the answer carries it. Empty for an
    /// [`Unnamed`](ControlRequestBody::Unnamed) one.
    pub request_id: Text,
    /// The request itself.
    pub request: ControlRequestBody,
}

/// The kinds of request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ControlRequestBody {
    /// Asks whether a tool may run.
    CanUseTool(Box<CanUseTool>),
    /// Any request whose `request_id` is not a string. Its only answer is an error that repeats the
    /// id unchanged.
    Unnamed {
        /// The id; `null` if there is none.
        request_id: RawJson,
    },
    /// Any other request. We must answer it, if only with an error, or the CLI waits for ever.
    Other {
        /// The request's subtype, if it has one.
        subtype: Option<Text>,
        /// The request.
        request: RawJson,
    },
}

json_object! {
    /// The question whether a tool may run.
    pub struct CanUseTool {
        /// The tool.
        tool_name: Text = "tool_name",
        /// The tool's display name.
        display_name: Option<Text> = "display_name",
        /// Its arguments, byte for byte: exactly the approved input must run.
        input: RawJson = "input",
        /// The purpose of the call, in the model's words.
        description: Option<Text> = "description",
        /// Rules that would make the question unnecessary next time.
        permission_suggestions: Option<RawJson> = "permission_suggestions",
        /// The path that made the CLI ask.
        blocked_path: Option<Text> = "blocked_path",
        /// Why the CLI asks.
        decision_reason: Option<Text> = "decision_reason",
        /// The kind of reason: `rule`, …
        decision_reason_type: Option<Text> = "decision_reason_type",
        /// The source of the rule that made the CLI ask.
        decision_reason_rule_source: Option<Text> = "decision_reason_rule_source",
        /// An ask rule that covers the call, when it is not the reason.
        matched_ask_rule: Option<MatchedAskRule> = "matched_ask_rule",
        /// Whether a person has to answer: the tool asks its user something, or its MCP server
        /// demands a person.
        requires_user_interaction: Option<bool> = "requires_user_interaction",
        /// Whether the CLI's own classifier may allow it; absent when no safety check found it.
        classifier_approvable: Option<bool> = "classifier_approvable",
        /// Whether the CLI's own dialog proposes to refuse it.
        default_to_no: Option<bool> = "default_to_no",
        /// The call.
        tool_use_id: Option<Text> = "tool_use_id",
        /// The subagent that makes the call.
        agent_id: Option<Text> = "agent_id",
    }

    /// An ask rule of the CLI.
    pub struct MatchedAskRule {
        /// Whose rule it is: `flagSettings`, `userSettings`, `policySettings`, …
        source: Option<Text> = "source",
    }

    /// The CLI's answer to `initialize`, limited to the fields that a supervisor needs.
    pub struct InitializeAnswer {
        /// `running`, `requires_action` or `idle`.
        session_state: Option<Text> = "session_state",
        /// The CLI's version.
        claude_code_version: Option<Text> = "claude_code_version",
        /// The CLI's process id.
        pid: Option<u32> = "pid",
        /// The permission mode.
        current_permission_mode: Option<Text> = "current_permission_mode",
        /// The CLI's capabilities beyond the base protocol.
        capabilities: Vec<Text> = "capabilities",
        /// Slash commands.
        commands: Option<RawJson> = "commands",
        /// Models.
        models: Option<RawJson> = "models",
    }

    /// The CLI's answer to `interrupt`.
    pub struct InterruptAnswer {
        /// Prompts that were still queued when the interrupt came: they will run.
        still_queued: Vec<Text> = "still_queued",
    }
}

/// The CLI no longer needs an answer; one that comes now is ignored and not echoed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ControlCancelRequest {
    /// The request.
    pub request_id: Text,
}

/// An answer: the CLI's to a request of ours, or the echo of ours to a request of the CLI. The
/// `request_id` says which.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ControlResponse {
    /// The request.
    pub request_id: Text,
    /// The answer.
    pub outcome: ControlOutcome,
    /// The name of the error, if it has one.
    pub error_code: Option<Text>,
    /// Open permission requests; only in the answer to `initialize`.
    pub pending_permission_requests: Option<Vec<ControlRequest>>,
    /// Open questions to the user, in the CLI's own form; only in the answer to `initialize`.
    pub pending_user_dialog_requests: Option<RawJson>,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlOutcome {
    /// The request succeeded.
    Success(Success),
    /// The request was refused.
    Error(Text),
    /// Any other outcome, complete.
    Other(RawJson),
}

/// A successful answer, parsed in every form that it may have.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Success {
    /// The answer.
    pub response: Option<RawJson>,
    /// The answer, parsed as the one to `interrupt`.
    pub interrupt: InterruptAnswer,
    /// The answer, parsed as the one to `initialize`; `None` if it lacks a field that every such
    /// answer has.
    pub initialize: Option<Box<InitializeAnswer>>,
    /// The answer, parsed as an echoed decision about a tool.
    pub decision: Option<EchoedDecision>,
}

/// A decision of ours that the CLI has received.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EchoedDecision {
    /// The tool runs with this input.
    Allow {
        /// The input.
        updated_input: Option<RawJson>,
    },
    /// The tool does not run.
    Deny {
        /// The message that the model gets.
        message: Option<Text>,
    },
}

impl FromJson for ControlRequest {
    fn from_json(value: Value<'_>) -> Option<Self> {
        let id = value.get("request_id");
        let Some(request_id) = id.and_then(Value::text) else {
            // A line without `request` is not a request either, and nobody waits for its answer.
            let _request = value.get("request").filter(|request| request.is_object())?;
            let request_id = id.map(Value::raw).unwrap_or_default();
            return Some(Self {
                request_id: Text::default(),
                request: ControlRequestBody::Unnamed { request_id },
            });
        };
        // In lists of open requests the fields may be beside the id instead of inside `request`.
        let request = value.get("request").unwrap_or(value);
        let subtype = request.get("subtype").and_then(Value::text);
        let is_permission = subtype.as_deref() == Some("can_use_tool")
            && request.get("tool_name").and_then(Value::text).is_some()
            && request.get("input").is_some();
        let known = is_permission
            .then(|| FromJson::from_json(request))
            .flatten()
            .map(ControlRequestBody::CanUseTool);
        let request = match known {
            Some(known) => known,
            None if request.is_object() => {
                ControlRequestBody::Other { subtype, request: request.raw() }
            }
            None => return None,
        };
        Some(Self { request_id, request })
    }
}

impl FromJson for ControlCancelRequest {
    fn from_json(value: Value<'_>) -> Option<Self> {
        Some(Self { request_id: value.get("request_id")?.text()? })
    }
}

impl FromJson for ControlResponse {
    fn from_json(line: Value<'_>) -> Option<Self> {
        let response = line.get("response")?;
        let request_id = response.get("request_id")?.text()?;
        let outcome = match response.get("subtype").and_then(Value::as_str).as_deref() {
            Some("success") => ControlOutcome::Success(
                response.get("response").map(Success::read).unwrap_or_default(),
            ),
            Some("error") => ControlOutcome::Error(
                response.get("error").and_then(Value::text).unwrap_or_default(),
            ),
            _ => ControlOutcome::Other(response.raw()),
        };
        Some(Self {
            request_id,
            outcome,
            error_code: response.get("error_code").and_then(Value::text),
            pending_permission_requests: response
                .get("pending_permission_requests")
                .and_then(FromJson::from_json),
            pending_user_dialog_requests: response
                .get("pending_user_dialog_requests")
                .map(Value::raw),
        })
    }
}

impl Success {
    fn read(response: Value<'_>) -> Self {
        let has_version = response.get("claude_code_version").is_some();
        Self {
            response: Some(response.raw()),
            interrupt: FromJson::from_json(response).unwrap_or_default(),
            initialize: has_version.then(|| FromJson::from_json(response)).flatten(),
            decision: match response.get("behavior").and_then(Value::as_str).as_deref() {
                Some("allow") => Some(EchoedDecision::Allow {
                    updated_input: response.get("updatedInput").map(Value::raw),
                }),
                Some("deny") => Some(EchoedDecision::Deny {
                    message: response.get("message").and_then(Value::text),
                }),
                _ => None,
            },
        }
    }
}

//! Control lines as the CLI writes them: its requests, its answers, and the echoes of our answers.
//!
//! The other direction, the lines that we write, is [`crate::control`].

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

/// A request. From the CLI it waits for a `control_response` with the same `request_id`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ControlRequest {
    /// Names the request; the answer carries it. Empty for an
    /// [`Unnamed`](ControlRequestBody::Unnamed) one.
    pub request_id: Text,
    /// What is asked.
    pub request: ControlRequestBody,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ControlRequestBody {
    /// May this tool run?
    CanUseTool(Box<CanUseTool>),
    /// A request whose `request_id` is no string, whatever it asks. Its only answer is an error
    /// that carries the id as it came.
    Unnamed {
        /// The id; `null` if there is none.
        request_id: RawJson,
    },
    /// Anything else, whole. It must be answered, with an error if need be, or the CLI waits for
    /// ever.
    Other {
        /// The request's subtype, if it has one.
        subtype: Option<Text>,
        /// The request.
        request: RawJson,
    },
}

json_object! {
    /// A question whether a tool may run.
    pub struct CanUseTool {
        /// The tool.
        tool_name: Text = "tool_name",
        /// The tool's name for people.
        display_name: Option<Text> = "display_name",
        /// Its arguments, byte for byte: what is approved must be what runs.
        input: RawJson = "input",
        /// What the model says it is for.
        description: Option<Text> = "description",
        /// Rules that would spare the question next time.
        permission_suggestions: Option<RawJson> = "permission_suggestions",
        /// The path that made the CLI ask.
        blocked_path: Option<Text> = "blocked_path",
        /// Why the CLI asks.
        decision_reason: Option<Text> = "decision_reason",
        /// What kind of reason: `rule`, …
        decision_reason_type: Option<Text> = "decision_reason_type",
        /// Where the rule comes from that made it ask.
        decision_reason_rule_source: Option<Text> = "decision_reason_rule_source",
        /// Whether a person has to answer, because the tool is a question to one.
        requires_user_interaction: Option<bool> = "requires_user_interaction",
        /// The call.
        tool_use_id: Option<Text> = "tool_use_id",
        /// The subagent that wants it.
        agent_id: Option<Text> = "agent_id",
    }

    /// The CLI's answer to `initialize`, as far as a supervisor needs it.
    pub struct InitializeAnswer {
        /// `running`, `requires_action` or `idle`.
        session_state: Option<Text> = "session_state",
        /// The CLI's version.
        claude_code_version: Option<Text> = "claude_code_version",
        /// The CLI's process.
        pid: Option<u32> = "pid",
        /// The permission mode.
        current_permission_mode: Option<Text> = "current_permission_mode",
        /// What this CLI can do beyond the base protocol.
        capabilities: Vec<Text> = "capabilities",
        /// Slash commands.
        commands: Option<RawJson> = "commands",
        /// Models.
        models: Option<RawJson> = "models",
    }

    /// The CLI's answer to `interrupt`.
    pub struct InterruptAnswer {
        /// Prompts that the interrupt came too early for: they will run.
        still_queued: Vec<Text> = "still_queued",
    }
}

/// The CLI no longer wants an answer; one that comes now is ignored and not echoed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ControlCancelRequest {
    /// The request.
    pub request_id: Text,
}

/// An answer: the CLI's to a request of ours, or the echo of ours to a request of the CLI's. The
/// `request_id` says which.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ControlResponse {
    /// The request.
    pub request_id: Text,
    /// The answer.
    pub outcome: ControlOutcome,
    /// The name of the refusal, where it has one.
    pub error_code: Option<Text>,
    /// Permission requests that are open; only with the answer to `initialize`.
    pub pending_permission_requests: Option<Vec<ControlRequest>>,
    /// Questions to the user that are open, in the CLI's own form; only with the answer to
    /// `initialize`.
    pub pending_user_dialog_requests: Option<RawJson>,
}

/// How a request went.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlOutcome {
    /// It was done.
    Success(Success),
    /// It was refused.
    Error(Text),
    /// Something else, whole.
    Other(RawJson),
}

/// The good case, with the answer read in the forms that it may have.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Success {
    /// The answer.
    pub response: Option<RawJson>,
    /// The answer, read as the one to `interrupt`.
    pub interrupt: InterruptAnswer,
    /// The answer, read as the one to `initialize`; `None` when it lacks what every such answer
    /// has.
    pub initialize: Option<Box<InitializeAnswer>>,
    /// The answer, read as an echoed decision about a tool.
    pub decision: Option<EchoedDecision>,
}

/// A decision of ours that the CLI has taken.
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
        /// What the model is told.
        message: Option<Text>,
    },
}

impl FromJson for ControlRequest {
    fn from_json(value: Value<'_>) -> Option<Self> {
        let id = value.get("request_id");
        let Some(request_id) = id.and_then(Value::text) else {
            // Without `request` it is no request either, and nobody waits for its answer.
            let _request = value.get("request").filter(|request| request.is_object())?;
            let request_id = id.map(Value::raw).unwrap_or_default();
            return Some(Self {
                request_id: Text::default(),
                request: ControlRequestBody::Unnamed { request_id },
            });
        };
        // In lists of open requests the fields may stand beside the id instead of inside `request`.
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

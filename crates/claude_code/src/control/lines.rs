//! Builds the lines that the CLI reads from its standard input (`--input-format stream-json`).
//!
//! One line that is not a JSON object kills the CLI. A [`ControlLine`] can only be built here, from
//! valid parts, and never contains a line break.

use agent_lines::json::RawJson;
use serde_json::{Map, Value, json};

/// One JSON object on one line, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlLine(String);

impl ControlLine {
    /// Returns the line, without a newline.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the line with its newline, ready to be written.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.0.into_bytes();
        bytes.push(b'\n');
        bytes
    }

    fn from_json(value: &Value) -> Self {
        Self(value.to_string())
    }
}

/// Our answer about a tool that a child wants to run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PermissionAnswer {
    /// The tool may run.
    Allow {
        /// The input to run with, always complete: older CLIs run a bare allow with empty
        /// arguments.
        updated_input: RawJson,
        /// Rules to add, either those that the CLI suggested or our own.
        updated_permissions: Option<RawJson>,
    },
    /// The tool may not run.
    Deny {
        /// The message that the model gets, word for word.
        message: String,
        /// What happens next.
        then: AfterDeny,
    },
}

impl PermissionAnswer {
    /// Allows the tool with this input, which must be complete.
    pub fn allow(updated_input: RawJson) -> Self {
        Self::Allow { updated_input, updated_permissions: None }
    }

    /// Refuses the tool; the model reads `message` and continues.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), then: AfterDeny::GoOn }
    }
}

/// What happens after a tool was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterDeny {
    /// The model reads the message and continues.
    GoOn,
    /// The turn ends, and the message is lost.
    Interrupt,
}

/// Asks the CLI for its capabilities and open requests. Optional, and allowed at any time.
pub fn initialize(request_id: &str) -> ControlLine {
    control_request(request_id, "initialize", Map::new())
}

/// Ends the running turn. The answer names the prompts that are still queued and will run.
pub fn interrupt(request_id: &str) -> ControlLine {
    control_request(request_id, "interrupt", Map::new())
}

/// Changes the model; `None` restores the default.
pub fn set_model(request_id: &str, model: Option<&str>) -> ControlLine {
    let fields = model.map(|model| ("model".to_owned(), Value::from(model)));
    control_request(request_id, "set_model", fields.into_iter().collect())
}

/// Changes the permission mode.
pub fn set_permission_mode(request_id: &str, mode: &str) -> ControlLine {
    control_request(
        request_id,
        "set_permission_mode",
        Map::from_iter([("mode".to_owned(), Value::from(mode))]),
    )
}

/// Builds any other request, for example `stop_task` or `mcp_status`.
pub fn control_request(
    request_id: &str,
    subtype: &str,
    mut fields: Map<String, Value>,
) -> ControlLine {
    fields.insert("subtype".to_owned(), Value::from(subtype));
    ControlLine::from_json(
        &json!({ "type": "control_request", "request_id": request_id, "request": fields }),
    )
}

/// Sends a prompt. With a `uuid` the CLI echoes it, attributes the turn to it, and runs the same
/// prompt only once.
pub fn user_prompt(uuid: Option<&str>, text: &str) -> ControlLine {
    user_prompt_content(uuid, Value::from(text))
}

/// Sends a prompt made of content blocks (text, images).
pub fn user_prompt_blocks(uuid: Option<&str>, blocks: Vec<Value>) -> ControlLine {
    user_prompt_content(uuid, Value::from(blocks))
}

fn user_prompt_content(uuid: Option<&str>, content: Value) -> ControlLine {
    let mut line = json!({
        "type": "user",
        "message": { "role": "user", "content": content },
        "parent_tool_use_id": null,
        "session_id": "default",
    });
    if let Some(uuid) = uuid {
        line["uuid"] = Value::from(uuid);
    }
    ControlLine::from_json(&line)
}

/// Answers a permission request. The input is sent byte for byte as it is in the answer.
pub fn answer_permission(request_id: &str, answer: &PermissionAnswer) -> ControlLine {
    let response = match answer {
        PermissionAnswer::Allow { updated_input, updated_permissions } => {
            let permissions = updated_permissions
                .as_ref()
                .map(|permissions| {
                    format!(r#","updatedPermissions":{}"#, one_line(permissions.get()))
                })
                .unwrap_or_default();
            format!(
                r#"{{"behavior":"allow","updatedInput":{}{permissions}}}"#,
                one_line(updated_input.get())
            )
        }
        PermissionAnswer::Deny { message, then: AfterDeny::GoOn } => {
            json!({ "behavior": "deny", "message": message }).to_string()
        }
        PermissionAnswer::Deny { message, then: AfterDeny::Interrupt } => {
            json!({ "behavior": "deny", "message": message, "interrupt": true }).to_string()
        }
    };
    let request_id = Value::from(request_id);
    ControlLine(format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{request_id},"response":{response}}}}}"#
    ))
}

/// Answers a request that we cannot serve with an error, so that the CLI does not wait for ever.
pub fn answer_error(request_id: &str, error: &str) -> ControlLine {
    ControlLine::from_json(&json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": request_id, "error": error },
    }))
}

/// The longest id of an unnamed request that its answer repeats.
const MAX_UNNAMED_ID_BYTES: usize = 256;

/// Refuses a request whose id is not a string. The answer repeats the id unchanged, or has `null`
/// if it is too long to repeat.
pub fn answer_unnamed(request_id: &RawJson, error: &str) -> ControlLine {
    let id = Some(request_id.get()).filter(|id| id.len() <= MAX_UNNAMED_ID_BYTES);
    let (id, error) = (one_line(id.unwrap_or("null")), Value::from(error));
    ControlLine(format!(
        r#"{{"type":"control_response","response":{{"subtype":"error","request_id":{id},"error":{error}}}}}"#
    ))
}

/// Replaces line breaks by spaces. In valid JSON a line break can only be white space between
/// values, where a space means the same.
fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

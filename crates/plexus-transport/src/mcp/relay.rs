//! `plexus_call`: the tool with which a model calls a method that its short list does not name.
//!
//! It is not a method of the hub. The door replaces it with the method that it names, so that the
//! call waits, reports and answers as that method does.

use std::borrow::Cow;
use std::sync::Arc;

use plexus_core::{CallError, Hub, MethodDescriptor, Shape};
use rmcp::model::{CallToolRequestParams, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// The tool's name.
pub(super) const RELAY: &str = "plexus_call";

/// The tool's own description.
const DESCRIPTION: &str = "Calls any method that is not among your tools, by its name as \
     plexus_methods lists it, such as agents.list. Its answer is that of the method.";

/// Describes the tool.
pub(super) fn tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "method": {"type": "string", "description": "The method, such as agents.list."},
            "params": {"type": "object", "description": "Its parameters; plexus.schema {method} \
                       shows them.", "additionalProperties": true},
        },
        "required": ["method"],
        "additionalProperties": false,
    });
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    let annotations = ToolAnnotations::new().read_only(false).destructive(true).open_world(false);
    Tool::new(RELAY, DESCRIPTION, Arc::new(schema)).with_annotations(annotations)
}

/// The method and parameters of a tool call.
pub(super) struct Called {
    pub(super) method: Arc<MethodDescriptor>,
    pub(super) arguments: Option<JsonObject>,
}

/// Finds the method that a call of [`RELAY`] names, and its parameters.
///
/// # Errors
/// `invalid` when it names none, -32601 when there is no such method, and `invalid` for a method
/// whose answer is not a single tool result.
pub(super) fn called(hub: &Hub, request: CallToolRequestParams) -> Result<Called, CallError> {
    let mut given = request.arguments.unwrap_or_default();
    let Some(Value::String(name)) = given.remove("method") else {
        return Err(CallError::invalid("call a method: none is named")
            .with_field("method")
            .with_hint("plexus_methods lists what you may call"));
    };
    let arguments = match given.remove("params") {
        None | Some(Value::Null) => None,
        Some(Value::Object(params)) => Some(params),
        Some(_) => {
            return Err(
                CallError::invalid("call a method: params is not an object").with_field("params")
            );
        }
    };
    if let Some(unknown) = given.keys().next() {
        return Err(CallError::invalid(format_args!(
            "call {name}: {unknown} is not a parameter of {RELAY}"
        ))
        .with_field(unknown.clone())
        .with_hint("put the parameters of the method into params"));
    }
    let Some(method) = hub.tool(&tool_name(&name)) else {
        return Err(
            CallError::unknown_method(&name).with_hint("plexus_methods lists what you may call")
        );
    };
    if method.shape == Shape::Streaming || method.resume.is_some() {
        return Err(CallError::invalid(format_args!(
            "call {name} as a tool: it answers with a stream"
        ))
        .with_field("method")
        .with_hint("agents.poll reads events, a page at a time"));
    }
    Ok(Called { method, arguments })
}

/// Returns the MCP name of a method, which may be given as a tool name or as a method name.
pub(super) fn tool_name(method: &str) -> Cow<'_, str> {
    if method.contains('.') { Cow::Owned(method.replace('.', "_")) } else { Cow::Borrowed(method) }
}

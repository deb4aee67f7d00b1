//! A method as a tool, and its reply as a tool's result.

use std::sync::Arc;

use axum::http::request::Parts;
use plexus_core::{
    Answer, CallError, Caller, Hub, Listing, MethodDescriptor, Reply, Shape, WireForm,
};
use rmcp::model::{
    CallToolResult, ContentBlock, Extensions, JsonObject, MetaObject, Tool, ToolAnnotations,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{brief, relay};

/// The key in a tool's `_meta` that lists the arguments that make a call idempotent; any one of
/// them suffices. The protocol has a hint only for whole tools.
pub(crate) const IDEMPOTENT_WITH: &str = "plexus/idempotentWith";

/// The query of `/mcp` with which a request lists every tool.
pub const FULL_QUERY: &str = "tools=full";

/// How much detail a list of tools has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The tools that a model needs, briefly, and [`relay::RELAY`] for the rest.
    Short,
    /// Every method that gives one answer, with its full schemas.
    Full,
}

impl Extent {
    /// Reads the extent that a request asks for in the query of its URL.
    pub(super) fn of(extensions: &Extensions) -> Self {
        let query = extensions.get::<Parts>().and_then(|parts| parts.uri.query());
        let asks = query.is_some_and(|query| query.split('&').any(|part| part == FULL_QUERY));
        if asks { Self::Full } else { Self::Short }
    }
}

/// Lists the tools of `caller`: the methods that it may call and that give one answer.
pub(super) fn list(hub: &Hub, caller: &Caller, extent: Extent) -> Vec<Tool> {
    let mut methods = hub.methods_for(caller);
    methods.retain(|method| method.listing != Listing::Never && method.shape != Shape::Streaming);
    if extent == Extent::Full {
        return methods.iter().map(|method| tool(method)).collect();
    }
    let short = methods.iter().filter(|method| method.listing == Listing::Short);
    let mut tools: Vec<Tool> = short.map(|method| brief_tool(method)).collect();
    // A child needs only its one call.
    if tools.len() < methods.len() && !needs_resumption(hub, caller) {
        tools.push(relay::tool());
    }
    tools
}

/// Describes a method as briefly as a model needs.
fn brief_tool(method: &MethodDescriptor) -> Tool {
    let mut tool = tool(method);
    tool.output_schema = None;
    if let Value::Object(input) = brief::brief(&method.params) {
        tool.input_schema = Arc::new(input);
    }
    tool
}

/// Says whether `caller` has a call that must survive a restart. The newest protocol cannot resume
/// a stream, so such a caller is directed to the last version that can.
pub(super) fn needs_resumption(hub: &Hub, caller: &Caller) -> bool {
    hub.methods_for(caller).iter().any(|method| method.resume.is_some())
}

/// Finds the method with a tool's name, for any caller: the hub itself refuses those that may not
/// call it.
pub(super) fn find(hub: &Hub, name: &str) -> Option<Arc<MethodDescriptor>> {
    hub.tool(name).filter(|method| method.shape != Shape::Streaming)
}

/// Describes a method to a model that has to choose.
pub(super) fn tool(method: &MethodDescriptor) -> Tool {
    let hints = method.hints;
    let annotations = ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent || hints.read_only)
        .open_world(false);
    let input = method.params.as_object().cloned().unwrap_or_default();
    let mut tool = Tool::new(method.tool_name(), method.description, Arc::new(input))
        .with_annotations(annotations);
    tool.output_schema = output_schema(method).map(Arc::new);
    if !hints.idempotent_with.is_empty() {
        let with = [(IDEMPOTENT_WITH.to_owned(), json!(hints.idempotent_with))];
        tool.meta = Some(MetaObject(with.into_iter().collect()));
    }
    tool
}

/// Returns the output schema. Clients accept only an object at its root, and some reject a boolean
/// sub-schema.
fn output_schema(method: &MethodDescriptor) -> Option<JsonObject> {
    let schema = method.result.as_object()?;
    let acceptable = method.wire == WireForm::Ordinary
        && schema.get("type").is_some_and(|kind| kind == "object")
        && plexus_core::schema::no_boolean_schemas(&method.result, "").is_ok();
    acceptable.then(|| schema.clone())
}

/// Returns the one answer of a call. A tool has no stream.
pub(super) fn answer(method: &MethodDescriptor, reply: Reply) -> Result<Answer, CallError> {
    match reply {
        Reply::Value(answer) => Ok(answer),
        Reply::Stream(_) => Err(CallError::internal(format_args!(
            "call {}: it answered with a stream",
            method.full_name()
        ))),
    }
}

/// Writes the outcome of a call in the form that its method requires.
pub(super) fn result(
    method: &MethodDescriptor,
    outcome: Result<Box<RawValue>, CallError>,
) -> CallToolResult {
    let mut result = CallToolResult::default();
    match (method.wire, outcome) {
        (WireForm::Ordinary, Ok(value)) => {
            result.structured_content =
                serde_json::from_str::<Value>(value.get()).ok().filter(Value::is_object);
            result.content = text(value.get());
        }
        (WireForm::Ordinary, Err(error)) => return failed(&error),
        (WireForm::ExactText, Ok(value)) => result.content = text(value.get()),
        (WireForm::ExactText, Err(error)) => {
            result.content = text(&method.closed_on_failure(&error))
        }
    }
    result
}

/// Writes a failure.
pub(super) fn failed(error: &CallError) -> CallToolResult {
    CallToolResult::error(text(&failure(error)))
}

fn text(text: &str) -> Vec<ContentBlock> {
    vec![ContentBlock::text(text)]
}

/// Writes the error object that all doors use.
fn failure(error: &CallError) -> String {
    serde_json::to_string(error)
        .unwrap_or_else(|_| r#"{"kind":"internal","message":"describe the failure"}"#.to_owned())
}

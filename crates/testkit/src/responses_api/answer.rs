//! An answer as the API streams it.

use serde_json::{Value, json};
use uuid::Uuid;

use super::script::{Call, Found};
use crate::messages_api::sse::{Event, split};

/// The token count that the stand-in reports for a request; the CLI adds the counts up.
const INPUT_TOKENS: u64 = 100;
/// The token count that the stand-in reports for an answer.
const OUTPUT_TOKENS: u64 = 20;

/// Returns the events up to the end of the content, and those that close the stream.
pub(super) fn events(found: &Found, body: &Value) -> (Vec<Event>, Vec<Event>) {
    let id = format!("resp_{}", Uuid::new_v4().simple());
    let mut stream = Stream::default();
    stream.push("response.created", json!({"response": {"id": id, "model": body["model"]}}));
    let step = &found.step;
    if let Some(summary) = &step.reasoning {
        stream.reasoning(summary);
    }
    for text in &step.texts {
        stream.message(text, step.chunk);
    }
    for (number, call) in step.calls.iter().enumerate() {
        stream.call(call, format!("{}_{number}", found.call_prefix()));
    }
    let usage = json!({
        "input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": OUTPUT_TOKENS, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    });
    let response =
        json!({"id": id, "model": body["model"], "output": stream.items, "usage": usage});
    let name = "response.completed";
    let closing = vec![(name, json!({"type": name, "response": response}))];
    (stream.events, closing)
}

#[derive(Default)]
struct Stream {
    events: Vec<Event>,
    items: Vec<Value>,
}

impl Stream {
    fn push(&mut self, name: &'static str, mut data: Value) {
        data["type"] = name.into();
        self.events.push((name, data));
    }

    /// Adds an item: its beginning, its deltas, and the whole item.
    fn item(&mut self, empty: Value, deltas: Vec<(&'static str, Value)>, whole: Value) {
        let index = self.items.len();
        self.push("response.output_item.added", json!({"output_index": index, "item": empty}));
        for (name, mut delta) in deltas {
            delta["output_index"] = index.into();
            delta["item_id"] = whole["id"].clone();
            self.push(name, delta);
        }
        self.push("response.output_item.done", json!({"output_index": index, "item": whole}));
        self.items.push(whole);
    }

    fn message(&mut self, text: &str, chunk: Option<usize>) {
        let mut empty = json!({
            "type": "message", "role": "assistant", "id": id("msg"), "content": [],
        });
        let deltas = split(text, chunk)
            .map(|part| ("response.output_text.delta", json!({"content_index": 0, "delta": part})))
            .collect();
        let opening = empty.clone();
        empty["content"] = json!([{"type": "output_text", "text": text}]);
        self.item(opening, deltas, empty);
    }

    fn reasoning(&mut self, summary: &str) {
        let mut empty = json!({
            "type": "reasoning", "id": id("rs"), "summary": [], "encrypted_content": "c3RhbmQtaW4=",
        });
        let deltas = vec![
            ("response.reasoning_summary_part.added", json!({"summary_index": 0})),
            (
                "response.reasoning_summary_text.delta",
                json!({"summary_index": 0, "delta": summary}),
            ),
        ];
        let opening = empty.clone();
        empty["summary"] = json!([{"type": "summary_text", "text": summary}]);
        self.item(opening, deltas, empty);
    }

    fn call(&mut self, call: &Call, call_id: String) {
        let item = match call {
            Call::Shell(command, arguments) => {
                let mut arguments = arguments.clone();
                arguments["cmd"] = command.as_str().into();
                function("exec_command", &arguments, &call_id)
            }
            Call::Function(name, arguments) => function(name, arguments, &call_id),
            Call::Patch(patch) => json!({
                "type": "custom_tool_call", "id": id("ctc"), "call_id": call_id,
                "name": "apply_patch", "input": patch,
            }),
        };
        self.item(item.clone(), Vec::new(), item);
    }
}

fn function(name: &str, arguments: &Value, call_id: &str) -> Value {
    // Tools of MCP servers have a namespace.
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, name),
    };
    let mut call = json!({
        "type": "function_call", "id": id("fc"), "call_id": call_id,
        "name": name, "arguments": arguments.to_string(),
    });
    if let Some(namespace) = namespace {
        call["namespace"] = namespace.into();
    }
    call
}

fn id(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::new_v4().simple())
}

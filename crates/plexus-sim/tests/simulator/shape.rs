//! Compares the lines of the simulator with a recorded run: the same types in the same order, with
//! the same fields.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

/// Fields of recorded lines that the simulator does not write, by the kind of line.
const LEFT_OUT: &[(&str, &str)] = &[
    // The socket through which children of one home find each other; the simulator has none.
    ("system/init", "messaging_socket_path"),
    // Where the CLI keeps its memory; the simulator has none, and writes an empty object.
    ("system/init", "memory_paths.auto"),
    // Skills and plugins of the vendor.
    ("system/init", "plugins[]"),
    // An empty list in every recorded run.
    ("stream_event/message_start", "owed_rows"),
    // Details of the vendor's API that change from message to message and say nothing about the
    // run.
    ("stream_event/message_delta", "event.context_management"),
    ("stream_event/message_delta", "event.delta.container"),
    ("stream_event/message_delta", "event.delta.stop_details"),
    ("stream_event/message_delta", "event.usage.fallback_credit"),
    ("stream_event/message_delta", "event.usage.iterations"),
    ("stream_event/message_delta", "event.usage.output_tokens_details"),
    ("stream_event/message_delta", "event.usage.server_tool_use"),
    // The end of an interrupted message; the interrupted block itself says as much.
    ("stream_event/message_stop", "abandoned_blocks"),
    // Capabilities and texts of the vendor in the answer to `initialize`.
    ("control_response/initialize", "response.response.agents[].model"),
    ("control_response/initialize", "response.response.user_output_styles_dir"),
    ("control_response/initialize", "response.response.hook_on_failure_supported"),
    ("control_response/initialize", "response.response.other_hook_ask_outranks_host"),
    ("control_response/initialize", "response.response.feedback_mode"),
    ("control_response/initialize", "response.response.remote_control_auto_enable"),
    ("control_response/initialize", "response.response.remote_control_auto_connect_default"),
    ("control_response/initialize", "response.response.remote_control_available"),
    ("control_response/initialize", "response.response.remote_control_auto_on_by_default"),
    ("control_response/initialize", "response.response.ide_rc_auto_enable_gate"),
    ("control_response/initialize", "response.response.models[].supportedEffortLevels"),
    ("control_response/initialize", "response.response.models[].supportsAdaptiveThinking"),
    ("control_response/initialize", "response.response.models[].supportsFastMode"),
    ("control_response/initialize", "response.response.models[].supportsAutoMode"),
    ("control_response/initialize", "response.response.models[].supportsThinkingOff"),
    // A simulated message has no usage worth counting.
    ("assistant/text", "message.usage.cache_creation"),
    ("assistant/text", "message.usage.cache_creation_input_tokens"),
    ("assistant/text", "message.usage.cache_read_input_tokens"),
    ("assistant/text", "message.usage.inference_geo"),
    ("assistant/text", "message.usage.iterations"),
    ("assistant/text", "message.usage.output_tokens_details"),
    ("assistant/text", "message.usage.server_tool_use"),
    ("assistant/text", "message.usage.service_tier"),
    ("assistant/text", "message.usage.speed"),
    ("assistant/text", "message.usage.fallback_credit"),
];

/// Everything below these fields belongs to the story, not to the protocol.
const STORY: &[&str] = &["input", "tool_input", "partial_json", "originalFile", "structuredPatch"];

/// Kinds of lines whose number depends on the length of the text, so the number is not compared.
const AS_OFTEN_AS_IT_TAKES: &[&str] =
    &["stream_event/text_delta", "stream_event/thinking_delta", "stream_event/input_json_delta"];

/// Returns the lines of a recorded run.
pub(crate) fn recorded(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-2.1.325");
    let path = folder.join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Fails unless the simulated lines have the types, the order and the fields of the recorded ones.
pub(crate) fn assert_same_shape(
    name: &str,
    range: impl Into<Option<Range<usize>>>,
    simulated: &[Value],
) {
    let mut lines = recorded(name);
    if let Some(range) = range.into() {
        lines = lines[range].to_vec();
    }
    let (wanted, got) = (kinds(&lines), kinds(simulated));
    assert_eq!(got, wanted, "types and order differ from {name}");
    let mut fields = BTreeMap::<String, Vec<BTreeMap<String, &'static str>>>::new();
    for line in simulated {
        fields.entry(kind(line)).or_default().push(fields_of(line));
    }
    let mut problems = Vec::new();
    let mut nth = BTreeMap::<String, usize>::new();
    for line in &lines {
        let kind = kind(line);
        let n = nth.entry(kind.clone()).or_default();
        let lines_of_kind = &fields[&kind];
        // Deltas are not compared one by one; the last one stands for the rest.
        let simulated = &lines_of_kind[(*n).min(lines_of_kind.len() - 1)];
        *n += 1;
        for (path, wanted) in fields_of(line) {
            match simulated.get(&path) {
                None if is_left_out(&kind, &path) => {}
                None => problems.push(format!("{kind}: no {path}")),
                Some(got) if *got == wanted => {}
                Some(got) => problems.push(format!("{kind}: {path} is {got}, not {wanted}")),
            }
        }
    }
    problems.sort();
    problems.dedup();
    assert!(problems.is_empty(), "fields differ from {name}:\n{}", problems.join("\n"));
}

/// Returns the kinds of the lines in order. Stream events are separate: how they interleave with
/// the rest depends on timing.
fn kinds(lines: &[Value]) -> (Vec<String>, Vec<String>) {
    let (mut events, rest): (Vec<String>, Vec<String>) = lines
        .iter()
        .map(kind)
        .filter(|kind| kind != "system/thinking_tokens")
        .partition(|k| k.starts_with("stream"));
    events.dedup_by(|a, b| a == b && AS_OFTEN_AS_IT_TAKES.contains(&a.as_str()));
    (rest, events)
}

/// Returns the kind of a line, as precisely as its type allows.
pub(crate) fn kind(line: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let r#type = text(&line["type"]);
    let detail = match r#type.as_str() {
        "assistant" => text(&line["message"]["content"][0]["type"]),
        "user" if line["isReplay"] == true => "replay".to_owned(),
        "user" => text(&line["message"]["content"][0]["type"]),
        "stream_event" if line["event"]["type"] == "content_block_delta" => {
            text(&line["event"]["delta"]["type"])
        }
        "stream_event" => text(&line["event"]["type"]),
        "command_lifecycle" => text(&line["state"]),
        "control_response" if line["response"]["response"]["commands"].is_array() => {
            "initialize".to_owned()
        }
        "control_response" => text(&line["response"]["subtype"]),
        "control_request" => text(&line["request"]["subtype"]),
        "system" if line["subtype"] == "session_state_changed" => text(&line["state"]),
        _ => text(&line["subtype"]),
    };
    format!("{}/{detail}", r#type).trim_end_matches('/').to_owned()
}

fn is_left_out(kind: &str, path: &str) -> bool {
    LEFT_OUT.iter().any(|(of, left_out)| {
        *of == kind
            && path
                .strip_prefix(left_out)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// Returns the paths of all fields of a line, with the type of each value.
fn fields_of(line: &Value) -> BTreeMap<String, &'static str> {
    let mut fields = BTreeMap::new();
    collect("", line, &mut fields);
    fields
}

fn collect(path: &str, value: &Value, fields: &mut BTreeMap<String, &'static str>) {
    let r#type = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    if !path.is_empty() {
        fields.insert(path.to_owned(), r#type);
    }
    match value {
        Value::Array(items) => {
            // The first item stands for all of them; lists of the story may be empty.
            if let Some(item) = items.first().filter(|item| item.is_object()) {
                collect(&format!("{path}[]"), item, fields);
            }
        }
        Value::Object(object) => {
            for (key, value) in object {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if STORY.contains(&key.as_str()) {
                    fields.insert(below, "story");
                } else {
                    collect(&below, value, fields);
                }
            }
        }
        _ => {}
    }
}

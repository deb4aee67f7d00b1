//! An event in a few words, for a line of a rendered tree.

use plexus_wire::{ChatEvent, Json};
use serde_json::Value;

/// The inputs of tools by which a person knows what a call is about, in the order of preference.
const TELLING: &[&str] =
    &["command", "file_path", "path", "notebook_path", "pattern", "url", "query", "description"];

/// Writes an event in a few words; `None` when its type says enough.
pub(super) fn in_words(event: &ChatEvent) -> Option<String> {
    Some(match event {
        ChatEvent::Start { .. } => "started".to_owned(),
        ChatEvent::Content { text } => format!("said {text}"),
        ChatEvent::Thinking { thinking } => format!("thought {thinking}"),
        ChatEvent::ToolUse { tool_name, input, .. } => called("used", tool_name, input),
        ChatEvent::AwaitingApproval { tool_name, input, .. } => {
            called("asks for", tool_name, input)
        }
        ChatEvent::ToolRequest { session_name, tool_name, input, .. } => {
            called(&format!("{session_name} asks for"), tool_name, input)
        }
        ChatEvent::ApprovalResolved { approved, message, updated_input, answers, .. } => {
            let verdict = match (approved, updated_input, answers) {
                (true, Some(input), None) => format!("allowed as edited to {}", told(input)),
                (true, ..) => "allowed".to_owned(),
                (false, ..) => "denied".to_owned(),
            };
            match message {
                Some(message) => format!("{verdict}: {message}"),
                None => verdict,
            }
        }
        ChatEvent::ToolResult { output, is_error, .. } => {
            let verdict = if *is_error { "failed" } else { "gave" };
            format!("{verdict} {}", first_text(output))
        }
        ChatEvent::Steered { text, .. } => format!("steered: {text}"),
        ChatEvent::Notice { message } => format!("notice: {message}"),
        ChatEvent::Passthrough { event_type, .. } => format!("[{event_type}]"),
        ChatEvent::Complete { usage, .. } => {
            format!("completed · {} turns, ${:.4}", usage.num_turns, usage.cost_usd)
        }
        ChatEvent::Error { message } => format!("error: {message}"),
        ChatEvent::Pruned { was } => format!("({was}, pruned)"),
        ChatEvent::Other(_) => return None,
    })
}

/// A tool call by its tool and the most telling part of its input.
fn called(verb: &str, tool: &str, input: &Json) -> String {
    match telling(&input.read().unwrap_or_default()) {
        Some(part) => format!("{verb} {tool} {part}"),
        None => format!("{verb} {tool}"),
    }
}

/// The most telling part of an input, or all of it.
fn told(input: &Json) -> String {
    let input = input.read::<Value>().unwrap_or_default();
    telling(&input).map_or_else(|| input.to_string(), str::to_owned)
}

fn telling(input: &Value) -> Option<&str> {
    TELLING.iter().find_map(|name| input.get(name)?.as_str())
}

/// What a tool gave, as far as it is text.
fn first_text(output: &Json) -> String {
    match output.read::<Value>().unwrap_or_default() {
        Value::String(text) => text,
        Value::Array(blocks) => {
            let text = blocks.iter().find_map(|block| block.get("text")?.as_str());
            text.unwrap_or("something that is not text").to_owned()
        }
        _ => "something that is not text".to_owned(),
    }
}

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
        ChatEvent::ApprovalResolved { approved, message, .. } => {
            let verdict = if *approved { "allowed" } else { "denied" };
            match message {
                Some(message) => format!("{verdict}: {message}"),
                None => verdict.to_owned(),
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
    let input = input.read::<Value>().unwrap_or_default();
    match TELLING.iter().find_map(|name| input.get(name)?.as_str()) {
        Some(part) => format!("{verb} {tool} {part}"),
        None => format!("{verb} {tool}"),
    }
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

//! The text of an event that search looks at, and the part of it that a hit shows.

use plexus_wire::{ChatEvent, SearchKind, SearchPiece};
use serde_json::Value;

use crate::contract::search::words::words_of;
use crate::contract::{JsonText, SearchQuery};

/// How many bytes of one event are indexed. The beginning of a long output says what it is; all of
/// it would make the index as large as the events.
pub(super) const MAX_TEXT_BYTES: usize = 64 * 1024;

/// How many characters an excerpt has.
const EXCERPT_CHARS: usize = 240;

/// How many of them stand before the first hit.
const CHARS_BEFORE: usize = 60;

/// What search knows of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub(super) kind: SearchKind,
    pub(super) text: String,
    /// The tool, where the event names it.
    pub(super) tool: Option<String>,
    /// The call that a result belongs to.
    pub(super) call: Option<String>,
}

impl Said {
    fn new(kind: SearchKind, text: String) -> Self {
        Self { kind, text, tool: None, call: None }
    }
}

/// Returns the prompt of a chat as search sees it.
pub(super) fn of_prompt(prompt: &str) -> Option<Said> {
    kept(Said::new(SearchKind::Prompt, prompt.to_owned()))
}

/// Returns what an event says; `None` for one that says nothing of its own.
pub(super) fn of_event(body: &JsonText) -> Option<Said> {
    let event: ChatEvent = serde_json::from_str(body.as_str()).ok()?;
    kept(match event {
        ChatEvent::Content { text } => Said::new(SearchKind::Said, text),
        ChatEvent::Thinking { thinking } => Said::new(SearchKind::Thought, thinking),
        ChatEvent::ToolUse { tool_name, tool_use_id, input } => {
            let mut text = tool_name.clone();
            collect(&input.to_value(), &[], &mut text);
            let call = Some(tool_use_id);
            Said { kind: SearchKind::Call, text, tool: Some(tool_name), call }
        }
        ChatEvent::ToolResult { tool_use_id, output, .. } => {
            let mut text = String::new();
            // The words of blocks, without their types and without pictures.
            collect(&output.to_value(), &["type", "data", "source"], &mut text);
            Said { call: Some(tool_use_id), ..Said::new(SearchKind::Result, text) }
        }
        ChatEvent::ApprovalResolved { message, answers, updated_input, .. } => {
            let mut text = message.unwrap_or_default();
            match (answers.and_then(|it| serde_json::to_value(it).ok()), updated_input) {
                (Some(answers), _) => collect(&answers, &[], &mut text),
                // What runs; the call before it holds only what was asked for.
                (None, Some(input)) => collect(&input.to_value(), &[], &mut text),
                (None, None) => {}
            }
            Said::new(SearchKind::Decision, text)
        }
        ChatEvent::Steered { text, .. } => Said::new(SearchKind::Steered, text),
        ChatEvent::Notice { message } | ChatEvent::Error { message } => {
            Said::new(SearchKind::Notice, message)
        }
        // A request repeats the call before it; the rest has no words.
        ChatEvent::Start { .. }
        | ChatEvent::AwaitingApproval { .. }
        | ChatEvent::ToolRequest { .. }
        | ChatEvent::Passthrough { .. }
        | ChatEvent::Complete { .. }
        | ChatEvent::Pruned { .. }
        | ChatEvent::Other(_) => return None,
    })
}

/// Cuts the text to its bound; `None` when nothing is left.
fn kept(mut said: Said) -> Option<Said> {
    let end = said.text.floor_char_boundary(MAX_TEXT_BYTES);
    said.text.truncate(end);
    (!said.text.trim().is_empty()).then_some(said)
}

/// Appends every string of a value, each on a line of its own, until there is enough.
fn collect(value: &Value, skipped: &[&str], text: &mut String) {
    if text.len() >= MAX_TEXT_BYTES {
        return;
    }
    match value {
        Value::String(string) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&string[..string.floor_char_boundary(MAX_TEXT_BYTES)]);
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, skipped, text)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if !skipped.contains(&name.as_str()) {
                    collect(field, skipped, text);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a part of `text` around the first place that the query finds.
pub(super) fn excerpt(text: &str, query: &SearchQuery) -> Vec<SearchPiece> {
    let words = words_of(text);
    let found: Vec<_> = query
        .found_in(&words)
        .into_iter()
        .map(|range| words[range.start].at.start..words[range.end - 1].at.end)
        .collect();
    let first = found.first().map_or(0, |hit| hit.start);
    let start = text[..first].char_indices().rev().nth(CHARS_BEFORE - 1).map_or(0, |(at, _)| at);
    let end =
        text[start..].char_indices().nth(EXCERPT_CHARS).map_or(text.len(), |(at, _)| start + at);
    let mut pieces = Vec::new();
    let mut push = |text: &str, hit: bool| {
        if !text.is_empty() {
            pieces.push(SearchPiece { text: text.to_owned(), hit });
        }
    };
    if start > 0 {
        push("…", false);
    }
    let mut at = start;
    for hit in found.into_iter().take_while(|hit| hit.start < end) {
        let hit_end = hit.end.min(end);
        push(&text[at..hit.start], false);
        push(&text[hit.start..hit_end], true);
        at = hit_end;
    }
    push(&text[at..end], false);
    if end < text.len() {
        push("…", false);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(text: &str, query: &str) -> String {
        excerpt(text, &SearchQuery::read(query).unwrap())
            .into_iter()
            .map(|piece| if piece.hit { format!("[{}]", piece.text) } else { piece.text })
            .collect()
    }

    #[test]
    fn an_excerpt_shows_the_first_hit_and_what_stands_around_it() {
        assert_eq!(shown("Read src/main.rs now", "main.rs now"), "Read src/[main.rs] [now]");
        assert_eq!(shown("a migration of ours", "migr*"), "a [migration] of ours");
        assert_eq!(shown("nothing", ""), "nothing");
        let long = format!("{} needle {}", "ä".repeat(500), "b".repeat(500));
        let seen = shown(&long, "needle");
        assert!(seen.starts_with("…ä") && seen.contains(" [needle] b") && seen.ends_with("b…"));
        assert!(seen.chars().count() < EXCERPT_CHARS + 10, "{seen}");
    }

    #[test]
    fn the_words_of_an_event_are_found_and_pictures_are_not() {
        let of = |body: Value| of_event(&JsonText::from(body));
        let call = of(json!({"type": "tool_use", "tool_name": "Bash", "tool_use_id": "t1",
            "input": {"command": "ls", "more": ["a", {"b": "c"}], "n": 1}}));
        assert_eq!(
            call,
            Some(Said {
                kind: SearchKind::Call,
                text: "Bash\nls\na\nc".into(),
                tool: Some("Bash".into()),
                call: Some("t1".into())
            })
        );
        let result = of(json!({"type": "tool_result", "tool_use_id": "t1", "is_error": false,
            "output": [{"type": "text", "text": "seen"},
                       {"type": "image", "source": {"data": "AAAA"}}]}));
        assert_eq!(result.unwrap().text, "seen");
        let edited = of(json!({"type": "approval_resolved", "approved": true, "message": "safer",
            "approval_id": "01a1de6b-3b4a-75ed-a2ee-6d8405ee5847", "decided_by": "operator",
            "updated_input": {"command": "ls docs"}}));
        assert_eq!(edited, Some(Said::new(SearchKind::Decision, "safer\nls docs".into())));
        for nothing in [
            json!({"type": "content", "text": " \n"}),
            json!({"type": "pruned", "was": "content"}),
            json!({"type": "tomorrow", "text": "x"}),
        ] {
            assert_eq!(of(nothing), None);
        }
        let long = of(json!({"type": "content", "text": "ä".repeat(MAX_TEXT_BYTES)})).unwrap();
        assert_eq!(long.text.len(), MAX_TEXT_BYTES);
    }
}

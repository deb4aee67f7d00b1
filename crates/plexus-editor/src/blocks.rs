//! Content that an editor draws: texts, code, and what a tool gave.

use serde_json::{Value, json};

use plexus_render::sanitize;

/// Bytes of a tool's result that an editor is sent; the session keeps all of it.
const MAX_RESULT_BYTES: usize = 256 * 1024;

/// A text as the content of a call.
pub(crate) fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// A text between fences that it cannot end itself, made safe to show.
pub(crate) fn fenced(language: &str, text: &str) -> String {
    let text = sanitize::text(text);
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// What a tool gave: text, or blocks of text and pictures.
pub(crate) fn result(output: &Value) -> Vec<Value> {
    match output {
        Value::Null => Vec::new(),
        Value::String(text) => shown_text(text).into_iter().collect(),
        Value::Array(blocks) => blocks.iter().filter_map(block).collect(),
        other => shown_text(&format!("{other:#}")).into_iter().collect(),
    }
}

fn block(block: &Value) -> Option<Value> {
    match block["type"].as_str() {
        Some("text") => shown_text(block["text"].as_str()?),
        Some("image") => Some(picture(block).unwrap_or_else(|| text_content("[image]"))),
        Some(kind) => Some(text_content(&format!("[{}]", sanitize::one_line(kind)))),
        None => None,
    }
}

/// A picture that travels as its own bytes.
fn picture(block: &Value) -> Option<Value> {
    let source = &block["source"];
    let (data, kind) = (source["data"].as_str()?, source["media_type"].as_str()?);
    let shown = json!({"type": "image", "data": data, "mimeType": kind});
    Some(json!({"type": "content", "content": shown}))
}

fn shown_text(text: &str) -> Option<Value> {
    if text.trim().is_empty() {
        return None;
    }
    if text.len() <= MAX_RESULT_BYTES {
        return Some(text_content(&fenced("", text)));
    }
    let end = text.floor_char_boundary(MAX_RESULT_BYTES);
    let left = text.len() - end;
    let words = format!("{left} more bytes are in `plexus logs`");
    Some(text_content(&format!("{}\n{words}", fenced("", &text[..end]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_its_own_fence() {
        assert_eq!(fenced("sh", "ls\n"), "```sh\nls\n```");
        assert_eq!(fenced("", "a\n```\nb"), "````\na\n```\nb\n````");
    }

    #[test]
    fn results_are_drawn_with_their_pictures() {
        let source = json!({"type": "base64", "media_type": "image/png", "data": "AA=="});
        let output = json!([
            {"type": "text", "text": "seen"}, {"type": "image", "source": source},
            {"type": "image", "source": {"type": "url"}}, {"type": "tool_reference"}, {},
        ]);
        let expected = json!([
            {"type": "content", "content": {"type": "text", "text": "```\nseen\n```"}},
            {"type": "content", "content":
                {"type": "image", "data": "AA==", "mimeType": "image/png"}},
            {"type": "content", "content": {"type": "text", "text": "[image]"}},
            {"type": "content", "content": {"type": "text", "text": "[tool_reference]"}},
        ]);
        assert_eq!(json!(result(&output)), expected);
        assert!(result(&json!("")).is_empty() && result(&json!(null)).is_empty());
    }

    #[test]
    fn a_long_result_is_cut_and_says_so() {
        let text = "é".repeat(MAX_RESULT_BYTES);
        let shown = result(&json!(text));
        let shown = shown[0]["content"]["text"].as_str().unwrap();
        assert!(shown.ends_with("262144 more bytes are in `plexus logs`"), "{}", shown.len());
    }
}

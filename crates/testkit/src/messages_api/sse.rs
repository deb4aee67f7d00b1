//! An answer as server-sent events and as one object.
//!
//! Ids are random, so that two stand-ins, or one that was restarted, never reuse an id in one
//! conversation.

use serde_json::{Value, json};
use uuid::Uuid;

use super::script::Step;

/// The token count that the stand-in reports for a request; the CLI adds the counts up.
const INPUT_TOKENS: u64 = 100;
/// The token count that the stand-in reports for an answer.
const OUTPUT_TOKENS: u64 = 20;

/// The whole answer, ready to be sent in either form.
pub(super) struct Answer {
    id: String,
    model: String,
    blocks: Vec<Value>,
}

/// One event of the stream: its name and its data.
pub(crate) type Event = (&'static str, Value);

impl Answer {
    pub(super) fn new(step: &Step, model: &str) -> Self {
        let mut blocks = Vec::new();
        if let Some(thinking) = &step.thinking {
            blocks.push(
                json!({"type": "thinking", "thinking": thinking, "signature": "c3RhbmQtaW4="}),
            );
        }
        if let Some(text) = &step.text {
            blocks.push(json!({"type": "text", "text": text}));
        }
        for tool in &step.tools {
            blocks.push(
                json!({"type": "tool_use", "id": id("toolu_"), "name": tool.0, "input": tool.1}),
            );
        }
        Self { id: id("msg_"), model: model.to_owned(), blocks }
    }

    fn stop_reason(&self) -> &'static str {
        if self.blocks.iter().any(|block| block["type"] == "tool_use") {
            "tool_use"
        } else {
            "end_turn"
        }
    }

    fn message(&self, content: Value, stop_reason: Value, output_tokens: u64) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop_reason, "stop_sequence": null,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": output_tokens,
                      "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
        })
    }

    /// Returns the plain JSON form.
    pub(super) fn whole(&self) -> Value {
        self.message(json!(self.blocks), json!(self.stop_reason()), OUTPUT_TOKENS)
    }

    /// Returns the stream up to the end of the content, with deltas of `chunk` characters.
    pub(super) fn content_events(&self, chunk: Option<usize>) -> Vec<Event> {
        let start =
            json!({"type": "message_start", "message": self.message(json!([]), Value::Null, 1)});
        let mut events = vec![("message_start", start)];
        for (index, block) in self.blocks.iter().enumerate() {
            let (empty, deltas) = pieces(block, chunk);
            events.push((
                "content_block_start",
                json!({"type": "content_block_start", "index": index, "content_block": empty}),
            ));
            for delta in deltas {
                let data = json!({"type": "content_block_delta", "index": index, "delta": delta});
                events.push(("content_block_delta", data));
            }
            events.push((
                "content_block_stop",
                json!({"type": "content_block_stop", "index": index}),
            ));
        }
        events
    }

    /// Returns the end of the stream.
    pub(super) fn closing_events(&self) -> Vec<Event> {
        let delta = json!({
            "type": "message_delta", "delta": {"stop_reason": self.stop_reason(), "stop_sequence": null},
            "usage": {"output_tokens": OUTPUT_TOKENS},
        });
        vec![("message_delta", delta), ("message_stop", json!({"type": "message_stop"}))]
    }
}

/// Splits a block into its empty beginning and its deltas.
fn pieces(block: &Value, chunk: Option<usize>) -> (Value, Vec<Value>) {
    let text_of = |key: &str| block[key].as_str().unwrap_or_default();
    match block["type"].as_str() {
        Some("thinking") => {
            let mut deltas: Vec<_> = split(text_of("thinking"), chunk)
                .map(|part| json!({"type": "thinking_delta", "thinking": part}))
                .collect();
            deltas.push(json!({"type": "signature_delta", "signature": text_of("signature")}));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
        }
        Some("tool_use") => {
            let input = block["input"].to_string();
            let deltas = split(&input, chunk)
                .map(|part| json!({"type": "input_json_delta", "partial_json": part}));
            (
                json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                deltas.collect(),
            )
        }
        _ => {
            let deltas = split(text_of("text"), chunk)
                .map(|part| json!({"type": "text_delta", "text": part}));
            (json!({"type": "text", "text": ""}), deltas.collect())
        }
    }
}

/// Cuts a text into pieces of `chunk` characters.
pub(crate) fn split(text: &str, chunk: Option<usize>) -> impl Iterator<Item = &str> {
    let size = chunk.unwrap_or(usize::MAX).max(1);
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}

fn id(prefix: &str) -> String {
    format!("{prefix}{}", &Uuid::new_v4().simple().to_string()[..24])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_put_together_are_the_block() {
        let step = Step::text("héllo wörld").thinking("hmm").and_bash("echo 'ü'").slowly(3, 0);
        let answer = Answer::new(&step, "m");
        let mut text = String::new();
        let mut json = String::new();
        for (_, data) in answer.content_events(step.chunk) {
            text += data["delta"]["text"].as_str().unwrap_or_default();
            json += data["delta"]["partial_json"].as_str().unwrap_or_default();
        }
        assert_eq!(text, "héllo wörld");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), step.tools[0].1);
        assert_eq!(answer.whole()["stop_reason"], "tool_use");
    }

    #[test]
    fn an_empty_text_has_no_delta() {
        assert_eq!(split("", Some(3)).count(), 0);
        assert_eq!(split("abcdefg", Some(3)).collect::<Vec<_>>(), ["abc", "def", "g"]);
    }
}

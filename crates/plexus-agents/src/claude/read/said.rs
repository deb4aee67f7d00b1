//! What the model says and what tools give back: `assistant` and `user` lines.

use claude_code::event::message::{
    AssistantMessage, ContentBlock, MessageContent, ToolResult, UserMessage,
};
use claude_code::{ClaudeStreamJsonEvent, RawJson};
use plexus_store::JsonText;
use serde_json::Value;

use plexus_engine::driver::{AcceptedBy, Step};
use plexus_wire::ChatEvent;

/// Translates an `assistant` line: one event for each block.
pub(super) fn assistant(line: &ClaudeStreamJsonEvent, message: &AssistantMessage) -> Vec<Step> {
    let of_subagent = message.meta.parent_tool_use_id.is_some();
    let synthetic = message.meta.is_api_error_message == Some(true)
        || message.message.model.as_deref() == Some("<synthetic>");
    let text_of = |text: &str| match (synthetic, of_subagent) {
        (true, _) => Step::Event(ChatEvent::notice(text)),
        (false, true) => passthrough(line, "assistant/subagent"),
        (false, false) => Step::Event(ChatEvent::Content { text: text.to_owned() }),
    };
    let blocks = match &message.message.content {
        MessageContent::Text(text) => return vec![text_of(text.as_str())],
        MessageContent::Blocks(blocks) => blocks,
        MessageContent::Other(_) => return vec![passthrough(line, "assistant")],
    };
    let steps = blocks.iter().map(|block| match block {
        ContentBlock::Text(text) => text_of(text.as_str()),
        ContentBlock::Thinking(thinking) if !of_subagent => {
            Step::Event(ChatEvent::Thinking { thinking: thinking.thinking.as_str().to_owned() })
        }
        ContentBlock::ToolUse(tool) | ContentBlock::ServerToolUse(tool) => {
            Step::Event(ChatEvent::ToolUse {
                tool_name: tool.name.as_str().to_owned(),
                tool_use_id: tool.id.as_str().to_owned(),
                input: as_json(&tool.input).into(),
            })
        }
        _ => passthrough(line, "assistant"),
    });
    steps.collect()
}

/// Translates a `user` line: results of tools, and text that the CLI writes in the user's name.
pub(super) fn user(line: &ClaudeStreamJsonEvent, message: &UserMessage) -> Vec<Step> {
    if message.meta.is_replay == Some(true) {
        return Vec::new();
    }
    let mut steps = Vec::new();
    for meta in &message.meta.tool_result_meta {
        let decision = meta.permission_decision.as_ref();
        let accepted = decision.filter(|decision| decision.decision.as_deref() == Some("accept"));
        if let (Some(id), Some(decision)) = (&meta.id, accepted) {
            // An acceptance without a source is one that nobody here gave.
            let by = match decision.source.as_ref().map(|source| source.as_str()) {
                Some("config") => AcceptedBy::Configuration,
                Some("hook") => AcceptedBy::Hook,
                other => AcceptedBy::Other(other.unwrap_or("nobody named").to_owned()),
            };
            steps.push(Step::Accepted { tool_use_id: id.as_str().to_owned(), by });
        }
    }
    // The task of a subagent and the summary of a compaction are long and meant for the model; an
    // interruption is for the reader.
    let for_the_model =
        message.meta.parent_tool_use_id.is_some() || message.meta.is_synthetic == Some(true);
    let words = |text: &str| {
        if for_the_model { passthrough(line, "user") } else { Step::Event(ChatEvent::notice(text)) }
    };
    match &message.message.content {
        MessageContent::Text(text) => steps.push(words(text.as_str())),
        MessageContent::Blocks(blocks) => {
            for block in blocks {
                match block {
                    ContentBlock::ToolResult(result) => {
                        steps.push(Step::Event(tool_result(line, result)));
                        steps.push(Step::Finished {
                            tool_use_id: result.tool_use_id.as_str().to_owned(),
                        });
                    }
                    ContentBlock::Text(text) => steps.push(words(text.as_str())),
                    _ => steps.push(passthrough(line, "user")),
                }
            }
        }
        MessageContent::Other(_) => steps.push(passthrough(line, "user")),
    }
    steps
}

fn tool_result(line: &ClaudeStreamJsonEvent, result: &ToolResult) -> ChatEvent {
    let is_text =
        |blocks: &[ContentBlock]| blocks.iter().all(|block| matches!(block, ContentBlock::Text(_)));
    let output = match &result.content {
        MessageContent::Text(text) => JsonText::from(Value::from(text.as_str())),
        MessageContent::Blocks(blocks) if is_text(blocks) => {
            JsonText::from(Value::from(result.content.text()))
        }
        MessageContent::Blocks(_) => blocks_as_written(line, result.tool_use_id.as_str()),
        MessageContent::Other(raw) => as_json(raw),
    };
    ChatEvent::ToolResult {
        tool_use_id: result.tool_use_id.as_str().to_owned(),
        output: output.into(),
        is_error: result.is_error.unwrap_or(false),
    }
}

/// Keeps blocks that are not only text (images, references to tools) as the CLI wrote them.
fn blocks_as_written(line: &ClaudeStreamJsonEvent, tool_use_id: &str) -> JsonText {
    let whole = as_json(line.raw_json()).to_value();
    if whole.is_string() {
        // It is not valid JSON, and is kept as text.
        return JsonText::from(whole);
    }
    let blocks = whole["message"]["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = blocks.iter().find(|block| block["tool_use_id"] == tool_use_id);
    JsonText::from(found.map_or(Value::Null, |block| block["content"].clone()))
}

/// Keeps a line that has no translation, unchanged.
pub(super) fn passthrough(line: &ClaudeStreamJsonEvent, event_type: &str) -> Step {
    Step::Event(ChatEvent::Passthrough {
        event_type: event_type.to_owned(),
        data: as_json(line.raw_json()).into(),
    })
}

/// Keeps JSON of the CLI as it was written. Text that our parser refuses is kept as a string.
pub(super) fn as_json(raw: &RawJson) -> JsonText {
    JsonText::parse(raw.get()).unwrap_or_else(|_| JsonText::from(Value::from(raw.get())))
}

//! The conversation before a fork, for an editor that opens a forked session. It is in the tree and
//! not among the session's own events, so it is shown from what the model would read.

use plexus_client::wire::{Block, ChatEvent, Message, Role};

/// One thing of an earlier conversation.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Told {
    Prompt(String),
    Event(ChatEvent),
}

/// Turns a conversation into what a reader of its events would have seen.
pub(crate) fn told(messages: Vec<Message>) -> Vec<Told> {
    let mut all = Vec::new();
    for message in messages {
        for block in message.content {
            let Some(block) = block.known().cloned() else { continue };
            all.push(match block {
                Block::Text { text } if message.role == Role::User => Told::Prompt(text),
                Block::Text { text } => Told::Event(ChatEvent::Content { text }),
                Block::Thinking { thinking } => Told::Event(ChatEvent::Thinking { thinking }),
                Block::ToolUse { id, name, input } => {
                    Told::Event(ChatEvent::ToolUse { tool_name: name, tool_use_id: id, input })
                }
                Block::ToolResult { tool_use_id, content, is_error } => {
                    Told::Event(ChatEvent::ToolResult { tool_use_id, output: content, is_error })
                }
                Block::Pruned { was } => Told::Event(ChatEvent::Pruned { was }),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_conversation_is_told_as_its_events_were() {
        let messages: Vec<Message> = serde_json::from_value(json!([
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "yes"},
                {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "a", "is_error": false}]},
        ]))
        .unwrap();
        let kinds: Vec<String> = told(messages)
            .iter()
            .map(|told| match told {
                Told::Prompt(text) => format!("prompt {text}"),
                Told::Event(event) => event.type_name().to_owned(),
            })
            .collect();
        assert_eq!(kinds, ["prompt go", "content", "tool_use", "tool_result"]);
    }
}

//! `render_context`: the conversation as messages, from the session's tree.

use plexus_core::{Call, CallError, EventId};
use plexus_store::{Node, NodeData, limits};
use serde_json::{Value, json};

use super::ClaudeCode;
use crate::claudecode::params::RenderParams;
use crate::claudecode::results::{Message, Rendered};

impl ClaudeCode {
    pub(super) async fn render_context(
        &self,
        call: Call,
        params: RenderParams,
    ) -> Result<Rendered, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let end = params.end.unwrap_or(session.head);
        // Nodes of other trees are other people's conversations.
        for id in [Some(end), params.start].into_iter().flatten() {
            self.node_of(&session, id).await?;
        }
        let nodes = match params.start {
            Some(start) => self.core.store.path_between(start, end).await?,
            None => self.core.store.path(end, limits::MAX_PATH_NODES).await?,
        };
        let mut messages = Vec::new();
        for node in &nodes {
            if let Some((role, block)) = self.block_of(node).await? {
                push(&mut messages, role, block);
            }
        }
        Ok(Rendered { messages })
    }

    /// What a node contributes to the conversation, if anything.
    async fn block_of(&self, node: &Node) -> Result<Option<(&'static str, Value)>, CallError> {
        let handle = match &node.data {
            NodeData::Text { content } if content.is_empty() => return Ok(None),
            NodeData::Text { content } => {
                return Ok(Some(("user", json!({"type": "text", "text": content}))));
            }
            NodeData::External { handle } => handle,
        };
        let (Some(id), Some(kind)) = (handle.meta.first(), handle.meta.get(1)) else {
            return Ok(None);
        };
        if handle.method != "chat_event"
            || !matches!(kind.as_str(), "content" | "thinking" | "tool_use" | "tool_result")
        {
            return Ok(None);
        }
        let Ok(id) = id.parse::<EventId>() else { return Ok(None) };
        let event = self.core.store.event(id).await?.body.to_value();
        Ok(Some(match kind.as_str() {
            "content" => ("assistant", json!({"type": "text", "text": event["text"]})),
            "thinking" => ("assistant", json!({"type": "thinking", "thinking": event["thinking"]})),
            "tool_use" => (
                "assistant",
                json!({"type": "tool_use", "id": event["tool_use_id"], "name": event["tool_name"], "input": event["input"]}),
            ),
            _ => (
                "user",
                json!({"type": "tool_result", "tool_use_id": event["tool_use_id"], "content": event["output"], "is_error": event["is_error"]}),
            ),
        }))
    }
}

/// Blocks of one role in a row are one message.
fn push(messages: &mut Vec<Message>, role: &'static str, block: Value) {
    match messages.last_mut() {
        Some(last) if last.role == role => last.content.push(block),
        _ => messages.push(Message { role, content: vec![block] }),
    }
}

//! `render_context`: the conversation as messages, from the session's tree.

use plexus_core::{Call, CallError, Caller, ErrorKind, EventId, Handle};
use plexus_engine::handles;
use plexus_engine::session::SessionConfig;
use plexus_store::{Node, NodeData, SessionRecord, limits};
use plexus_wire::{Block, ChatEvent, ForkedFrom, Message, RenderParams, Rendered, Role};

use super::ClaudeCode;

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
            Some(start) => self.store.path_between(start, end).await?,
            None => self.store.path(end, limits::MAX_PATH_NODES).await?,
        };
        let mut messages = Vec::new();
        for node in &nodes {
            if let Some((role, block)) = self.block_of(node).await? {
                push(&mut messages, role, block, handle_of(node));
            }
        }
        let forked_from = self.forked_from(&call.caller, &session).await?;
        Ok(Rendered { messages, parent: session.parent, forked_from })
    }

    /// Returns the session that this one was forked from; `None` also when that session was deleted
    /// or the caller may not see it.
    async fn forked_from(
        &self,
        caller: &Caller,
        session: &SessionRecord,
    ) -> Result<Option<ForkedFrom>, CallError> {
        let Some(source) = session.forked_from else { return Ok(None) };
        match self.authority.reach(caller, source).await {
            Ok(source) => Ok(Some(ForkedFrom {
                session_id: source.id,
                handle: handles::session(&SessionConfig::of(&source)?.agent, source.id),
                name: source.name,
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What a node contributes to the conversation, if anything.
    async fn block_of(&self, node: &Node) -> Result<Option<(Role, Block)>, CallError> {
        let handle = match &node.data {
            NodeData::Text { content } if content.is_empty() => return Ok(None),
            NodeData::Text { content } => {
                return Ok(Some((Role::User, Block::Text { text: content.clone() })));
            }
            NodeData::Pruned {} => {
                return Ok(Some((Role::User, Block::Pruned { was: "prompt".to_owned() })));
            }
            NodeData::External { handle } => handle,
        };
        let (Some(id), Some(kind)) = (handle.meta.first(), handle.meta.get(1)) else {
            return Ok(None);
        };
        if handle.method != "chat_event"
            || !matches!(
                kind.as_str(),
                "content" | "thinking" | "tool_use" | "tool_result" | "steered"
            )
        {
            return Ok(None);
        }
        let Ok(id) = id.parse::<EventId>() else { return Ok(None) };
        Ok(match self.store.event(id).await?.body.read()? {
            ChatEvent::Content { text } => Some((Role::Assistant, Block::Text { text })),
            ChatEvent::Thinking { thinking } => {
                Some((Role::Assistant, Block::Thinking { thinking }))
            }
            ChatEvent::ToolUse { tool_name, tool_use_id, input } => {
                Some((Role::Assistant, Block::ToolUse { id: tool_use_id, name: tool_name, input }))
            }
            ChatEvent::ToolResult { tool_use_id, output, is_error } => {
                Some((Role::User, Block::ToolResult { tool_use_id, content: output, is_error }))
            }
            ChatEvent::Steered { text, .. } => Some((Role::User, Block::Text { text })),
            ChatEvent::Pruned { was } => {
                let users = matches!(was.as_str(), "tool_result" | "steered");
                let role = if users { Role::User } else { Role::Assistant };
                Some((role, Block::Pruned { was }))
            }
            ChatEvent::Start { .. }
            | ChatEvent::AwaitingApproval { .. }
            | ChatEvent::ApprovalResolved { .. }
            | ChatEvent::ToolRequest { .. }
            | ChatEvent::Notice { .. }
            | ChatEvent::Passthrough { .. }
            | ChatEvent::Complete { .. }
            | ChatEvent::Error { .. }
            | ChatEvent::Other(_) => None,
        })
    }
}

/// What a block came from: the event, or the node that holds a prompt.
fn handle_of(node: &Node) -> Handle {
    match &node.data {
        NodeData::External { handle } => handle.clone(),
        NodeData::Text { .. } | NodeData::Pruned {} => handles::node(node.id),
    }
}

/// Blocks of one role in a row are one message.
fn push(messages: &mut Vec<Message>, role: Role, block: Block, handle: Handle) {
    match messages.last_mut() {
        Some(last) if last.role == role => {
            last.content.push(block.into());
            last.handles.push(handle);
        }
        _ => messages.push(Message {
            role: role.into(),
            content: vec![block.into()],
            handles: vec![handle],
        }),
    }
}

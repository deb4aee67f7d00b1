//! Tool events: the tool, its use, its outcome and the size of its output, never the contents.

use std::collections::HashMap;

use claude_code::event::message::{
    ContentBlock, MessageContent, ServerToolResult, ToolResult, ToolUse,
};

use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind,
    backends::shared::tool::{MAX_OPEN_USES, ToolFacet},
};

/// The tool uses that have no result yet.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// The name of the tool by the id of the use, because a result names only the use.
    open: HashMap<String, String>,
}

impl Tools {
    pub(super) fn call(
        &mut self,
        kind: &AgentWrapperKind,
        tool: &ToolUse,
        message_id: Option<&str>,
        parent: Option<&str>,
    ) -> AgentWrapperEvent {
        if self.open.len() < MAX_OPEN_USES {
            self.open.insert(tool.id.to_string(), tool.name.to_string());
        }
        let facet = ToolFacet {
            name: Some(&tool.name),
            use_id: Some(&tool.id),
            turn_id: message_id,
            thread_id: parent,
            ..ToolFacet::started("tool_use")
        };
        facet.on(AgentWrapperEventKind::ToolCall, kind)
    }

    pub(super) fn result(
        &mut self,
        kind: &AgentWrapperKind,
        result: &ToolResult,
        parent: Option<&str>,
    ) -> AgentWrapperEvent {
        let failed = result.is_error == Some(true);
        self.came_back(
            kind,
            Some(&result.tool_use_id),
            failed,
            content_bytes(&result.content),
            parent,
        )
    }

    pub(super) fn server_result(
        &mut self,
        kind: &AgentWrapperKind,
        result: &ServerToolResult,
        parent: Option<&str>,
    ) -> AgentWrapperEvent {
        let bytes = result.content.as_ref().map_or(0, |content| content.get().len());
        self.came_back(kind, result.tool_use_id.as_deref(), false, bytes, parent)
    }

    fn came_back(
        &mut self,
        kind: &AgentWrapperKind,
        use_id: Option<&str>,
        failed: bool,
        result_bytes: usize,
        parent: Option<&str>,
    ) -> AgentWrapperEvent {
        let name = use_id.and_then(|id| self.open.remove(id));
        let facet = ToolFacet {
            name: name.as_deref(),
            use_id,
            thread_id: parent,
            result_bytes,
            ..ToolFacet::ended("tool_result", failed)
        };
        facet.on(AgentWrapperEventKind::ToolResult, kind)
    }
}

/// Counts the bytes of the output.
fn content_bytes(content: &MessageContent) -> usize {
    let block_bytes = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => text.len(),
        ContentBlock::Image(raw) | ContentBlock::Document(raw) | ContentBlock::Unknown(raw) => {
            raw.get().len()
        }
        _ => 0,
    };
    match content {
        MessageContent::Text(text) => text.len(),
        MessageContent::Blocks(blocks) => blocks.iter().map(block_bytes).sum(),
        MessageContent::Other(raw) => raw.get().len(),
    }
}

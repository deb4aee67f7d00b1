//! Tool events: which tool, which use, how it went and how much came back; never what.

use std::collections::HashMap;

use claude_code::event::message::{
    ContentBlock, MessageContent, ServerToolResult, ToolResult, ToolUse,
};
use serde_json::{Value, json};

use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind, capabilities::TOOLS_STRUCTURED,
};

/// Uses whose result may still come. Far more than a model starts at once; beyond it a result lacks its tool's name.
const MAX_OPEN_USES: usize = 1_024;

/// The uses whose result has not come yet.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// The name of the tool by the id of the use: a result names only the use.
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
        let facet = Facet {
            kind: "tool_use",
            phase: "start",
            status: "running",
            name: Some(&tool.name),
            use_id: Some(&tool.id),
            message_id,
            parent,
            result_bytes: 0,
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
        let (phase, status) = if failed { ("fail", "failed") } else { ("complete", "completed") };
        let name = name.as_deref();
        let facet = Facet {
            kind: "tool_result",
            phase,
            status,
            name,
            use_id,
            message_id: None,
            parent,
            result_bytes,
        };
        facet.on(AgentWrapperEventKind::ToolResult, kind)
    }
}

/// What a tool event tells.
struct Facet<'a> {
    kind: &'static str,
    phase: &'static str,
    status: &'static str,
    name: Option<&'a str>,
    use_id: Option<&'a str>,
    message_id: Option<&'a str>,
    /// The use whose subagent does this.
    parent: Option<&'a str>,
    result_bytes: usize,
}

impl Facet<'_> {
    fn on(&self, event: AgentWrapperEventKind, kind: &AgentWrapperKind) -> AgentWrapperEvent {
        let bare = AgentWrapperEvent::bare(kind, event);
        AgentWrapperEvent { channel: Some("tool".to_owned()), ..bare }.with_data(self.json())
    }

    fn json(&self) -> Value {
        json!({
            "schema": TOOLS_STRUCTURED,
            "tool": {
                "backend_item_id": self.use_id,
                "thread_id": self.parent,
                "turn_id": self.message_id,
                "kind": self.kind,
                "phase": self.phase,
                "status": self.status,
                "exit_code": null,
                "bytes": {"stdout": 0, "stderr": 0, "diff": 0, "result": self.result_bytes},
                "tool_name": self.name,
                "tool_use_id": self.use_id,
            },
        })
    }
}

/// Counts what came back.
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

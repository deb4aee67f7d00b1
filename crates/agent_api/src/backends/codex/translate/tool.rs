//! Tool calls: their names, outcomes and output sizes, never their contents.

use std::collections::HashMap;

use codex_app::{
    ServerLine,
    event::{
        Item, ItemBody,
        item::{FileChange, ToolStatus},
    },
};

use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind,
    backends::shared::tool::{MAX_OPEN_USES, ToolFacet},
};

/// The calls that have not ended.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// How many calls are open for each id, which the model chooses and may repeat.
    open: HashMap<String, usize>,
}

impl Tools {
    /// Returns the event of a call that was announced; `None` for an item that is not a call.
    pub(super) fn started(
        &mut self,
        kind: &AgentWrapperKind,
        item: &Item,
        line: &ServerLine,
    ) -> Option<AgentWrapperEvent> {
        let name = name(&item.body)?;
        if self.open.len() < MAX_OPEN_USES {
            *self.open.entry(item.id.to_string()).or_default() += 1;
        }
        let facet = facet(item, line, ToolFacet::started("tool_use"));
        Some(ToolFacet { name: Some(&name), ..facet }.on(AgentWrapperEventKind::ToolCall, kind))
    }

    /// Returns the events of a call that has ended: its result, and before it the call itself if it
    /// was not announced. Empty for an item that is not a call.
    pub(super) fn completed(
        &mut self,
        kind: &AgentWrapperKind,
        item: &Item,
        line: &ServerLine,
    ) -> Vec<AgentWrapperEvent> {
        let Some(name) = name(&item.body) else { return Vec::new() };
        let mut events = Vec::new();
        match self.open.get_mut(item.id.as_str()) {
            Some(1) => drop(self.open.remove(item.id.as_str())),
            Some(count) => *count -= 1,
            None => {
                let facet = facet(item, line, ToolFacet::started("tool_use"));
                let call = ToolFacet { name: Some(&name), ..facet };
                events.push(call.on(AgentWrapperEventKind::ToolCall, kind));
            }
        }
        let ended = ToolFacet::ended("tool_result", failed(&item.body));
        let facet = ToolFacet { name: Some(&name), ..facet(item, line, ended) };
        let facet = measured(facet, &item.body);
        events.push(facet.on(AgentWrapperEventKind::ToolResult, kind));
        events
    }
}

/// Adds the ids of the call, its turn and its thread.
fn facet<'a>(item: &'a Item, line: &'a ServerLine, facet: ToolFacet<'a>) -> ToolFacet<'a> {
    ToolFacet {
        use_id: Some(&item.id),
        turn_id: line.turn_id.as_deref(),
        thread_id: line.thread_id.as_deref(),
        ..facet
    }
}

/// Returns the name of the tool; `None` for an item that is not a call.
fn name(body: &ItemBody) -> Option<String> {
    Some(match body {
        ItemBody::CommandExecution(_) => "shell".to_owned(),
        ItemBody::FileChange(_) => "apply_patch".to_owned(),
        ItemBody::McpToolCall(call) => format!("{}.{}", call.server, call.tool),
        ItemBody::DynamicToolCall(call) | ItemBody::CollabAgentToolCall(call) => {
            call.tool.to_string()
        }
        ItemBody::WebSearch(_) => "web_search".to_owned(),
        ItemBody::ImageView(_) => "view_image".to_owned(),
        ItemBody::UserMessage(_)
        | ItemBody::AgentMessage(_)
        | ItemBody::Reasoning(_)
        | ItemBody::Plan(_)
        | ItemBody::ContextCompaction
        | ItemBody::SubAgentActivity(_)
        | ItemBody::Untyped { .. }
        | ItemBody::Unknown { .. } => return None,
    })
}

/// Returns whether a call that has ended did not succeed. An item without a status cannot fail.
fn failed(body: &ItemBody) -> bool {
    let status = match body {
        ItemBody::CommandExecution(command) => command.status,
        ItemBody::FileChange(change) => change.status,
        ItemBody::McpToolCall(call) => call.status,
        ItemBody::DynamicToolCall(call) | ItemBody::CollabAgentToolCall(call) => call.status,
        _ => return false,
    };
    status != ToolStatus::Completed
}

/// Adds the sizes of the output.
fn measured<'a>(facet: ToolFacet<'a>, body: &ItemBody) -> ToolFacet<'a> {
    match body {
        ItemBody::CommandExecution(command) => ToolFacet {
            exit_code: command.exit_code,
            stdout_bytes: command.aggregated_output.as_deref().map_or(0, str::len),
            ..facet
        },
        ItemBody::FileChange(FileChange { changes, .. }) => {
            ToolFacet { diff_bytes: changes.iter().map(|change| change.diff.len()).sum(), ..facet }
        }
        ItemBody::McpToolCall(call) => ToolFacet {
            result_bytes: call.result.as_ref().map_or(0, |result| result.get().len()),
            ..facet
        },
        _ => facet,
    }
}

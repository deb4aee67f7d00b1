//! Calls of tools: which, how they went and how much came back; never what.

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

/// The calls that are not over.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// How many are open of each id, which the model makes and may repeat.
    open: HashMap<String, usize>,
}

impl Tools {
    /// The event of a call that was announced; none for an item that is no call.
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

    /// The events of a call that is over: its result, and before it the call itself if nobody told
    /// of it. None for an item that is no call.
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

/// Which call, in which turn of which thread.
fn facet<'a>(item: &'a Item, line: &'a ServerLine, facet: ToolFacet<'a>) -> ToolFacet<'a> {
    ToolFacet {
        use_id: Some(&item.id),
        turn_id: line.turn_id.as_deref(),
        thread_id: line.thread_id.as_deref(),
        ..facet
    }
}

/// The name of the tool; none for an item that is no call.
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

/// Whether a call that is over did not do what it was for. What has no status has no way to fail.
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

/// Counts what came back.
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

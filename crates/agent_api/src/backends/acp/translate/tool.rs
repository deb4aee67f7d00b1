//! Tool calls: their names, outcomes and output sizes, never their contents.

use std::collections::{HashMap, VecDeque};

use acp_lines::{ToolStatus, event::tool::ToolCall};

use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind,
    backends::shared::tool::{MAX_OPEN_USES, ToolFacet},
};

/// The name of a tool whose agent reports neither its name nor its kind.
const NAMELESS: &str = "tool";

/// The calls of a run. Agents report a call in several lines, and some continue after its end.
#[derive(Debug, Default)]
pub(super) struct Tools {
    session_id: Option<String>,
    /// The calls that have not ended, with the names of their tools.
    open: HashMap<String, String>,
    /// The calls that ended last.
    ended: VecDeque<String>,
}

impl Tools {
    /// Sets the session that the calls belong to.
    pub(super) fn session(&mut self, id: &str) {
        self.session_id = Some(id.to_owned());
    }

    /// Returns the events of a call that begins. It may reuse the id of an earlier call.
    pub(super) fn began(
        &mut self,
        kind: &AgentWrapperKind,
        call: &ToolCall,
    ) -> Vec<AgentWrapperEvent> {
        self.ended.retain(|id| *id != *call.tool_call_id);
        self.updated(kind, call)
    }

    /// Returns the events of an update of a call: the call itself if it is new, and its result once
    /// it has ended.
    pub(super) fn updated(
        &mut self,
        kind: &AgentWrapperKind,
        call: &ToolCall,
    ) -> Vec<AgentWrapperEvent> {
        let id = call.tool_call_id.as_str();
        if id.is_empty() || self.ended.iter().any(|ended| ended == id) {
            return Vec::new();
        }
        let mut events = Vec::new();
        if !self.open.contains_key(id) {
            if self.open.len() >= MAX_OPEN_USES {
                return Vec::new();
            }
            let name = name(call);
            let facet = self.facet(id, &name, ToolFacet::started("tool_use"));
            events.push(facet.on(AgentWrapperEventKind::ToolCall, kind));
            self.open.insert(id.to_owned(), name);
        }
        let is_failed = match call.status {
            Some(ToolStatus::Completed) => false,
            Some(ToolStatus::Failed) => true,
            Some(ToolStatus::Pending | ToolStatus::InProgress) | None => return events,
        };
        let name = self.open.remove(id).unwrap_or_default();
        let facet = self.facet(id, &name, ToolFacet::ended("tool_result", is_failed));
        let result = measured(facet, call).on(AgentWrapperEventKind::ToolResult, kind);
        events.push(result);
        if self.ended.len() == MAX_OPEN_USES {
            self.ended.pop_front();
        }
        self.ended.push_back(id.to_owned());
        events
    }

    fn facet<'a>(&'a self, id: &'a str, name: &'a str, facet: ToolFacet<'a>) -> ToolFacet<'a> {
        ToolFacet {
            name: Some(name),
            use_id: Some(id),
            thread_id: self.session_id.as_deref(),
            ..facet
        }
    }
}

/// Returns the name of the tool, or its kind. A title is not a name, because agents put commands
/// and paths there.
fn name(call: &ToolCall) -> String {
    let kind = || call.kind.map(|kind| kind.as_str());
    call.tool_name().or_else(kind).unwrap_or(NAMELESS).to_owned()
}

/// Adds the sizes of the output.
fn measured<'a>(facet: ToolFacet<'a>, call: &ToolCall) -> ToolFacet<'a> {
    let content = call.content.iter().flatten();
    ToolFacet {
        result_bytes: call.raw_output.as_ref().map_or(0, |output| output.get().len()),
        diff_bytes: content.filter_map(|part| Some(part.new_text.as_ref()?.len())).sum(),
        ..facet
    }
}

//! Calls of tools: which, how they went and how much came back; never what.

use std::collections::{HashMap, VecDeque};

use acp_lines::{ToolStatus, event::tool::ToolCall};

use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind,
    backends::shared::tool::{MAX_OPEN_USES, ToolFacet},
};

/// The name of a tool whose agent says neither its name nor its kind.
const NAMELESS: &str = "tool";

/// The calls of a run. Agents tell of one in several lines, and may go on when it is over.
#[derive(Debug, Default)]
pub(super) struct Tools {
    session_id: Option<String>,
    /// The calls that are not over, with the names of their tools.
    open: HashMap<String, String>,
    /// The last ones that are over.
    ended: VecDeque<String>,
}

impl Tools {
    /// Notes the session that calls belong to.
    pub(super) fn session(&mut self, id: &str) {
        self.session_id = Some(id.to_owned());
    }

    /// The events of a call that begins. Its id may be that of an earlier one.
    pub(super) fn began(
        &mut self,
        kind: &AgentWrapperKind,
        call: &ToolCall,
    ) -> Vec<AgentWrapperEvent> {
        self.ended.retain(|id| *id != *call.tool_call_id);
        self.updated(kind, call)
    }

    /// The events of something new about a call: the call itself if nobody told of it, and its
    /// result once it is over.
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

/// The name of the tool, or the kind of thing that it does: a title is no name, because agents put
/// commands and paths there.
fn name(call: &ToolCall) -> String {
    let kind = || call.kind.map(|kind| kind.as_str());
    call.tool_name().or_else(kind).unwrap_or(NAMELESS).to_owned()
}

/// Counts what came back.
fn measured<'a>(facet: ToolFacet<'a>, call: &ToolCall) -> ToolFacet<'a> {
    let content = call.content.iter().flatten();
    ToolFacet {
        result_bytes: call.raw_output.as_ref().map_or(0, |output| output.get().len()),
        diff_bytes: content.filter_map(|part| Some(part.new_text.as_ref()?.len())).sum(),
        ..facet
    }
}

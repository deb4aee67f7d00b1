//! Helpers for the tests of translations.

use crate::{AgentWrapperEvent, AgentWrapperEventKind};

/// Returns the text of all events, joined.
pub(crate) fn text(events: &[AgentWrapperEvent]) -> String {
    events.iter().filter_map(|event| event.text.as_deref()).collect()
}

/// Returns the tool events, each with the tool's name and status.
pub(crate) fn tools(events: &[AgentWrapperEvent]) -> Vec<(AgentWrapperEventKind, String, String)> {
    let is_tool =
        |kind| matches!(kind, AgentWrapperEventKind::ToolCall | AgentWrapperEventKind::ToolResult);
    events
        .iter()
        .filter(|event| is_tool(event.kind))
        .map(|event| {
            let tool = &event.data.as_ref().unwrap()["tool"];
            let word = |name: &str| tool[name].as_str().unwrap().to_owned();
            (event.kind, word("tool_name"), word("status"))
        })
        .collect()
}

//! Tool events: the tool, its use, its outcome and the size of its output, never the contents.

use serde_json::{Value, json};

use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind, capabilities::TOOLS_STRUCTURED,
};

/// How many uses may be open: far more than a model starts at once. Beyond the limit a backend may
/// leave out the name of a tool, leave out the use, or report it twice.
pub(crate) const MAX_OPEN_USES: usize = 1_024;

/// The metadata of a tool event.
#[derive(Debug, Default)]
pub(crate) struct ToolFacet<'a> {
    pub(crate) kind: &'static str,
    pub(crate) phase: &'static str,
    pub(crate) status: &'static str,
    pub(crate) name: Option<&'a str>,
    pub(crate) use_id: Option<&'a str>,
    /// The turn of the use, or its message for an agent that has no turns.
    pub(crate) turn_id: Option<&'a str>,
    /// The thread of the use: the conversation, or the use that started the subagent.
    pub(crate) thread_id: Option<&'a str>,
    pub(crate) exit_code: Option<i64>,
    pub(crate) stdout_bytes: usize,
    pub(crate) diff_bytes: usize,
    pub(crate) result_bytes: usize,
}

impl ToolFacet<'_> {
    /// Creates the facet of a tool use that begins.
    pub(crate) fn started(kind: &'static str) -> Self {
        Self { kind, phase: "start", status: "running", ..Self::default() }
    }

    /// Creates the facet of a tool use that has ended.
    pub(crate) fn ended(kind: &'static str, failed: bool) -> Self {
        let (phase, status) = if failed { ("fail", "failed") } else { ("complete", "completed") };
        Self { kind, phase, status, ..Self::default() }
    }

    /// Returns an event with this facet.
    pub(crate) fn on(
        &self,
        event: AgentWrapperEventKind,
        kind: &AgentWrapperKind,
    ) -> AgentWrapperEvent {
        let bare = AgentWrapperEvent::bare(kind, event);
        AgentWrapperEvent { channel: Some("tool".to_owned()), ..bare }.with_data(self.json())
    }

    fn json(&self) -> Value {
        json!({
            "schema": TOOLS_STRUCTURED,
            "tool": {
                "backend_item_id": self.use_id,
                "thread_id": self.thread_id,
                "turn_id": self.turn_id,
                "kind": self.kind,
                "phase": self.phase,
                "status": self.status,
                "exit_code": self.exit_code,
                "bytes": {
                    "stdout": self.stdout_bytes,
                    "stderr": 0,
                    "diff": self.diff_bytes,
                    "result": self.result_bytes,
                },
                "tool_name": self.name,
                "tool_use_id": self.use_id,
            },
        })
    }
}

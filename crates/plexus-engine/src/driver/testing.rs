//! A driver for the tests of the engine: an agent that says nothing of its own.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::*;

/// Reads no line and writes what it is told to.
pub(crate) struct Echo;

/// Remembers nothing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Nothing {}

impl Memory for Nothing {
    fn begin_turn(&mut self, _prompt: Option<Uuid>) {}

    fn steered(&mut self, _message: Uuid) {}

    fn end_turn(&mut self) {}

    fn report(&self) -> Report {
        Report::default()
    }
}

impl Driver for Echo {
    type Memory = Nothing;

    fn kind(&self) -> &'static str {
        "echo"
    }

    fn powers(&self) -> AgentPowers {
        AgentPowers::default()
    }

    fn identify(&self, _: &Path, _: VersionAnswer) -> Result<Identified, UnusableProgram> {
        Ok(Identified { label: "echo".to_owned(), channel: Channel::Control, asks_again: false })
    }

    fn begin(&self, _begin: &Begin<'_>) -> Nothing {
        Nothing {}
    }

    fn launch(&self, _launch: &Launch<'_>) -> Result<Plan, LaunchError> {
        Ok(Plan::default())
    }

    fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall {
        plexus_rules::notation::read(tool_name, input)
    }

    fn read(&self, _memory: &mut Nothing, _line: &LineContent) -> Vec<Step> {
        Vec::new()
    }

    fn write(&self, _memory: &Nothing, say: &Say<'_>) -> Vec<OutLine> {
        vec![OutLine::new(format!("{say:?}"))]
    }
}

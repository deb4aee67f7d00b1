//! Reads tool calls in one form for every agent, by the driver of the session's agent.

use plexus_core::CallError;
use plexus_rules::notation;
pub use plexus_rules::notation::NETWORK_TOOL;
use plexus_wire::{Answers, FIRST_AGENT, Question, ToolCall, ToolTarget};
use serde_json::Value;

use crate::agents::Agents;
use crate::session::SessionConfig;

/// Reads tool calls. Rules, authority, suggestions and risk all read what it returns.
#[derive(Clone)]
pub struct ToolReader {
    agents: Agents,
}

impl ToolReader {
    pub(crate) fn new(agents: Agents) -> Self {
        Self { agents }
    }

    /// Reads a call of a session that was created with `config`.
    #[must_use]
    pub fn read(&self, config: &SessionConfig, tool_name: &str, input: &Value) -> ToolCall {
        self.read_of(&config.agent, tool_name, input)
    }

    /// Reads what a call acts on, to show it; `None` when this server does not know the session's
    /// agent. A call to be judged is read with [`ToolReader::read`], which has a doubt then.
    #[must_use]
    pub fn target(
        &self,
        config: &SessionConfig,
        tool_name: &str,
        input: &Value,
    ) -> Option<ToolTarget> {
        self.agents.get(&config.agent).ok()?;
        Some(self.read(config, tool_name, input).target)
    }

    /// Reads a call of a session that does not exist yet and will name no agent.
    #[must_use]
    pub fn read_for_nobody(&self, tool_name: &str, input: &Value) -> ToolCall {
        self.read_of(FIRST_AGENT, tool_name, input)
    }

    /// Reads a question of the agent to its user; `None` for every other call.
    pub(crate) fn question(
        &self,
        config: &SessionConfig,
        tool_name: &str,
        input: &Value,
    ) -> Option<Question> {
        self.agents.get(&config.agent).ok()?.driver.question(tool_name, input)
    }

    /// Writes the input that carries the answers to such a question.
    ///
    /// # Errors
    /// When this agent cannot be told these answers.
    pub(crate) fn answered(
        &self,
        config: &SessionConfig,
        tool_name: &str,
        input: &Value,
        answers: &Answers,
    ) -> Result<Value, CallError> {
        let driver = &self.agents.get(&config.agent)?.driver;
        driver.answered(tool_name, input, answers).map_err(|words| {
            CallError::invalid(format_args!("answer: {words}")).with_field("answers")
        })
    }

    /// Reads the answers out of such an input.
    pub(crate) fn answers(
        &self,
        config: &SessionConfig,
        tool_name: &str,
        input: &Value,
    ) -> Option<Answers> {
        self.agents.get(&config.agent).ok()?.driver.answers(tool_name, input)
    }

    fn read_of(&self, agent: &str, tool_name: &str, input: &Value) -> ToolCall {
        // The wall asks this, whatever the agent is.
        if tool_name == NETWORK_TOOL {
            return notation::read(tool_name, input);
        }
        match self.agents.get(agent) {
            Ok(agent) => agent.driver.tool_call(tool_name, input),
            Err(_) => {
                let doubt = format!("this server does not know the agent {agent}");
                ToolCall::unknown(tool_name).doubted(Some(doubt))
            }
        }
    }
}

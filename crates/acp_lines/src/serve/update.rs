//! The updates and questions of an agent. Fields that a struct does not name are kept in `extra`
//! and written back.

use agent_lines::rpc_params;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::send::Block;
use crate::words::{OptionKind, ToolKind, ToolStatus};

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub enum Update {
    /// A part of a prompt, while a session is loaded or when another client sends a prompt.
    UserMessageChunk(Said),
    /// A part of the model's message.
    AgentMessageChunk(Said),
    /// A part of the model's thinking.
    AgentThoughtChunk(Said),
    /// A tool call begins. It must come before every update of the same call.
    ToolCall(Box<Called>),
    /// A tool call changes; fields that are left out are unchanged.
    ToolCallUpdate(Box<Called>),
    /// The agent's complete plan.
    Plan(Steps),
    /// The commands that a prompt can begin with, after `/`.
    AvailableCommandsUpdate(Commands),
    /// The session's mode has changed.
    CurrentModeUpdate(Mode),
    /// The session's options have changed.
    ConfigOptionUpdate(Options),
    /// The session's title.
    SessionInfoUpdate(Titled),
    /// How full the model's context is, and what the session cost.
    UsageUpdate(Used),
}

rpc_params! {
    /// A part of a message.
    pub struct Said {
        [
            /// The part.
            content: Block,
        ]
        /// The message that it belongs to.
        message_id: String,
    }

    /// A tool call, or the changes of one.
    pub struct Called {
        [
            /// The id of the call.
            tool_call_id: String,
        ]
        /// The title that is shown to a person. A `tool_call` needs one.
        title: String,
        /// What kind of tool it is.
        kind: ToolKind,
        /// The status of the call.
        status: ToolStatus,
        /// The visible output: `content`, `diff`.
        content: Vec<Value>,
        /// The files that it works on.
        locations: Vec<Value>,
        /// The arguments.
        raw_input: Value,
        /// The result of the tool.
        raw_output: Value,
    }

    /// The agent's plan.
    pub struct Steps {
        [
            /// The steps.
            entries: Vec<Value>,
        ]
    }

    /// The commands that a prompt can begin with, after `/`.
    pub struct Commands {
        [
            /// The commands.
            available_commands: Vec<Value>,
        ]
    }

    /// The mode in effect.
    pub struct Mode {
        [
            /// The mode.
            current_mode_id: String,
        ]
    }

    /// The options of a session.
    pub struct Options {
        [
            /// All of them.
            config_options: Vec<Value>,
        ]
    }

    /// A description of a session.
    pub struct Titled {
        /// Its title.
        title: String,
        /// When the session last changed.
        updated_at: String,
    }

    /// How full the model's context is.
    pub struct Used {
        [
            /// Tokens in the context.
            used: u64,
            /// The size of the context in tokens.
            size: u64,
        ]
        /// The cost of the session so far.
        cost: Value,
    }

    /// The question whether a tool call may run.
    pub struct PermissionAsk {
        [
            /// The session.
            session_id: String,
            /// The call.
            tool_call: Called,
            /// The possible answers.
            options: Vec<AskedOption>,
        ]
    }
}

/// One possible answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedOption {
    /// The id of the option; the answer carries it.
    pub option_id: String,
    /// The name that is shown to a person.
    pub name: String,
    /// Its meaning.
    pub kind: OptionKind,
}

//! What an agent tells and asks. What a struct does not name is kept in `extra` and written again.

use agent_lines::rpc_params;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::send::Block;
use crate::words::{OptionKind, ToolKind, ToolStatus};

/// What happens in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub enum Update {
    /// A part of a prompt, while a session is loaded or when somebody else prompts.
    UserMessageChunk(Said),
    /// A part of what the model says.
    AgentMessageChunk(Said),
    /// A part of what the model thinks.
    AgentThoughtChunk(Said),
    /// A call begins. It must come before every update of the same call.
    ToolCall(Box<Called>),
    /// Something about a call changes; what is left out stays as it was.
    ToolCallUpdate(Box<Called>),
    /// What the agent means to do, whole.
    Plan(Steps),
    /// What a prompt that begins with `/` can do.
    AvailableCommandsUpdate(Commands),
    /// The session's mode has moved.
    CurrentModeUpdate(Mode),
    /// The session's options have moved.
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

    /// What is told of a call.
    pub struct Called {
        [
            /// Names the call.
            tool_call_id: String,
        ]
        /// What is shown to a person. A `tool_call` needs one.
        title: String,
        /// What kind of thing the tool does.
        kind: ToolKind,
        /// How far it has come.
        status: ToolStatus,
        /// What it shows: `content`, `diff`.
        content: Vec<Value>,
        /// The files that it works on.
        locations: Vec<Value>,
        /// The arguments.
        raw_input: Value,
        /// What the tool brought.
        raw_output: Value,
    }

    /// What the agent means to do.
    pub struct Steps {
        [
            /// The steps.
            entries: Vec<Value>,
        ]
    }

    /// What a prompt that begins with `/` can do.
    pub struct Commands {
        [
            /// The commands.
            available_commands: Vec<Value>,
        ]
    }

    /// The mode that counts.
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

    /// What is told of a session.
    pub struct Titled {
        /// Its title.
        title: String,
        /// When it changed.
        updated_at: String,
    }

    /// How full the model's context is.
    pub struct Used {
        [
            /// Tokens in it.
            used: u64,
            /// Tokens that fit.
            size: u64,
        ]
        /// What the session cost.
        cost: Value,
    }

    /// A question whether a call may run.
    pub struct PermissionAsk {
        [
            /// The session.
            session_id: String,
            /// The call.
            tool_call: Called,
            /// What may be answered.
            options: Vec<AskedOption>,
        ]
    }
}

/// One possible answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedOption {
    /// Names it; the answer carries it.
    pub option_id: String,
    /// What is shown to a person.
    pub name: String,
    /// What it means.
    pub kind: OptionKind,
}

//! What an agent asks. It waits for the answer; [`Sender`](crate::Sender) gives it.

use agent_lines::json::{RawJson, Text, Value};
use agent_lines::json_object;
use agent_lines::rpc::{kept, lenient};

use super::tool::ToolCall;
use crate::words::OptionKind;

/// A question of the agent, by its method.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentRequest {
    /// `session/request_permission`: may this call of a tool run?
    Permission(Box<PermissionRequest>),
    /// `fs/…`: the client is to read or write a file. Some agents ask although nobody offered it.
    FileSystem {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
    /// `terminal/…`: the client is to run a command.
    Terminal {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
    /// Any other method. It must be answered, with an error if need be, or the agent waits.
    Unknown {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
}

json_object! {
    /// A question whether a call of a tool may run.
    pub struct PermissionRequest {
        /// The session.
        session_id: Text = "sessionId",
        /// The call, or a part of what there is to know about it: see `docs/acp.md`.
        tool_call: ToolCall = "toolCall",
        /// What may be answered.
        options: Vec<PermissionOption> = "options",
    }

    /// One possible answer.
    pub struct PermissionOption {
        /// Names it; the answer carries it.
        option_id: Text = "optionId",
        /// What is shown to a person.
        name: Text = "name",
        /// What it means; none for a meaning that nobody knows.
        kind: Option<OptionKind> = "kind",
    }
}

impl PermissionRequest {
    /// Returns the first option of this kind. Kinds may repeat.
    pub fn option(&self, kind: OptionKind) -> Option<&PermissionOption> {
        self.options.iter().find(|option| option.kind == Some(kind))
    }
}

impl AgentRequest {
    pub(super) fn read(method: Text, params: Option<Value<'_>>) -> Self {
        match method.as_str() {
            "session/request_permission" => Self::Permission(Box::new(lenient(params))),
            fs if fs.starts_with("fs/") => Self::FileSystem { method, params: kept(params) },
            terminal if terminal.starts_with("terminal/") => {
                Self::Terminal { method, params: kept(params) }
            }
            _ => Self::Unknown { method, params: kept(params) },
        }
    }
}

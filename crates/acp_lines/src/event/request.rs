//! The requests of an agent. It waits for the answer, which a [`Sender`](crate::Sender) sends.

use agent_lines::json::{RawJson, Text, Value};
use agent_lines::json_object;
use agent_lines::rpc::{kept, lenient};

use super::tool::ToolCall;
use crate::words::OptionKind;

/// A request of the agent, by its method.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentRequest {
    /// `session/request_permission`: asks whether a tool call may run.
    Permission(Box<PermissionRequest>),
    /// `fs/…`: asks the client to read or write a file. Some agents send it although the client
    /// does not offer it.
    FileSystem {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
    /// `terminal/…`: asks the client to run a command.
    Terminal {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
    /// Any other method. The client must answer it, if only with an error, or the agent waits.
    Unknown {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
}

json_object! {
    /// The question whether a tool call may run.
    pub struct PermissionRequest {
        /// The session.
        session_id: Text = "sessionId",
        /// The call, or only a part of its fields: see `docs/acp.md`.
        tool_call: ToolCall = "toolCall",
        /// The possible answers.
        options: Vec<PermissionOption> = "options",
    }

    /// One possible answer.
    pub struct PermissionOption {
        /// The id of the option; the answer carries it.
        option_id: Text = "optionId",
        /// The name that is shown to a person.
        name: Text = "name",
        /// Its meaning; `None` for an unknown one.
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

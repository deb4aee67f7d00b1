//! The lines that an agent writes, for a program that implements an agent.
//!
//! A [`ServedLine`] is built and written; a [`ClientReader`] reads the lines of the client.
//! [`Update`] and [`PermissionAsk`] can also be read from JSON and written again without loss.

mod read;
mod update;

use agent_lines::rpc::RequestId;
use serde_json::{Value, json};

use crate::send::{ENVELOPE, cancel_request, with_newline};

pub use read::{ClientReader, FromClient, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};
pub use update::{
    AskedOption, Called, Commands, Mode, Options, PermissionAsk, Said, Steps, Titled, Update, Used,
};

/// One line of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum ServedLine {
    /// Something happened in a session.
    Update {
        /// The session.
        session_id: String,
        /// The event.
        update: Update,
    },
    /// The question whether a tool call may run.
    Permission {
        /// Identifies the question. The agent and the client number their requests independently.
        id: RequestId,
        /// The question.
        ask: Box<PermissionAsk>,
    },
    /// One of our questions no longer needs an answer. An answer that still comes is not a
    /// decision.
    Withdraw {
        /// The question.
        request_id: RequestId,
    },
    /// A request of the client succeeded.
    Result {
        /// The request.
        id: RequestId,
        /// The result of the request.
        result: Value,
    },
    /// A request of the client was refused.
    Error {
        /// The request; `None` if the line does not tell which request it is.
        id: Option<RequestId>,
        /// The error code.
        code: i64,
        /// The reason, in words for a person.
        message: String,
    },
}

impl ServedLine {
    /// Returns the line as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Update { session_id, update } => {
                let params = json!({ "sessionId": session_id, "update": update });
                ENVELOPE.notification("session/update", Some(params))
            }
            // Writing cannot fail, because this is plain data with string keys.
            Self::Permission { id, ask } => {
                let params = serde_json::to_value(ask).ok();
                ENVELOPE.request(id, "session/request_permission", params)
            }
            Self::Withdraw { request_id } => cancel_request(request_id),
            Self::Result { id, result } => ENVELOPE.answer(id, "result", result.clone()),
            Self::Error { id, code, message } => {
                let error = json!({ "code": code, "message": message });
                match id {
                    Some(id) => ENVELOPE.answer(id, "error", error),
                    None => json!({ "jsonrpc": "2.0", "id": null, "error": error }),
                }
            }
        }
    }

    /// Returns the line with its newline, ready to be written. It contains no other line break.
    pub fn to_line(&self) -> String {
        with_newline(&self.to_json())
    }
}

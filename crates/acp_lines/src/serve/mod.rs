//! The lines that an agent writes, for a program that is one.
//!
//! A [`ServedLine`] is built and written; what clients write is read with a [`ClientReader`], line
//! by line. [`Update`] and [`PermissionAsk`] can also be read from JSON and written again without a
//! loss.

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
        /// What.
        update: Update,
    },
    /// A question whether a call may run.
    Permission {
        /// Names it. Ids of the agent and of the client are apart.
        id: RequestId,
        /// The question.
        ask: Box<PermissionAsk>,
    },
    /// A question of ours needs no answer any more. Whatever a client answers now is no decision.
    Withdraw {
        /// The question.
        request_id: RequestId,
    },
    /// A request of the client was done.
    Result {
        /// The request.
        id: RequestId,
        /// What came of it.
        result: Value,
    },
    /// A request of the client was refused.
    Error {
        /// The request; none for a line of which nobody can say what it asks.
        id: Option<RequestId>,
        /// What kind of refusal.
        code: i64,
        /// Why, in words for a person.
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
            // Plain data with string keys: writing it cannot fail.
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

    /// Returns the line with its newline, ready to be written. It holds no other line break.
    pub fn to_line(&self) -> String {
        with_newline(&self.to_json())
    }
}

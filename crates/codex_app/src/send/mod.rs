//! The lines to the server: requests, the one notification, answers to its questions.
//!
//! A [`ClientLine`] can be built, written ([`ClientLine::to_line`]) and read back
//! ([`ClientLine::parse`]). Unknown fields are kept in `extra`.
//!
//! The typed parts cannot express three things: an answer that outlives its question ([`Decision`]
//! has no `acceptForSession`), an edited input, and a request that runs something without
//! permission ([`UNSUPERVISED_METHODS`], which [`crate::Sender`] refuses).

mod answer;
mod params;
mod request;

use agent_lines::rpc::{Envelope, Parts};
use serde_json::{Value, json};

pub use agent_lines::rpc::METHOD_NOT_FOUND;
pub use answer::{ClientAnswer, Decision, ElicitationAnswer};
pub use params::{
    AccountRead, ClientInfo, Initialize, Input, ThreadFork, ThreadList, ThreadOptions, ThreadRef,
    ThreadResume, ThreadStart, TurnInterrupt, TurnStart, TurnSteer,
};
pub use request::ClientRequest;

use crate::parser::no_line;
use crate::{CodexLineError, RequestId};

/// Prefixes of methods that run or change something without permission, or overwrite the user's
/// login or settings.
pub const UNSUPERVISED_METHODS: [&str; 9] = [
    "review/start",
    "thread/shellCommand",
    "thread/approveGuardianDeniedAction",
    "command/exec",
    "process/",
    "fs/",
    "config/",
    "account/login/",
    "account/logout",
];

/// The server's lines have no `jsonrpc` field, and ours need none.
const ENVELOPE: Envelope = Envelope::Plain;

/// One line to the server.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientLine {
    /// The typed contents of the line.
    pub body: ClientBody,
}

/// The kinds of line.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientBody {
    /// A request; the answer carries its id.
    Request {
        /// Identifies the request. The client and the server number their requests independently.
        id: RequestId,
        /// The request.
        request: Box<ClientRequest>,
    },
    /// A notification: `initialized` is the only one that the server expects.
    Notification {
        /// The method.
        method: String,
        /// Its parameters.
        params: Option<Value>,
    },
    /// The answer to a question of the server.
    Answer {
        /// The question.
        id: RequestId,
        /// The answer.
        answer: ClientAnswer,
    },
}

impl ClientLine {
    /// Builds a request.
    pub fn request(id: impl Into<RequestId>, request: ClientRequest) -> Self {
        Self { body: ClientBody::Request { id: id.into(), request: Box::new(request) } }
    }

    /// Builds `initialized`, which follows the answer to `initialize`.
    pub fn initialized() -> Self {
        Self { body: ClientBody::Notification { method: "initialized".to_owned(), params: None } }
    }

    /// Builds the answer to a question.
    pub fn answer(id: RequestId, answer: ClientAnswer) -> Self {
        Self { body: ClientBody::Answer { id, answer } }
    }

    /// Builds the answer to a question about a command or a file change.
    pub fn decide(id: RequestId, decision: Decision) -> Self {
        Self::answer(id, ClientAnswer::Decision(decision))
    }

    /// Builds the refusal of a question that we cannot serve, so that the server does not wait.
    pub fn refuse(id: RequestId, message: &str) -> Self {
        let error = json!({ "code": METHOD_NOT_FOUND, "message": message });
        Self::answer(id, ClientAnswer::Error(error))
    }

    /// Returns the method of a request or notification.
    pub fn method(&self) -> Option<&str> {
        match &self.body {
            ClientBody::Request { request, .. } => Some(request.method()),
            ClientBody::Notification { method, .. } => Some(method),
            ClientBody::Answer { .. } => None,
        }
    }

    /// Returns the method if it is one of [`UNSUPERVISED_METHODS`].
    pub fn unsupervised_method(&self) -> Option<&str> {
        let method = self.method()?;
        UNSUPERVISED_METHODS.iter().any(|known| method.starts_with(known)).then_some(method)
    }

    /// Returns the line as JSON.
    pub fn to_json(&self) -> Value {
        match &self.body {
            ClientBody::Request { id, request } => {
                ENVELOPE.request(id, request.method(), request.params())
            }
            ClientBody::Notification { method, params } => {
                ENVELOPE.notification(method, params.clone())
            }
            ClientBody::Answer { id, answer } => {
                let (name, value) = answer.to_json();
                ENVELOPE.answer(id, name, value)
            }
        }
    }

    /// Returns the line with its newline, ready to be written. It contains no other line break.
    pub fn to_line(&self) -> String {
        let mut line = self.to_json().to_string();
        line.push('\n');
        line
    }

    /// Reads a line that a client wrote. The error contains nothing of the line.
    pub fn parse(line: &str) -> Result<Self, CodexLineError> {
        let Parts { id, method, params, rest } = Parts::read(line, no_line)?;
        let body = match (method, id) {
            (Some(method), Some(id)) => ClientBody::Request {
                id,
                request: Box::new(
                    ClientRequest::read(method, params)
                        .ok_or_else(|| no_line("parameters of another form"))?,
                ),
            },
            (Some(method), None) => ClientBody::Notification { method, params },
            (None, Some(id)) => ClientBody::Answer { id, answer: ClientAnswer::read(rest)? },
            (None, None) => return Err(no_line("neither a `method` nor an `id`")),
        };
        Ok(Self { body })
    }

    /// Returns whether this crate does not know the method.
    pub fn is_unknown(&self) -> bool {
        match &self.body {
            ClientBody::Request { request, .. } => matches!(**request, ClientRequest::Other { .. }),
            ClientBody::Notification { method, .. } => method != "initialized",
            ClientBody::Answer { .. } => false,
        }
    }
}

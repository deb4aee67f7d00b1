//! The lines of a client: requests, notifications, answers to the agent's questions.
//!
//! A [`ClientLine`] can be built, written ([`ClientLine::to_line`]) and read back
//! ([`ClientLine::parse`]). A program that implements an agent reads its client the same way.
//! Unknown fields are kept in `extra`.

mod answer;
mod params;
mod request;

use agent_lines::rpc::{Envelope, Parts, RequestId};
use serde_json::{Value, json};

pub use agent_lines::rpc::METHOD_NOT_FOUND;
pub use answer::{ClientAnswer, PermissionAnswer};
pub use params::{
    Authenticate, Block, ClientInfo, Initialize, Prompt, SessionList, SessionNew, SessionRef,
    SessionReopen, SetConfigOption, SetMode, SetModel,
};
pub use request::ClientRequest;

use crate::AcpLineError;
use crate::parser::no_line;

/// The error code for a request that was cancelled.
pub const REQUEST_CANCELLED: i64 = -32800;

/// The fields that every line has.
pub(crate) const ENVELOPE: Envelope = Envelope::JsonRpc2;

/// One line of a client.
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
        /// Identifies the request. The client and the agent number their requests independently.
        id: RequestId,
        /// The request.
        request: Box<ClientRequest>,
    },
    /// `session/cancel`: cancels the turn of this session.
    Cancel(SessionRef),
    /// `$/cancel_request`: the client no longer needs the answer to one of its requests.
    CancelRequest {
        /// The request.
        request_id: RequestId,
    },
    /// Any other notification.
    Notification {
        /// The method.
        method: String,
        /// Its parameters.
        params: Option<Value>,
    },
    /// The answer to a question of the agent.
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

    /// Builds the cancellation of a session's turn.
    pub fn cancel(session_id: impl Into<String>) -> Self {
        let session = SessionRef { session_id: session_id.into(), ..SessionRef::default() };
        Self { body: ClientBody::Cancel(session) }
    }

    /// Builds the answer to a question.
    pub fn answer(id: RequestId, answer: ClientAnswer) -> Self {
        Self { body: ClientBody::Answer { id, answer } }
    }

    /// Builds the refusal of a question that we cannot serve, so that the agent does not wait.
    pub fn refuse(id: RequestId, message: &str) -> Self {
        let error = json!({ "code": METHOD_NOT_FOUND, "message": message });
        Self::answer(id, ClientAnswer::Error(error))
    }

    /// Returns the line as JSON.
    pub fn to_json(&self) -> Value {
        match &self.body {
            ClientBody::Request { id, request } => {
                ENVELOPE.request(id, request.method(), request.params())
            }
            // Writing cannot fail, because this is plain data with string keys.
            ClientBody::Cancel(session) => {
                ENVELOPE.notification(CANCEL, serde_json::to_value(session).ok())
            }
            ClientBody::CancelRequest { request_id } => cancel_request(request_id),
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
        with_newline(&self.to_json())
    }

    /// Reads a line that a client wrote. The error contains nothing of the line.
    pub fn parse(line: &str) -> Result<Self, AcpLineError> {
        let Parts { id, method, params, rest } = Parts::read(line, no_line)?;
        let body = match (method, id) {
            (Some(method), Some(id)) => ClientBody::Request {
                id,
                request: Box::new(
                    ClientRequest::read(method, params)
                        .ok_or_else(|| no_line("parameters of another form"))?,
                ),
            },
            (Some(method), None) => notification(method, params)?,
            (None, Some(id)) => ClientBody::Answer { id, answer: ClientAnswer::read(rest)? },
            (None, None) => return Err(no_line("neither a `method` nor an `id`")),
        };
        Ok(Self { body })
    }

    /// Returns whether this crate does not know the method. A name that begins with `_` is an
    /// extension and does not count as unknown.
    pub fn is_unknown(&self) -> bool {
        let method = match &self.body {
            ClientBody::Request { request, .. } => match &**request {
                ClientRequest::Other { method, .. } => method,
                _ => return false,
            },
            ClientBody::Notification { method, .. } => method,
            ClientBody::Cancel(_)
            | ClientBody::CancelRequest { .. }
            | ClientBody::Answer { .. } => {
                return false;
            }
        };
        !method.starts_with('_')
    }
}

const CANCEL: &str = "session/cancel";
const CANCEL_REQUEST: &str = "$/cancel_request";

fn notification(method: String, params: Option<Value>) -> Result<ClientBody, AcpLineError> {
    match (method.as_str(), params) {
        (CANCEL, Some(params)) => serde_json::from_value(params)
            .map(ClientBody::Cancel)
            .map_err(|_| no_line("parameters of another form")),
        (CANCEL_REQUEST, Some(Value::Object(mut params))) if params.len() == 1 => {
            let id = params.remove("requestId").map(serde_json::from_value);
            match id {
                Some(Ok(request_id)) => Ok(ClientBody::CancelRequest { request_id }),
                _ => Err(no_line("parameters of another form")),
            }
        }
        (_, params) => Ok(ClientBody::Notification { method, params }),
    }
}

/// Builds the notification that a request no longer needs an answer. Either side may send it about
/// its own requests.
pub(crate) fn cancel_request(request_id: &RequestId) -> Value {
    ENVELOPE.notification(CANCEL_REQUEST, Some(json!({ "requestId": request_id })))
}

pub(crate) fn with_newline(line: &Value) -> String {
    let mut line = line.to_string();
    line.push('\n');
    line
}

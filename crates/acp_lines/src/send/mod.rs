//! The lines of a client: requests, notifications, answers to the agent's questions.
//!
//! A [`ClientLine`] can be built, written ([`ClientLine::to_line`]) and read back
//! ([`ClientLine::parse`]), which is also how a program that is an agent reads its client; fields
//! that this crate does not know are kept in `extra`.

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

/// A refusal's code for a request that was given up.
pub const REQUEST_CANCELLED: i64 = -32800;

/// What stands around every line.
pub(crate) const ENVELOPE: Envelope = Envelope::JsonRpc2;

/// One line of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientLine {
    /// What it says.
    pub body: ClientBody,
}

/// The kinds of line.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientBody {
    /// A request; the answer carries its id.
    Request {
        /// Names it. Ids of the client and of the agent are apart.
        id: RequestId,
        /// What is asked for.
        request: Box<ClientRequest>,
    },
    /// `session/cancel`: the turn of this session is to end.
    Cancel(SessionRef),
    /// `$/cancel_request`: a request of the client needs no answer any more.
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

    /// Builds the end of a session's turn.
    pub fn cancel(session_id: impl Into<String>) -> Self {
        let session = SessionRef { session_id: session_id.into(), ..SessionRef::default() };
        Self { body: ClientBody::Cancel(session) }
    }

    /// Builds the answer to a question.
    pub fn answer(id: RequestId, answer: ClientAnswer) -> Self {
        Self { body: ClientBody::Answer { id, answer } }
    }

    /// Builds the refusal of a question that cannot be served, so that the agent does not wait.
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
            // Plain data with string keys: writing it cannot fail.
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

    /// Returns the line with its newline, ready to be written. It holds no other line break.
    pub fn to_line(&self) -> String {
        with_newline(&self.to_json())
    }

    /// Reads a line that a client wrote. The error holds nothing of the line.
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

    /// Whether the method is one that this crate does not know. A name that begins with `_` is an
    /// extension, which nobody has to know.
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

/// Either side may say that a request of its own needs no answer any more.
pub(crate) fn cancel_request(request_id: &RequestId) -> Value {
    ENVELOPE.notification(CANCEL_REQUEST, Some(json!({ "requestId": request_id })))
}

pub(crate) fn with_newline(line: &Value) -> String {
    let mut line = line.to_string();
    line.push('\n');
    line
}

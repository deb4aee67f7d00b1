//! The typed lines of an agent.
//!
//! A line is a request ([`request`]), a notification (usually an [`update`]) or an answer to a
//! request of ours ([`answer`]). Updates report texts ([`content`]), tool calls ([`tool`]) and
//! changes of the session. Reading is lenient by design, because agents add fields and kinds of
//! their own: unknown parts stay in [`AgentLine::raw`] and in the `Unknown` variants.

pub mod answer;
pub mod content;
pub mod request;
pub mod tool;
pub mod update;

use agent_lines::json::{FromJson, RawJson, Repairs, Text, Value};
use agent_lines::rpc::{Answer, RequestId, RpcError, RpcLine, Shape, kept, lenient};

pub use request::AgentRequest;
pub use update::SessionUpdate;

agent_lines::json_object! {
    /// The other side no longer needs an answer to one of its requests.
    pub struct CancelRequest {
        /// The request.
        request_id: Option<RequestId> = "requestId",
    }
}

/// One line of an agent's output.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentLine {
    /// The typed contents of the line.
    pub body: AgentBody,
    /// The session that a request or notification is about, if it names one.
    pub session_id: Option<Text>,
    /// The repairs that made the line readable.
    pub repairs: Repairs,
    raw: RawJson,
}

/// The kinds of line.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentBody {
    /// The agent sends a request and waits for the answer.
    Request {
        /// Identifies the request; the answer carries it.
        id: RequestId,
        /// The request.
        request: Box<AgentRequest>,
    },
    /// The agent sends a notification.
    Notification(Box<Notification>),
    /// The agent answers a request of ours.
    Answer(Answer),
    /// The agent could not read one of our lines: an error that names no request.
    Complaint(RpcError),
}

/// A notification, by its method.
#[derive(Debug, Clone, PartialEq)]
pub enum Notification {
    /// `session/update`: something happened in a session.
    Update(SessionUpdate),
    /// `$/cancel_request`: a question no longer needs an answer.
    CancelRequest(CancelRequest),
    /// A method of the agent's own, which begins with `_`.
    Extension {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
    /// Any other method.
    Unknown {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
}

impl AgentLine {
    /// Reads the outer object. The error says, in our own words, what is missing.
    pub(crate) fn read(line: Value<'_>, repairs: Repairs) -> Result<Self, &'static str> {
        if let Some(error) = complaint(line) {
            let body = AgentBody::Complaint(error);
            return Ok(Self { body, session_id: None, repairs, raw: line.raw() });
        }
        let shape = Shape::of(line)?;
        let session_id = shape.params().and_then(|params| params.get("sessionId"));
        let body = match shape {
            Shape::Request { id, method, params } => {
                AgentBody::Request { id, request: Box::new(AgentRequest::read(method, params)) }
            }
            Shape::Notification { method, params } => {
                AgentBody::Notification(Box::new(Notification::read(method, params)))
            }
            Shape::Answer(answer) => AgentBody::Answer(answer),
        };
        Ok(Self { body, session_id: session_id.and_then(Value::text), repairs, raw: line.raw() })
    }

    /// Returns the line's JSON as it was written.
    pub fn raw(&self) -> &str {
        self.raw.get()
    }

    /// Returns the line's JSON as a value that can be kept beside the line without a copy.
    pub fn raw_json(&self) -> &RawJson {
        &self.raw
    }

    /// Returns whether this crate does not know the line's method, or the kind of its update.
    pub fn is_unknown(&self) -> bool {
        match &self.body {
            AgentBody::Request { request, .. } => matches!(**request, AgentRequest::Unknown { .. }),
            AgentBody::Notification(told) => match &**told {
                Notification::Update(update) => matches!(update, SessionUpdate::Unknown { .. }),
                Notification::Unknown { .. } => true,
                Notification::CancelRequest(_) | Notification::Extension { .. } => false,
            },
            AgentBody::Answer(_) | AgentBody::Complaint(_) => false,
        }
    }
}

/// Returns the error of a line that answers no request: agents write it with `"id": null` or
/// without an id.
fn complaint(line: Value<'_>) -> Option<RpcError> {
    let has_id = line.get("id").and_then(RequestId::from_json).is_some();
    if has_id || line.get("method").is_some() || line.get("result").is_some() {
        return None;
    }
    line.get("error").and_then(RpcError::from_json)
}

impl Notification {
    fn read(method: Text, params: Option<Value<'_>>) -> Self {
        match method.as_str() {
            "session/update" => {
                let update = params.and_then(|params| params.get("update"));
                Self::Update(SessionUpdate::read(update))
            }
            "$/cancel_request" => Self::CancelRequest(lenient(params)),
            own if own.starts_with('_') => Self::Extension { method, params: kept(params) },
            _ => Self::Unknown { method, params: kept(params) },
        }
    }
}

impl serde::Serialize for AgentLine {
    /// Writes the raw JSON, so that nothing the agent wrote is lost.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl RpcLine for AgentLine {
    fn answer(&self) -> Option<&Answer> {
        match &self.body {
            AgentBody::Answer(answer) => Some(answer),
            AgentBody::Request { .. } | AgentBody::Notification(_) | AgentBody::Complaint(_) => {
                None
            }
        }
    }
}

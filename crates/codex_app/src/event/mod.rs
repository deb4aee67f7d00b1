//! The typed lines of the server.
//!
//! A line is a request ([`request`]), a notification ([`notification`]) or an answer to a request
//! of ours ([`answer`]). Notifications report threads and turns ([`thread`]) and their items
//! ([`item`]). Reading is lenient by design, because new methods and fields come with almost every
//! release: unknown parts stay in [`ServerLine::raw`] and in the `Unknown` variants.

pub mod answer;
pub mod item;
pub mod notification;
pub mod request;
pub mod thread;

use agent_lines::json::{RawJson, Repairs, Text, Value};
use agent_lines::rpc::{RpcLine, Shape};

pub use answer::{Answer, Outcome, RpcError};
pub use item::{Item, ItemBody};
pub use notification::Notification;
pub use request::ServerRequest;

use crate::RequestId;

/// One line of the server's output.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerLine {
    /// The typed contents of the line.
    pub body: ServerBody,
    /// The thread that a request or notification is about, if it names one.
    pub thread_id: Option<Text>,
    /// The turn that a request or notification is about, if it names one.
    pub turn_id: Option<Text>,
    /// When the server wrote a notification, in milliseconds of Unix time.
    pub emitted_at_ms: Option<u64>,
    /// The repairs that made the line readable.
    pub repairs: Repairs,
    raw: RawJson,
}

/// The kinds of line.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerBody {
    /// The server sends a request and waits for the answer.
    Request {
        /// Identifies the request; the answer carries it.
        id: RequestId,
        /// The request.
        request: Box<ServerRequest>,
    },
    /// The server sends a notification.
    Notification(Box<Notification>),
    /// The server answers a request of ours.
    Answer(Answer),
}

impl ServerLine {
    /// Reads the outer object. The error says, in our own words, what is missing.
    pub(crate) fn read(line: Value<'_>, repairs: Repairs) -> Result<Self, &'static str> {
        let shape = Shape::of(line)?;
        let params = shape.params();
        let body = match shape {
            Shape::Request { id, method, params } => {
                ServerBody::Request { id, request: Box::new(ServerRequest::read(method, params)) }
            }
            Shape::Notification { method, params } => {
                ServerBody::Notification(Box::new(Notification::read(method, params)))
            }
            Shape::Answer(answer) => ServerBody::Answer(answer),
        };
        let of_params = |name| params.and_then(|params| params.get(name));
        let turn_id = of_params("turnId").or_else(|| of_params("turn")?.get("id"));
        let thread_id = of_params("threadId").or_else(|| of_params("thread")?.get("id"));
        Ok(Self {
            body,
            thread_id: thread_id.and_then(Value::text),
            turn_id: turn_id.and_then(Value::text),
            emitted_at_ms: line.get("emittedAtMs").and_then(Value::as_number),
            repairs,
            raw: line.raw(),
        })
    }

    /// Returns the line's JSON as it was written.
    pub fn raw(&self) -> &str {
        self.raw.get()
    }

    /// Returns the line's JSON as a value that can be kept beside the line without a copy.
    pub fn raw_json(&self) -> &RawJson {
        &self.raw
    }

    /// Returns whether this crate does not know the line's method, or the type of its item.
    pub fn is_unknown(&self) -> bool {
        match &self.body {
            ServerBody::Request { request, .. } => {
                matches!(**request, ServerRequest::Unknown { .. })
            }
            ServerBody::Notification(notification) => notification.is_unknown(),
            ServerBody::Answer(_) => false,
        }
    }
}

impl serde::Serialize for ServerLine {
    /// Writes the raw JSON, so that nothing the server wrote is lost.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl RpcLine for ServerLine {
    fn answer(&self) -> Option<&Answer> {
        match &self.body {
            ServerBody::Answer(answer) => Some(answer),
            ServerBody::Request { .. } | ServerBody::Notification(_) => None,
        }
    }
}

//! The kind of a line.

use super::{Answer, RequestId};
use crate::json::{FromJson, RawJson, Text, Value};

/// A line by its kind, before its method is interpreted.
#[derive(Debug)]
pub enum Shape<'a> {
    /// The other side sends a request and waits for the answer.
    Request {
        /// Identifies the request; the answer carries it.
        id: RequestId,
        /// The method.
        method: Text,
        /// Its parameters.
        params: Option<Value<'a>>,
    },
    /// The other side sends a notification.
    Notification {
        /// The method.
        method: Text,
        /// Its parameters.
        params: Option<Value<'a>>,
    },
    /// The other side answers.
    Answer(Answer),
}

impl<'a> Shape<'a> {
    /// Reads the outer object. The error says, in our own words, what is missing.
    pub fn of(line: Value<'a>) -> Result<Self, &'static str> {
        if !line.is_object() {
            return Err("not an object");
        }
        let id = line.get("id").and_then(RequestId::from_json);
        let method = line.get("method").and_then(Value::text);
        let params = line.get("params");
        match (method, id) {
            (Some(method), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(method), None) => Ok(Self::Notification { method, params }),
            (None, Some(id)) => Answer::read(id, line).map(Self::Answer),
            (None, None) => Err("neither a `method` nor an `id`"),
        }
    }

    /// Returns the parameters of a request or notification.
    pub fn params(&self) -> Option<Value<'a>> {
        match self {
            Self::Request { params, .. } | Self::Notification { params, .. } => *params,
            Self::Answer(_) => None,
        }
    }
}

/// Reads typed parameters; a field that is missing or of another type has its default.
pub fn lenient<T: FromJson + Default>(params: Option<Value<'_>>) -> T {
    params.and_then(T::from_json).unwrap_or_default()
}

/// Keeps parameters unchanged; `null` when there are none.
pub fn kept(params: Option<Value<'_>>) -> RawJson {
    params.map(Value::raw).unwrap_or_default()
}

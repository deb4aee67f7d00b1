//! Lines as trees: building them, and reading back what was written.

use serde_json::{Map, Value, json};

use super::RequestId;
use crate::{LineError, LineErrorCode};

/// The error code for a method that is not served here.
pub const METHOD_NOT_FOUND: i64 = -32601;

/// The fields that a protocol adds to every line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// Nothing.
    Plain,
    /// `"jsonrpc": "2.0"`.
    JsonRpc2,
}

impl Envelope {
    /// Builds a request.
    pub fn request(self, id: &RequestId, method: &str, params: Option<Value>) -> Value {
        self.line([("id", Some(json!(id))), ("method", Some(json!(method))), ("params", params)])
    }

    /// Builds a notification.
    pub fn notification(self, method: &str, params: Option<Value>) -> Value {
        self.line([("method", Some(json!(method))), ("params", params)])
    }

    /// Builds an answer; `name` is `result` or `error`.
    pub fn answer(self, id: &RequestId, name: &str, value: Value) -> Value {
        self.line([("id", Some(json!(id))), (name, Some(value))])
    }

    fn line<const N: usize>(self, fields: [(&str, Option<Value>); N]) -> Value {
        let version = match self {
            Self::Plain => None,
            Self::JsonRpc2 => Some(("jsonrpc", Some(json!("2.0")))),
        };
        let fields = version.into_iter().chain(fields);
        let fields = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(fields.collect())
    }
}

/// The parts of a line that is read as a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// The id of a request or answer.
    pub id: Option<RequestId>,
    /// The method of a request or notification.
    pub method: Option<String>,
    /// Its parameters.
    pub params: Option<Value>,
    /// The rest of the line: `result` or `error` of an answer.
    pub rest: Map<String, Value>,
}

impl Parts {
    /// Reads a line. `wrong` turns a description of what is wrong with valid JSON into an error; no
    /// error contains anything of the line.
    pub fn read(line: &str, wrong: fn(&'static str) -> LineError) -> Result<Self, LineError> {
        let value: Value = serde_json::from_str(line).map_err(|error| LineError {
            code: LineErrorCode::JsonParse,
            message: "a written line is not valid JSON".to_owned(),
            details: format!("at column {}", error.column()),
            line_bytes: None,
        })?;
        let Value::Object(mut rest) = value else { return Err(wrong("not an object")) };
        let id = match rest.remove("id") {
            Some(id) => {
                Some(serde_json::from_value(id).map_err(|_| wrong("an `id` of another type"))?)
            }
            None => None,
        };
        let method = match rest.remove("method") {
            Some(Value::String(method)) => Some(method),
            Some(_) => return Err(wrong("a `method` that is not a string")),
            None => None,
        };
        Ok(Self { id, method, params: rest.remove("params"), rest })
    }
}

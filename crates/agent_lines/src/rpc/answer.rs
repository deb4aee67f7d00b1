//! The answer to a request.

use super::RequestId;
use crate::json::{FromJson, LineReader, RawJson, Text, Value};
use crate::json_object;

/// An answer; its id names the request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The request.
    pub id: RequestId,
    /// The result or the error.
    pub outcome: Outcome,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The request succeeded. The `result` is complete; [`Outcome::read`] types it.
    Result(RawJson),
    /// The request was refused.
    Error(RpcError),
}

json_object! {
    /// A refusal.
    pub struct RpcError {
        /// The code: -32601 for an unknown method, -32602 for wrong parameters.
        code: i64 = "code",
        /// The reason in the other side's words.
        message: Text = "message",
        /// Further details.
        data: Option<RawJson> = "data",
    }
}

impl Answer {
    pub(super) fn read(id: RequestId, line: Value<'_>) -> Result<Self, &'static str> {
        let outcome = match (line.get("error"), line.get("result")) {
            (Some(error), None) => Outcome::Error(
                RpcError::from_json(error).ok_or("an `error` that is not an object")?,
            ),
            (None, Some(result)) => Outcome::Result(result.raw()),
            (Some(_), Some(_)) => return Err("both a `result` and an `error`"),
            (None, None) => return Err("an `id` with neither `method`, `result` nor `error`"),
        };
        Ok(Self { id, outcome })
    }
}

impl Outcome {
    /// Reads the result as `T`; `None` for a refusal or a result of another form.
    pub fn read<T: FromJson>(&self) -> Option<T> {
        match self {
            Self::Result(result) => LineReader::new()
                .read_str(result.get(), |value, _| T::from_json(value))
                .ok()
                .flatten()
                .flatten(),
            Self::Error(_) => None,
        }
    }
}

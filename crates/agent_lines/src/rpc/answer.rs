//! The answer to a request.

use super::RequestId;
use crate::json::{FromJson, LineReader, RawJson, Text, Value};
use crate::json_object;

/// An answer; its id says to which request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The request.
    pub id: RequestId,
    /// How it went.
    pub outcome: Outcome,
}

/// How a request went.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was done. The `result` is whole; [`Outcome::read`] types it.
    Result(RawJson),
    /// It was refused.
    Error(RpcError),
}

json_object! {
    /// A refusal.
    pub struct RpcError {
        /// What kind: -32601 for a method that is not known, -32602 for wrong parameters.
        code: i64 = "code",
        /// The same in the other side's words.
        message: Text = "message",
        /// More about it.
        data: Option<RawJson> = "data",
    }
}

impl Answer {
    pub(super) fn read(id: RequestId, line: Value<'_>) -> Result<Self, &'static str> {
        let outcome = match (line.get("error"), line.get("result")) {
            (Some(error), None) => {
                Outcome::Error(RpcError::from_json(error).ok_or("an `error` that is no object")?)
            }
            (None, Some(result)) => Outcome::Result(result.raw()),
            (Some(_), Some(_)) => return Err("both a `result` and an `error`"),
            (None, None) => return Err("an `id` with neither `method`, `result` nor `error`"),
        };
        Ok(Self { id, outcome })
    }
}

impl Outcome {
    /// Reads the result as `T`; none for a refusal or a result of another form.
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

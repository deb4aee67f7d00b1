//! The id of a request: a number or a string.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::json::{FromJson, Value};

/// Identifies a request; its answer carries the same id. Each side has its own ids: the same id may
/// be open on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A number, usually counted up from 0 or 1.
    Number(i64),
    /// A string, usually a UUID.
    Text(String),
}

impl FromJson for RequestId {
    fn from_json(value: Value<'_>) -> Option<Self> {
        let text = || value.as_str().map(|text| Self::Text(text.into_owned()));
        value.as_number().map(Self::Number).or_else(text)
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self::Number(id)
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self::Text(id.to_owned())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

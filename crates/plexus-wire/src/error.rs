//! The one error shape that every door shows: a kind, a message, and what to do next.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::DecidedApproval;
use crate::budget::SpentAlready;
use crate::chat::Stream;
use crate::said::Said;

/// How much of the name of an unknown method is repeated: no method has a longer name.
const MAX_UNKNOWN_BYTES: usize = 128;

/// What a caller can do about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The parameters are wrong; the same call will fail again.
    Invalid,
    /// It does not exist, or the caller may not know that it does.
    NotFound,
    /// It changed under the caller, or the name is taken; `standing` says what stands.
    Conflict,
    /// The caller may not do this.
    Forbidden,
    /// There is no valid token.
    Unauthorized,
    /// A limit is reached; `retry_after_ms` says when to try again.
    Busy,
    /// The time for it has passed.
    Expired,
    /// A part we need does not work right now; nothing was changed.
    Unavailable,
    /// We are broken; the log has more.
    Internal,
}

/// A failed call, as its caller sees it. What goes to the log is another text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[error("{message}")]
pub struct CallError {
    /// What the caller can do.
    pub kind: Said<ErrorKind>,
    /// What happened, as a lowercase fragment that reads well after "could not".
    pub message: String,
    /// The next step.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub hint: String,
    /// The path of the parameter that is wrong, for `invalid`: `budget.turns`, `session_ids[2]`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub field: Option<String>,
    /// When to try again, for `busy` and `unavailable`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after_ms: Option<u64>,
    /// What stands, for `conflict`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Option<Standing>")]
    pub standing: Option<Value>,
    /// The JSON-RPC code when it is not the one of `kind`: an unknown method, a request that cannot
    /// be read.
    #[serde(skip)]
    pub code: Option<i64>,
}

/// What may stand in the way. Only its schema is used: the JSON is that of the shape it names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(untagged)]
pub enum Standing {
    /// The decision that stands.
    Decision(Box<DecidedApproval>),
    /// What is spent already.
    Spent(SpentAlready),
    /// The chat that runs.
    Chat(Box<Stream>),
    /// The id of what has the name.
    Id(String),
    /// The ids of what is in the way.
    Ids(Vec<String>),
}

impl CallError {
    /// Makes an error of `kind`; see the named constructors for the usual ones.
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind: kind.into(),
            message: message.to_string(),
            hint: String::new(),
            field: None,
            retry_after_ms: None,
            standing: None,
            code: None,
        }
    }

    /// The parameters are wrong.
    pub fn invalid(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// It does not exist.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Something else stands.
    pub fn conflict(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// The caller may not do this.
    pub fn forbidden(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Forbidden, message)
    }

    /// There is no valid token.
    pub fn unauthorized(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Unauthorized, message)
    }

    /// A limit is reached; try again after `retry_after_ms`.
    pub fn busy(message: impl fmt::Display, retry_after_ms: u64) -> Self {
        Self { retry_after_ms: Some(retry_after_ms), ..Self::new(ErrorKind::Busy, message) }
    }

    /// The time for it has passed.
    pub fn expired(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Expired, message)
    }

    /// A part we need does not work right now.
    pub fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// We are broken. The message must not hold anything that belongs in the log only.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The method does not exist (or not for this caller).
    pub fn unknown_method(name: &str) -> Self {
        let name = name.get(..name.floor_char_boundary(MAX_UNKNOWN_BYTES)).unwrap_or_default();
        let mut error = Self::not_found(format_args!("call {name:?}: there is no such method"));
        error.code = Some(-32601);
        error.with_hint("plexus.methods lists what you may call")
    }

    /// Adds the next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = hint.to_string();
        self
    }

    /// Adds the path of the parameter that is wrong.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Adds what stands.
    #[must_use]
    pub fn with_standing(mut self, standing: impl Serialize) -> Self {
        self.standing = serde_json::to_value(standing).ok();
        self
    }

    /// Returns what the caller can do. A kind that this version does not know leaves nothing but to
    /// tell somebody, as `internal` does.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind.known().copied().unwrap_or(ErrorKind::Internal)
    }

    /// Returns the JSON-RPC code of this error.
    #[must_use]
    pub fn rpc_code(&self) -> i64 {
        match self.code {
            Some(code) => code,
            None if self.kind == ErrorKind::Invalid => -32602,
            None => -32000,
        }
    }
}

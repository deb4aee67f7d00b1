//! Why a request of the editor is refused, in the protocol's codes and in words for a person.

use acp_lines::send::METHOD_NOT_FOUND;
use acp_lines::serve::{INVALID_PARAMS, INVALID_REQUEST};
use acp_lines::{RequestId, ServedLine};
use plexus_client::ClientError;
use plexus_client::wire::ErrorKind;

/// Something failed that the editor cannot mend. The protocol's -32000 would make editors offer a
/// login, and there is none.
const INTERNAL: i64 = -32603;

/// What was named does not exist.
const NOT_FOUND: i64 = -32002;

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    code: i64,
    message: String,
}

impl Refusal {
    /// The request does not fit what is going on.
    pub(crate) fn now(message: impl Into<String>) -> Self {
        Self { code: INVALID_REQUEST, message: message.into() }
    }

    /// The parameters are wrong.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into() }
    }

    /// What was named does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { code: NOT_FOUND, message: message.into() }
    }

    /// There is no such method here.
    pub(crate) fn unknown_method(method: &str) -> Self {
        Self { code: METHOD_NOT_FOUND, message: format!("there is no method {method:?} here") }
    }

    /// The agent failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { code: INTERNAL, message: message.into() }
    }

    /// Returns the words.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the line that answers a request with this.
    pub(crate) fn answer(self, id: RequestId) -> ServedLine {
        ServedLine::Error { id: Some(id), code: self.code, message: self.message }
    }
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        let code = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            ErrorKind::Invalid => INVALID_PARAMS,
            ErrorKind::Busy => INVALID_REQUEST,
            ErrorKind::Conflict
            | ErrorKind::Forbidden
            | ErrorKind::Unauthorized
            | ErrorKind::Expired
            | ErrorKind::Unavailable
            | ErrorKind::Internal => INTERNAL,
        };
        let message = match error.hint() {
            "" => format!("could not {error}"),
            hint => format!("could not {error} ({hint})"),
        };
        Self { code, message }
    }
}

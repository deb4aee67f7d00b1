//! The error for one line that could not be read. It contains nothing of the line.

use std::fmt;

use crate::json::{MAX_DEPTH, ScanError};

/// What went wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LineErrorCode {
    /// The line is not JSON.
    JsonParse,
    /// The line is valid JSON but not a line of the protocol.
    TypedParse,
    /// The line is longer than the reader's limit and was skipped.
    LineTooLong,
}

/// A line that could not be read. It contains nothing of the line itself, so logging it leaks
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LineError {
    /// What went wrong.
    pub code: LineErrorCode,
    /// The code in words, for a person.
    pub message: String,
    /// Where and how reading failed, without any byte of the line.
    pub details: String,
    /// The true size of a line that was too long.
    pub line_bytes: Option<u64>,
}

impl LineError {
    /// Returns the error for a line that is valid JSON but not a line of the protocol. `message`
    /// names the protocol and `details` what is missing; neither may contain bytes of the line.
    pub fn typed(message: impl Into<String>, details: impl Into<String>) -> Self {
        Self {
            code: LineErrorCode::TypedParse,
            message: message.into(),
            details: details.into(),
            line_bytes: None,
        }
    }

    /// Returns the error for a line of `size` bytes that was skipped.
    pub fn too_long(size: u64) -> Self {
        Self {
            code: LineErrorCode::LineTooLong,
            message: "a line of the CLI's output is too long and was skipped".to_owned(),
            details: format!("{size} bytes"),
            line_bytes: Some(size),
        }
    }
}

impl From<ScanError> for LineError {
    fn from(error: ScanError) -> Self {
        let details = match error {
            ScanError::Unexpected { at } => format!("unexpected byte at offset {at}"),
            ScanError::Truncated => "the line ends inside a value".to_owned(),
            ScanError::TooDeep { at } => {
                format!("more than {MAX_DEPTH} levels of nesting at offset {at}")
            }
            ScanError::TooLong => "the line is 4 GiB or longer".to_owned(),
        };
        Self {
            code: LineErrorCode::JsonParse,
            message: "a line of the CLI's output is not valid JSON".to_owned(),
            details,
            line_bytes: None,
        }
    }
}

impl fmt::Display for LineErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JsonParse => "JsonParse",
            Self::TypedParse => "TypedParse",
            Self::LineTooLong => "LineTooLong",
        })
    }
}

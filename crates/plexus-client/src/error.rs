//! What can go wrong between a client and its server.

use std::path::PathBuf;

use plexus_wire::{CallError, ErrorKind};

/// Why there is no answer, or which answer it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server answered, and this is the answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// No server has announced itself in this data directory.
    #[error("find a server: none runs with its data in {}", .0.display())]
    NoServer(PathBuf),
    /// The token cannot be read.
    #[error("read {}: {source}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Nobody answers there.
    #[error("reach the server at {url}: {problem}")]
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        problem: String,
    },
    /// What answered does not speak as we do.
    #[error("read the server's answer to {method}: {problem}")]
    BadAnswer {
        /// What was called.
        method: String,
        /// What is wrong with the answer.
        problem: String,
    },
}

impl ClientError {
    /// Returns the kind of the failure, as a method would say it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Call(error) => error.kind(),
            Self::NoServer(_) | Self::Unreachable { .. } => ErrorKind::Unavailable,
            Self::Token { .. } => ErrorKind::Unauthorized,
            Self::BadAnswer { .. } => ErrorKind::Internal,
        }
    }

    /// Returns the next step, where one is known.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Call(error) => &error.hint,
            Self::NoServer(_) => "start one with `plexus serve`",
            Self::Token { .. } => {
                "`plexus token` needs the data directory of the server; name it with --data-dir"
            }
            Self::Unreachable { .. } => "is the server running? `plexus doctor` looks",
            Self::BadAnswer { .. } => "is that address a Plexus server of this version?",
        }
    }

    /// Returns the path of the parameter that is wrong, where the server named one.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Call(error) => error.field.as_deref(),
            Self::NoServer(_)
            | Self::Token { .. }
            | Self::Unreachable { .. }
            | Self::BadAnswer { .. } => None,
        }
    }

    /// Says whether a later try may work although nothing else changes: the server is away or
    /// starting.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            Self::NoServer(_) | Self::Unreachable { .. } => true,
            Self::Call(error) => matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy),
            Self::Token { .. } | Self::BadAnswer { .. } => false,
        }
    }
}

impl From<ClientError> for CallError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Call(error) => error,
            other => Self::new(other.kind(), &other).with_hint(other.hint()),
        }
    }
}

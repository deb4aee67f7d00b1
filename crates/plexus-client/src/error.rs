//! What can go wrong between a client and its server.

use std::path::PathBuf;

use plexus_wire::{CallError, ErrorKind};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server answered with this error.
    #[error(transparent)]
    Call(#[from] CallError),
    /// No server has announced itself in this data directory.
    #[error("find a server: none runs with its data in {}", .0.display())]
    NoServer(PathBuf),
    /// The file in which a server announces itself cannot be read, and another try would not read
    /// it either.
    #[error("read {}: {source}", path.display())]
    Announcement {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The token cannot be read.
    #[error("read {}: {source}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No server answers at the address.
    #[error("reach the server at {url}: {problem}")]
    Unreachable {
        /// The address.
        url: String,
        /// Why.
        problem: String,
    },
    /// The answer is not one that this client understands.
    #[error("read the server's answer to {method}: {problem}")]
    BadAnswer {
        /// What was called.
        method: String,
        /// What is wrong with the answer.
        problem: String,
    },
}

impl ClientError {
    /// Returns the kind of the failure, in the terms of a method's error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Call(error) => error.kind(),
            Self::NoServer(_) | Self::Unreachable { .. } => ErrorKind::Unavailable,
            Self::Announcement { .. } | Self::Token { .. } => ErrorKind::Unauthorized,
            Self::BadAnswer { .. } => ErrorKind::Internal,
        }
    }

    /// Returns the next step, where one is known.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Call(error) => &error.hint,
            Self::NoServer(_) => "start one with `plexus serve`",
            Self::Announcement { .. } => {
                "run the command as the user who runs the server, or name another directory with \
                 --data-dir"
            }
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
            | Self::Announcement { .. }
            | Self::Token { .. }
            | Self::Unreachable { .. }
            | Self::BadAnswer { .. } => None,
        }
    }

    /// Returns whether a retry may work although nothing else changes: the server is away or
    /// starting.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            Self::NoServer(_) | Self::Unreachable { .. } => true,
            Self::Call(error) => matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy),
            Self::Announcement { .. } | Self::Token { .. } | Self::BadAnswer { .. } => false,
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

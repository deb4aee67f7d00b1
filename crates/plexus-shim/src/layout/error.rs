//! Errors of a run directory, by what the caller can do about them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file of a run directory could not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum LayoutError {
    /// The file system refused; trying again later may help.
    Io {
        /// The operation that failed, as a verb.
        doing: &'static str,
        /// The file or directory of the operation.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file exists, but its content is not what it should be.
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's error. It never quotes the content.
        source: serde_json::Error,
    },
    /// The file was written by a newer release.
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version that it states.
        found: u32,
    },
    /// A message for the child's stdin is not one JSON object on one line.
    BadMessage(&'static str),
}

impl LayoutError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_path_buf(), source }
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, .. } => write!(f, "could not {doing} {}", path.display()),
            Self::Malformed { path, .. } => {
                write!(f, "{} does not hold what it should", path.display())
            }
            Self::NewerFormat { path, found } => {
                write!(
                    f,
                    "{} has format {found}, newer than the {} known here",
                    path.display(),
                    super::FORMAT_VERSION
                )
            }
            Self::BadMessage(why) => write!(f, "not a message for the child: {why}"),
        }
    }
}

impl std::error::Error for LayoutError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Malformed { source, .. } => Some(source),
            Self::NewerFormat { .. } | Self::BadMessage(_) => None,
        }
    }
}

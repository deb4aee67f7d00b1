//! Reads lines that another process writes into files: while the files grow, across restarts, a
//! bounded amount at a time.
//!
//! [`Journal`] reads one file and [`JournalDir`] a directory of numbered segments. Both return
//! complete lines, each with the position after it. A reader that stores this position together
//! with its result can continue exactly there, even in another process. [`JournalWatcher`] wakes
//! many readers when a journal grows.

mod dir;
mod file;
mod segment;
mod watch;

use std::io;
use std::path::PathBuf;

pub use dir::{JournalDir, Position};
pub use file::{Journal, JournalEvent};
pub use watch::{Growth, JournalWatcher, SAFETY_INTERVAL};

use crate::line::DEFAULT_MAX_LINE_BYTES;
use crate::{LineError, LineParser};

/// How a journal is read.
#[derive(Debug, Clone, Copy)]
pub struct JournalOptions {
    /// The longest line that is read. A longer line is skipped and reported.
    pub max_line_bytes: usize,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { max_line_bytes: DEFAULT_MAX_LINE_BYTES }
    }
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalLine<P> {
    /// What was read.
    pub content: LineContent,
    /// The position at which to continue after this line.
    pub position_after: P,
}

/// What was read of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineContent {
    /// All of it, without its newline.
    Whole(Vec<u8>),
    /// It was longer than the limit.
    TooLong {
        /// Its true size.
        size: u64,
        /// Its first 512 bytes, where agents write the id of a request.
        head: Vec<u8>,
    },
}

impl LineContent {
    /// Parses the line as an event; a skipped line is an error.
    pub fn parse<P: LineParser>(&self, parser: &mut P) -> Result<Option<P::Event>, LineError> {
        match self {
            Self::Whole(bytes) => parser.parse_bytes(bytes),
            Self::TooLong { size, .. } => Err(LineError::too_long(*size)),
        }
    }
}

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file system operation failed.
    #[error("could not read the journal at {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The file is shorter than the position, so it is not the file that the position was taken
    /// from.
    #[error("the journal at {} has {len} bytes, less than the position {offset}", path.display())]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// The position.
        offset: u64,
        /// The length of the file.
        len: u64,
    },
}

//! Reads lines that somebody else writes into files: while they grow, across restarts, a bounded
//! amount at a time.
//!
//! [`Journal`] reads one file and [`JournalDir`] a directory of numbered segments. Both hand out
//! whole lines together with the position after each, so that a reader which stores the position
//! with what it made of the line goes on exactly there, in another process too. [`JournalWatcher`]
//! wakes many readers when there is more.

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
    /// A longer line is skipped and reported.
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
    /// Where to go on after it.
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
        /// Its first 512 bytes, in which agents write the id of a request.
        head: Vec<u8>,
    },
}

impl LineContent {
    /// Reads the line as an event; a skipped line is the error that says so.
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
    /// The file system said no.
    #[error("could not read the journal at {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is shorter than the position: it is not the file that the position was taken from.
    #[error("the journal at {} has {len} bytes, less than the position {offset}", path.display())]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// The position.
        offset: u64,
        /// Its length.
        len: u64,
    },
}

//! The common base for protocols of JSON lines with a child process. It knows no particular
//! protocol.
//!
//! In reading order:
//!
//! - [`json`]: one scan of a line, typed parts that share its allocation, and
//!   [`json_object!`](crate::json_object) to declare them.
//! - [`LineParser`]: implemented by each protocol, turns bytes into one typed event; [`LineError`]:
//!   why a line could not be read.
//! - [`LineSplitter`]: cuts bytes into lines, with a limit on each.
//! - [`journal`]: reads lines from files that another process writes, and continues after a
//!   restart.
//! - [`ProcessTree`]: a child with everything it starts, ended as one.
//! - [`child`]: starts a program and yields its events while it lives.
//! - [`rpc`]: the common base for protocols of requests and answers, including a live connection.
//! - [`recording`]: reads recorded conversations, for tests and statistics.
//! - [`ask_version`]: asks a program for its version.
#![doc = concat!("\n", include_str!("../README.md"))]

pub mod child;
mod error;
pub mod journal;
pub mod json;
mod line;
mod process;
pub mod recording;
pub mod rpc;
mod version;

pub use error::{LineError, LineErrorCode};
pub use line::{DEFAULT_MAX_LINE_BYTES, LineSplitter, SKIPPED_HEAD_BYTES, SplitLine};
pub use process::ProcessTree;
pub use version::{CliVersion, VERSION_TIMEOUT, VersionError, ask_version};

/// Turns the bytes of one line into one typed event.
pub trait LineParser {
    /// The typed form of a line.
    type Event: Send + 'static;

    /// Reads one line, with or without its line ending. A blank line is `Ok(None)`.
    fn parse_bytes(&mut self, line: &[u8]) -> Result<Option<Self::Event>, LineError>;
}

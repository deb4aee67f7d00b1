//! Turns one line of the server into one typed line.

use agent_lines::json::{LineReader, Repairs, Value};
use agent_lines::{LineError, LineParser};

use crate::event::ServerLine;

/// Reads the lines of the server. Between lines it keeps only memory to reuse, and nothing of a
/// line.
#[derive(Debug, Default)]
pub struct CodexParser {
    reader: LineReader,
}

impl CodexParser {
    /// Creates a parser.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one line, with or without its line ending. A blank line is `Ok(None)`.
    pub fn parse_line(&mut self, line: &str) -> Result<Option<ServerLine>, LineError> {
        self.reader.read_str(line, read_line)?.transpose()
    }

    /// Reads one line of bytes. Bytes that are not UTF-8 are replaced, and the line says so.
    pub fn parse_bytes(&mut self, line: &[u8]) -> Result<Option<ServerLine>, LineError> {
        self.reader.read_bytes(line, read_line)?.transpose()
    }
}

impl LineParser for CodexParser {
    type Event = ServerLine;

    fn parse_bytes(&mut self, line: &[u8]) -> Result<Option<ServerLine>, LineError> {
        Self::parse_bytes(self, line)
    }
}

fn read_line(root: Value<'_>, repairs: Repairs) -> Result<ServerLine, LineError> {
    ServerLine::read(root, repairs).map_err(no_line)
}

/// Returns the error for a line that lacks a required part.
pub(crate) fn no_line(missing: &'static str) -> LineError {
    LineError::typed("a line is not one of the app-server protocol", missing)
}

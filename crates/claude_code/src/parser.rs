//! Turns one line into one event.

use std::borrow::Cow;

use agent_lines::LineParser;
use agent_lines::json::{LineReader, Repairs, Value};
pub use agent_lines::{
    LineError as ClaudeStreamJsonParseError, LineErrorCode as ClaudeStreamJsonParseErrorCode,
};

use crate::event::ClaudeStreamJsonEvent;

/// Reads stream-json, line by line. Between lines it keeps only memory to reuse, and nothing of a
/// line.
#[derive(Debug, Default)]
pub struct ClaudeStreamJsonParser {
    reader: LineReader,
}

/// The few fields that route a line, borrowed from it: a fast path for callers that pass lines on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The outer `type`.
    pub event_type: Cow<'a, str>,
    /// The outer `subtype`.
    pub subtype: Option<Cow<'a, str>>,
    /// The CLI's session.
    pub session_id: Option<Cow<'a, str>>,
    /// The line's own id.
    pub uuid: Option<Cow<'a, str>>,
    /// The whole line, without surrounding white space.
    pub raw: &'a str,
}

impl ClaudeStreamJsonParser {
    /// Creates a parser.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frees the memory that was kept for reuse.
    pub fn reset(&mut self) {
        self.reader.reset();
    }

    /// Reads one line, with or without its line ending. A blank line is `Ok(None)`.
    pub fn parse_line(
        &mut self,
        line: &str,
    ) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
        self.reader.read_str(line, read_event)?.transpose()
    }

    /// Reads one line of bytes. Bytes that are not UTF-8 are replaced, and the event says so.
    pub fn parse_bytes(
        &mut self,
        line: &[u8],
    ) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
        self.reader.read_bytes(line, read_event)?.transpose()
    }

    /// Reads an event that is already a JSON value. The error is never
    /// [`ClaudeStreamJsonParseErrorCode::JsonParse`].
    pub fn parse_json(
        &mut self,
        value: &serde_json::Value,
    ) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
        self.parse_line(&value.to_string()).map_err(|error| ClaudeStreamJsonParseError {
            code: ClaudeStreamJsonParseErrorCode::TypedParse,
            ..error
        })
    }

    /// Reads only the fields that route a line, without allocating. The whole line is validated all
    /// the same.
    pub fn parse_envelope<'a>(
        &mut self,
        line: &'a str,
    ) -> Result<Option<Envelope<'a>>, ClaudeStreamJsonParseError> {
        let (mut event_type, mut subtype, mut session_id, mut session_id_camel, mut uuid) =
            (None, None, None, None, None);
        let raw = self.reader.read_outer(line, |key, value| match key {
            "type" => event_type = value,
            "subtype" => subtype = value,
            "session_id" => session_id = value,
            "sessionId" => session_id_camel = value,
            "uuid" => uuid = value,
            _ => {}
        })?;
        let Some(raw) = raw else { return Ok(None) };
        Ok(Some(Envelope {
            raw: raw.map_err(|_| no_event("not an object"))?,
            event_type: event_type.ok_or_else(|| no_event("no string `type`"))?,
            subtype,
            session_id: session_id.or(session_id_camel),
            uuid,
        }))
    }
}

impl LineParser for ClaudeStreamJsonParser {
    type Event = ClaudeStreamJsonEvent;

    fn parse_bytes(
        &mut self,
        line: &[u8],
    ) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
        Self::parse_bytes(self, line)
    }
}

fn read_event(
    root: Value<'_>,
    repairs: Repairs,
) -> Result<ClaudeStreamJsonEvent, ClaudeStreamJsonParseError> {
    if !root.is_object() {
        return Err(no_event("not an object"));
    }
    ClaudeStreamJsonEvent::read(root, repairs).map_err(no_event)
}

/// Returns the error for a line that lacks a required part.
fn no_event(missing: &'static str) -> ClaudeStreamJsonParseError {
    ClaudeStreamJsonParseError::typed(
        "a line of the CLI's output is not a stream-json event",
        missing,
    )
}

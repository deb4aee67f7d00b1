//! Turns one line into one event.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::event::{ClaudeStreamJsonEvent, Repairs};
use crate::json::{Line, MAX_DEPTH, Node, Recorded, ScanError, Scanned, scan};

/// The index of a line is kept for the next one up to this many values (1 MiB), so that one huge line does not hold
/// its memory for the rest of the run.
const KEPT_NODES: usize = 64 * 1024;

/// Reads stream-json, line by line. Holds nothing of a line after it was read, only memory to reuse.
#[derive(Debug, Default)]
pub struct ClaudeStreamJsonParser {
    nodes: Vec<Node>,
}

/// What went wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaudeStreamJsonParseErrorCode {
    /// The line is not JSON.
    JsonParse,
    /// The line is JSON, and not an event.
    TypedParse,
    /// The line is longer than the reader's limit and was skipped.
    LineTooLong,
}

/// A line that could not be read. It holds nothing of the line itself: whoever logs it leaks nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClaudeStreamJsonParseError {
    /// What went wrong.
    pub code: ClaudeStreamJsonParseErrorCode,
    /// The same for a person.
    pub message: String,
    /// Where and how, without any byte of the line.
    pub details: String,
    /// The true size of a line that was too long.
    pub line_bytes: Option<u64>,
}

/// The few fields that route a line, borrowed from it: the fast path for whoever passes lines on.
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

    /// Gives back the memory that was kept for reuse.
    pub fn reset(&mut self) {
        self.nodes = Vec::new();
    }

    /// Reads one line, with or without its line ending. A blank line is `Ok(None)`.
    pub fn parse_line(
        &mut self,
        line: &str,
    ) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
        self.parse_str(line, Repairs::default())
    }

    /// Reads one line of bytes. What is not UTF-8 is replaced, and the event says so.
    pub fn parse_bytes(
        &mut self,
        line: &[u8],
    ) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
        match std::str::from_utf8(line) {
            Ok(line) => self.parse_str(line, Repairs::default()),
            Err(_) => {
                let repairs = Repairs { invalid_utf8: true, ..Repairs::default() };
                self.parse_str(&String::from_utf8_lossy(line), repairs)
            }
        }
    }

    /// Reads an event that is already a JSON value. Never [`ClaudeStreamJsonParseErrorCode::JsonParse`].
    pub fn parse_json(
        &mut self,
        value: &serde_json::Value,
    ) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
        self.parse_line(&value.to_string()).map_err(|error| ClaudeStreamJsonParseError {
            code: ClaudeStreamJsonParseErrorCode::TypedParse,
            ..error
        })
    }

    /// Reads only what routes a line, without allocating. The whole line is validated all the same.
    pub fn parse_envelope<'a>(
        &mut self,
        line: &'a str,
    ) -> Result<Option<Envelope<'a>>, ClaudeStreamJsonParseError> {
        let line = trim(line);
        if line.is_empty() {
            return Ok(None);
        }
        scan(line, Recorded::Outer, &mut self.nodes).map_err(ClaudeStreamJsonParseError::scan)?;
        Envelope::read(line, &self.nodes).map(Some)
    }

    fn parse_str(
        &mut self,
        line: &str,
        mut repairs: Repairs,
    ) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
        let line = trim(line);
        if line.is_empty() {
            return Ok(None);
        }
        let scanned = scan(line, Recorded::Everything, &mut self.nodes)
            .map_err(ClaudeStreamJsonParseError::scan)?;
        let text: Arc<str> = if scanned.lone_surrogates.is_empty() {
            Arc::from(line)
        } else {
            repairs.lone_surrogate = true;
            Arc::from(replace_lone_surrogates(line, &scanned))
        };
        let index = Line::new(&text, &self.nodes);
        let event = match index.root() {
            Some(root) if root.is_object() => ClaudeStreamJsonEvent::read(root, repairs)
                .map_err(ClaudeStreamJsonParseError::typed),
            _ => Err(ClaudeStreamJsonParseError::typed("not an object")),
        };
        self.nodes.clear();
        self.nodes.shrink_to(KEPT_NODES);
        event.map(Some)
    }
}

/// Removes what may stand around an object: white space, a carriage return, a byte order mark.
fn trim(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{feff}')
}

/// The escape of the replacement character is as long as the broken one, so every offset of the scan stays right.
fn replace_lone_surrogates(line: &str, scanned: &Scanned) -> String {
    const ESCAPE: &str = "\\ufffd";
    let mut text = String::with_capacity(line.len());
    let mut copied = 0;
    for &at in &scanned.lone_surrogates {
        text.push_str(line.get(copied..at).unwrap_or_default());
        text.push_str(ESCAPE);
        copied = at + ESCAPE.len();
    }
    text.push_str(line.get(copied..).unwrap_or_default());
    text
}

impl<'a> Envelope<'a> {
    fn read(line: &'a str, nodes: &[Node]) -> Result<Self, ClaudeStreamJsonParseError> {
        let (mut event_type, mut subtype, mut session_id, mut session_id_camel, mut uuid) =
            (None, None, None, None, None);
        crate::json::each_outer_string(line, nodes, |key, value| match key {
            "type" => event_type = value,
            "subtype" => subtype = value,
            "session_id" => session_id = value,
            "sessionId" => session_id_camel = value,
            "uuid" => uuid = value,
            _ => {}
        })
        .ok_or_else(|| ClaudeStreamJsonParseError::typed("not an object"))?;
        let event_type =
            event_type.ok_or_else(|| ClaudeStreamJsonParseError::typed("no string `type`"))?;
        Ok(Self {
            event_type,
            subtype,
            session_id: session_id.or(session_id_camel),
            uuid,
            raw: line,
        })
    }
}

impl ClaudeStreamJsonParseError {
    fn scan(error: ScanError) -> Self {
        let details = match error {
            ScanError::Unexpected { at } => format!("unexpected byte at offset {at}"),
            ScanError::Truncated => "the line ends inside a value".to_owned(),
            ScanError::TooDeep { at } => {
                format!("more than {MAX_DEPTH} levels of nesting at offset {at}")
            }
            ScanError::TooLong => "the line is 4 GiB or longer".to_owned(),
        };
        Self {
            code: ClaudeStreamJsonParseErrorCode::JsonParse,
            message: "a line of the CLI's output is not valid JSON".to_owned(),
            details,
            line_bytes: None,
        }
    }

    fn typed(missing: &'static str) -> Self {
        Self {
            code: ClaudeStreamJsonParseErrorCode::TypedParse,
            message: "a line of the CLI's output is not a stream-json event".to_owned(),
            details: missing.to_owned(),
            line_bytes: None,
        }
    }

    /// The error for a line of `size` bytes that was skipped.
    pub(crate) fn line_too_long(size: u64) -> Self {
        Self {
            code: ClaudeStreamJsonParseErrorCode::LineTooLong,
            message: "a line of the CLI's output is too long and was skipped".to_owned(),
            details: format!("{size} bytes"),
            line_bytes: Some(size),
        }
    }
}

impl fmt::Display for ClaudeStreamJsonParseErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JsonParse => "JsonParse",
            Self::TypedParse => "TypedParse",
            Self::LineTooLong => "LineTooLong",
        })
    }
}

//! Reads one line after another and reuses the memory of the index.

use std::borrow::Cow;
use std::sync::Arc;

use super::scan::Scanned;
use super::tree::each_outer_string;
use super::{Line, Node, Recorded, ScanError, Value, scan};

/// How many values the index may have (1 MiB) to be kept for the next line. A larger one is freed,
/// so that one huge line does not occupy its memory for the rest of the run.
const KEPT_NODES: usize = 64 * 1024;

/// Scans lines. Between lines it keeps only memory to reuse, and nothing of a line.
#[derive(Debug, Default)]
pub struct LineReader {
    nodes: Vec<Node>,
}

/// The changes that made a line readable. If none is set, the raw JSON is exactly what the other
/// side wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repairs {
    /// Bytes that are not UTF-8 became replacement characters.
    pub invalid_utf8: bool,
    /// An escape of half a surrogate pair became the escape of a replacement character.
    pub lone_surrogate: bool,
}

impl Repairs {
    /// Returns whether anything was changed.
    pub fn any(self) -> bool {
        self.invalid_utf8 || self.lone_surrogate
    }
}

impl LineReader {
    /// Creates a reader.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frees the memory that was kept for reuse.
    pub fn reset(&mut self) {
        self.nodes = Vec::new();
    }

    /// Scans one line, with or without its line ending, and passes its value to `read`. A blank
    /// line is `Ok(None)`.
    #[inline]
    pub fn read_str<T>(
        &mut self,
        line: &str,
        read: impl FnOnce(Value<'_>, Repairs) -> T,
    ) -> Result<Option<T>, ScanError> {
        self.read_repaired(line, Repairs::default(), read)
    }

    /// Scans one line of bytes and passes its value to `read`. Bytes that are not UTF-8 are
    /// replaced, and the repairs say so.
    #[inline]
    pub fn read_bytes<T>(
        &mut self,
        line: &[u8],
        read: impl FnOnce(Value<'_>, Repairs) -> T,
    ) -> Result<Option<T>, ScanError> {
        match std::str::from_utf8(line) {
            Ok(line) => self.read_repaired(line, Repairs::default(), read),
            Err(_) => {
                let repairs = Repairs { invalid_utf8: true, ..Repairs::default() };
                self.read_repaired(&String::from_utf8_lossy(line), repairs, read)
            }
        }
    }

    /// Calls `each` with every key of the line's object, and with its value if that is a string,
    /// without copying a byte. Returns the line without its surroundings (see `trim`). The whole
    /// line is validated all the same. A blank line is `Ok(None)`; for a value that is not an
    /// object the inner result is `Err(NotAnObject)`.
    #[inline]
    pub fn read_outer<'a>(
        &mut self,
        line: &'a str,
        each: impl FnMut(&str, Option<Cow<'a, str>>),
    ) -> Result<Option<Result<&'a str, NotAnObject>>, ScanError> {
        let line = trim(line);
        if line.is_empty() {
            return Ok(None);
        }
        scan(line, Recorded::Outer, &mut self.nodes)?;
        let found = each_outer_string(line, &self.nodes, each);
        Ok(Some(found.map(|()| line).ok_or(NotAnObject)))
    }

    #[inline]
    fn read_repaired<T>(
        &mut self,
        line: &str,
        mut repairs: Repairs,
        read: impl FnOnce(Value<'_>, Repairs) -> T,
    ) -> Result<Option<T>, ScanError> {
        let line = trim(line);
        if line.is_empty() {
            return Ok(None);
        }
        let scanned = scan(line, Recorded::Everything, &mut self.nodes)?;
        let text: Arc<str> = if scanned.lone_surrogates.is_empty() {
            Arc::from(line)
        } else {
            repairs.lone_surrogate = true;
            Arc::from(replace_lone_surrogates(line, &scanned))
        };
        let index = Line::new(&text, &self.nodes);
        let read = index.root().map(|root| read(root, repairs));
        self.nodes.clear();
        self.nodes.shrink_to(KEPT_NODES);
        Ok(read)
    }
}

/// The line's value is a string, a number, an array or a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnObject;

/// Removes what may surround a value: white space, a carriage return, a byte order mark.
#[inline]
fn trim(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{feff}')
}

/// Replaces escapes of half a surrogate pair. The escape of the replacement character has the same
/// length, so every offset of the scan stays right.
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

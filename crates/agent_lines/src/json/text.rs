//! A string of a line: a slice of the line, decoded when first read.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::unescape;

/// A string inside a line. It shares the allocation of its line: cloning it is cheap, and holding
/// it keeps the line in memory. `to_string()` makes an independent copy.
///
/// It reads like a `&str`. A string that has escapes is decoded the first time it is read.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    Empty,
    Slice { line: Arc<str>, start: u32, len: u32 },
    Escaped(Arc<Escaped>),
}

struct Escaped {
    line: Arc<str>,
    start: u32,
    len: u32,
    decoded: OnceLock<String>,
}

impl Text {
    /// Creates the plain text at `start`.
    #[inline]
    pub(super) fn slice(line: Arc<str>, start: u32, len: u32) -> Self {
        Self(Repr::Slice { line, start, len })
    }

    /// Creates the text whose escaped form is at `start`.
    pub(super) fn escaped(line: Arc<str>, start: u32, len: u32) -> Self {
        Self(Repr::Escaped(Arc::new(Escaped { line, start, len, decoded: OnceLock::new() })))
    }

    /// Returns the text, decoding it on the first call.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Empty => "",
            Repr::Slice { line, start, len } => part(line, *start, *len),
            Repr::Escaped(escaped) => escaped
                .decoded
                .get_or_init(|| unescape(part(&escaped.line, escaped.start, escaped.len))),
        }
    }
}

/// Returns a part of the line. It always exists, because the scanner only records offsets between
/// ASCII bytes of the same line.
#[inline]
fn part(line: &str, start: u32, len: u32) -> &str {
    line.get(start as usize..start as usize + len as usize).unwrap_or_default()
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    /// Copies `text`. A text of 4 GiB or more, which no line can hold, is cut.
    fn from(text: &str) -> Self {
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Self::slice(Arc::from(text), 0, len)
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl Default for Text {
    fn default() -> Self {
        Self(Repr::Empty)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl std::hash::Hash for Text {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

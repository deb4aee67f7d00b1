//! Validates one line of JSON and writes an index of its values, in one pass and without copying a
//! byte.
//!
//! The scanner accepts exactly what `serde_json` accepts (a test compares the two on generated
//! input), with one exception: an escape of half a surrogate pair is accepted and reported, because
//! losing a whole event over one broken character in a tool's output would be worse. Recursion is
//! bounded by [`MAX_DEPTH`].

use super::block::{BLOCK_BYTES, Masks, escaped, masks, short_end, simple_escapes};

/// How deeply arrays and objects may be nested: the limit of `serde_json`, so that a caller can
/// read any part of an event with it.
pub const MAX_DEPTH: u32 = 127;

/// The kind of a [`Node`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An object; its children are keys and values in turn.
    Object,
    /// An array; its children are its items.
    Array,
    /// A string without escapes: the bytes between the quotes are its text.
    Plain,
    /// A string with escapes.
    Escaped,
    /// A number.
    Number,
    /// `true`.
    True,
    /// `false`.
    False,
    /// `null`.
    Null,
}

/// One value (or key) of the line, in document order. It has sixteen bytes, so that the index stays
/// a small multiple of the line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Offset of the first byte.
    pub(super) start: u32,
    /// Offset after the last byte.
    pub(super) end: u32,
    /// Index of the next node outside this one.
    pub(super) next: u32,
    /// The kind of the value.
    pub(super) kind: Kind,
}

/// How much of the line is indexed. The whole line is validated either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// The outer object's own keys and values; their contents are only validated.
    Outer,
    /// Every value.
    Everything,
}

/// The findings of a scan besides the index.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// Offsets of `\uXXXX` escapes that are half a surrogate pair.
    pub(super) lone_surrogates: Vec<usize>,
}

/// Why a line is not JSON. It contains an offset and nothing of the line itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanError {
    /// A byte that is not allowed at its place.
    Unexpected {
        /// Its offset.
        at: usize,
    },
    /// The line ends inside a value.
    Truncated,
    /// More than [`MAX_DEPTH`] levels.
    TooDeep {
        /// The offset of the first value that is too deep.
        at: usize,
    },
    /// The line is too long for offsets of 32 bits.
    TooLong,
}

/// Scans `line` into `nodes`, which is cleared first. Node 0 is the value itself.
pub(super) fn scan(
    line: &str,
    recorded: Recorded,
    nodes: &mut Vec<Node>,
) -> Result<Scanned, ScanError> {
    nodes.clear();
    if u32::try_from(line.len()).is_err() {
        return Err(ScanError::TooLong);
    }
    let recorded_depth = match recorded {
        Recorded::Outer => 1,
        Recorded::Everything => u32::MAX,
    };
    let mut scanner =
        Scanner { bytes: line.as_bytes(), at: 0, nodes, recorded_depth, found: Scanned::default() };
    scanner.value(0)?;
    match scanner.next_byte() {
        None => Ok(scanner.found),
        Some(_) => Err(ScanError::Unexpected { at: scanner.at }),
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: &'a mut Vec<Node>,
    recorded_depth: u32,
    found: Scanned,
}

impl Scanner<'_> {
    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    fn next_byte(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    #[inline]
    fn unexpected<T>(&self) -> Result<T, ScanError> {
        if self.at < self.bytes.len() {
            Err(ScanError::Unexpected { at: self.at })
        } else {
            Err(ScanError::Truncated)
        }
    }

    /// Scans one value; `depth` is the number of containers around it.
    fn value(&mut self, depth: u32) -> Result<(), ScanError> {
        let Some(byte) = self.next_byte() else { return Err(ScanError::Truncated) };
        match byte {
            b'"' => self.string(depth),
            b'{' => self.container(depth, Kind::Object, b'}'),
            b'[' => self.container(depth, Kind::Array, b']'),
            b'-' | b'0'..=b'9' => self.number(depth),
            b't' => self.literal(depth, b"true", Kind::True),
            b'f' => self.literal(depth, b"false", Kind::False),
            b'n' => self.literal(depth, b"null", Kind::Null),
            _ => self.unexpected(),
        }
    }

    fn container(&mut self, depth: u32, kind: Kind, close: u8) -> Result<(), ScanError> {
        if depth >= MAX_DEPTH {
            return Err(ScanError::TooDeep { at: self.at });
        }
        let own = self.open(depth, kind);
        self.at += 1;
        if self.next_byte() == Some(close) {
            self.at += 1;
            self.close(own);
            return Ok(());
        }
        loop {
            if kind == Kind::Object {
                if self.next_byte() != Some(b'"') {
                    return self.unexpected();
                }
                self.string(depth + 1)?;
                if self.next_byte() != Some(b':') {
                    return self.unexpected();
                }
                self.at += 1;
            }
            self.value(depth + 1)?;
            match self.next_byte() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {
                    self.at += 1;
                    self.close(own);
                    return Ok(());
                }
                _ => return self.unexpected(),
            }
        }
    }

    /// Scans a string, in blocks as long as whole blocks remain.
    #[inline]
    fn string(&mut self, depth: u32) -> Result<(), ScanError> {
        let start = self.at;
        let mut kind = Kind::Plain;
        let mut at = start + 1;
        if let Some(end) =
            self.bytes.get(at..).and_then(|rest| rest.first_chunk()).and_then(short_end)
        {
            self.at = at + end + 1;
            self.leaf(depth, start, kind);
            return Ok(());
        }
        let mut carry = false;
        while let Some(block) =
            self.bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK_BYTES>())
        {
            let Masks { quotes, backslashes, controls } = masks(block);
            let carried = carry;
            let hidden =
                if backslashes == 0 && !carry { 0 } else { escaped(backslashes, &mut carry) };
            let ends = quotes & !hidden;
            // The bytes of this block that are inside the string.
            let inside = if ends == 0 { u64::MAX } else { (ends & ends.wrapping_neg()) - 1 };
            // The careful loop below reads this block again if it has anything wrong or rare. It
            // starts at the first byte of the block, or at the backslash before it that escapes
            // that byte.
            let is_odd = controls & inside != 0
                || (hidden & inside != 0 && hidden & inside & !simple_escapes(block) != 0);
            if is_odd {
                self.at = at - usize::from(carried);
                return self.string_slowly(depth, start);
            }
            if hidden & inside != 0 {
                kind = Kind::Escaped;
            }
            if ends != 0 {
                self.at = at + ends.trailing_zeros() as usize + 1;
                self.leaf(depth, start, kind);
                return Ok(());
            }
            at += BLOCK_BYTES;
        }
        self.at = at - usize::from(carry);
        self.string_slowly(depth, start)
    }

    /// Continues a string byte by byte: for the end of the line, `\u` escapes and errors.
    fn string_slowly(&mut self, depth: u32, start: usize) -> Result<(), ScanError> {
        let mut kind = Kind::Escaped;
        if self.bytes.get(start..self.at).is_some_and(|before| !before.contains(&b'\\')) {
            kind = Kind::Plain;
        }
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    self.leaf(depth, start, kind);
                    return Ok(());
                }
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                Some(_) | None => return self.unexpected(),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => self.unicode_escape(),
            Some(_) => Err(ScanError::Unexpected { at: self.at + 1 }),
            None => Err(ScanError::Truncated),
        }
    }

    fn unicode_escape(&mut self) -> Result<(), ScanError> {
        let unit = self.code_unit(self.at)?;
        match unit {
            0xD800..=0xDBFF => {
                let second = self.at + 6;
                let paired = self.bytes.get(second..second + 2) == Some(b"\\u")
                    && matches!(self.code_unit(second)?, 0xDC00..=0xDFFF);
                if paired {
                    self.at += 12;
                    return Ok(());
                }
                self.found.lone_surrogates.push(self.at);
            }
            0xDC00..=0xDFFF => self.found.lone_surrogates.push(self.at),
            _ => {}
        }
        self.at += 6;
        Ok(())
    }

    /// Returns the number in the `\uXXXX` that begins at `at`.
    fn code_unit(&self, at: usize) -> Result<u32, ScanError> {
        let Some(digits) = self.bytes.get(at + 2..at + 6) else { return Err(ScanError::Truncated) };
        digits.iter().enumerate().try_fold(0, |unit, (i, digit)| {
            match char::from(*digit).to_digit(16) {
                Some(digit) => Ok(unit << 4 | digit),
                None => Err(ScanError::Unexpected { at: at + 2 + i }),
            }
        })
    }

    fn number(&mut self, depth: u32) -> Result<(), ScanError> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.unexpected(),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        self.leaf(depth, start, Kind::Number);
        Ok(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), ScanError> {
        let before = self.at;
        self.digits();
        if self.at == before { self.unexpected() } else { Ok(()) }
    }

    fn literal(&mut self, depth: u32, word: &[u8], kind: Kind) -> Result<(), ScanError> {
        let start = self.at;
        for letter in word {
            if self.bytes.get(self.at) != Some(letter) {
                return self.unexpected();
            }
            self.at += 1;
        }
        self.leaf(depth, start, kind);
        Ok(())
    }

    #[inline]
    fn leaf(&mut self, depth: u32, start: usize, kind: Kind) {
        if depth <= self.recorded_depth {
            let next = self.nodes.len() as u32 + 1;
            self.nodes.push(Node { start: start as u32, end: self.at as u32, next, kind });
        }
    }

    #[inline]
    fn open(&mut self, depth: u32, kind: Kind) -> Option<usize> {
        (depth <= self.recorded_depth).then(|| {
            self.nodes.push(Node { start: self.at as u32, end: 0, next: 0, kind });
            self.nodes.len() - 1
        })
    }

    #[inline]
    fn close(&mut self, own: Option<usize>) {
        let next = self.nodes.len() as u32;
        if let Some(node) = own.and_then(|own| self.nodes.get_mut(own)) {
            node.end = self.at as u32;
            node.next = next;
        }
    }
}

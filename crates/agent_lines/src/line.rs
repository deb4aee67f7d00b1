//! Cuts a stream of bytes into lines, with a limit on how much of one line is held.
//!
//! Used by everything that reads a child: the live handle, the journal and the duplex of a
//! protocol.

/// The longest line that is read by default. The largest line seen from an agent is a tool result
/// of a few MiB; a line longer than this is not worth the memory.
pub const DEFAULT_MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// How many bytes of a skipped line are kept: enough to find the id of a request, which agents
/// write within the first 100 bytes.
pub const SKIPPED_HEAD_BYTES: usize = 512;

/// The largest buffer that is kept. A buffer that grew beyond this for a long line is freed.
const KEPT_BUFFER_BYTES: usize = 256 * 1024;

/// One line, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub enum SplitLine<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It was longer than the limit: its true size, and its first [`SKIPPED_HEAD_BYTES`].
    TooLong {
        /// Its true size.
        size: u64,
        /// Its beginning.
        head: &'a [u8],
    },
}

/// Cuts chunks into lines. Buffers at most `max_line_bytes` of an unfinished line.
#[derive(Debug)]
pub struct LineSplitter {
    max_line_bytes: usize,
    /// The unfinished line, or the head of one that is being skipped.
    held: Vec<u8>,
    /// The size so far of a line that is being skipped.
    skipping: Option<u64>,
    /// Whether `held` belongs to a line that was already returned.
    spent: bool,
}

impl LineSplitter {
    /// Creates a splitter that skips lines longer than `max_line_bytes`.
    pub fn new(max_line_bytes: usize) -> Self {
        Self { max_line_bytes, held: Vec::new(), skipping: None, spent: false }
    }

    /// Consumes `input` up to the end of the next line and returns that line; `None` when `input`
    /// is used up.
    pub fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Option<SplitLine<'a>> {
        self.forget_spent();
        match memchr::memchr(b'\n', input) {
            None => {
                self.hold(input);
                *input = &[];
                None
            }
            Some(end) => {
                let (line, rest) = (&input[..end], &input[end + 1..]);
                *input = rest;
                if self.held.is_empty()
                    && self.skipping.is_none()
                    && line.len() <= self.max_line_bytes
                {
                    return Some(SplitLine::Whole(line));
                }
                self.hold(line);
                Some(self.hand_out())
            }
        }
    }

    /// Returns the last line if the stream ended without a newline.
    pub fn finish(&mut self) -> Option<SplitLine<'_>> {
        self.forget_spent();
        (!self.held.is_empty() || self.skipping.is_some()).then(|| self.hand_out())
    }

    fn hold(&mut self, part: &[u8]) {
        if self.skipping.is_none() && self.held.len() + part.len() <= self.max_line_bytes {
            self.held.extend_from_slice(part);
            return;
        }
        let size = self.skipping.unwrap_or(self.held.len() as u64) + part.len() as u64;
        self.skipping = Some(size);
        let missing = SKIPPED_HEAD_BYTES.saturating_sub(self.held.len()).min(part.len());
        self.held.extend_from_slice(&part[..missing]);
        self.held.truncate(SKIPPED_HEAD_BYTES);
        self.held.shrink_to(KEPT_BUFFER_BYTES);
    }

    fn hand_out(&mut self) -> SplitLine<'_> {
        self.spent = true;
        match self.skipping {
            Some(size) => SplitLine::TooLong { size, head: &self.held },
            None => SplitLine::Whole(&self.held),
        }
    }

    fn forget_spent(&mut self) {
        if self.spent {
            self.spent = false;
            self.skipping = None;
            self.held.clear();
            self.held.shrink_to(KEPT_BUFFER_BYTES);
        }
    }
}

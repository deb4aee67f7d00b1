//! One file of a journal, read from an offset on.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::{JournalError, LineContent};
use crate::line::{LineSplitter, SplitLine};

/// How much is read from the file at first. Most reads find a line or two, and a buffer is cleared
/// before it is used.
const FIRST_CHUNK_BYTES: usize = 8 * 1024;

/// How much is read at once when there is more.
const CHUNK_BYTES: usize = 64 * 1024;

/// A file and how far it was read. Everything between `line_start` and `read_to` is an unfinished
/// line.
#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    /// `None` until the file exists and is opened.
    file: Option<File>,
    /// The offset after the last line that was returned.
    line_start: u64,
    /// The offset after the last byte that was read.
    read_to: u64,
    splitter: LineSplitter,
}

/// Why a read stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// There is nothing more to read for now.
    AtEnd,
    /// The budget is used up.
    AtBudget,
}

impl Segment {
    pub(super) fn new(path: PathBuf, offset: u64, max_line_bytes: usize) -> Self {
        Self {
            path,
            file: None,
            line_start: offset,
            read_to: offset,
            splitter: LineSplitter::new(max_line_bytes),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file was found and is open.
    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the offset after the last line that was returned.
    pub(super) fn offset(&self) -> u64 {
        self.line_start
    }

    /// Returns the offset after the last byte that was read.
    pub(super) fn read_to(&self) -> u64 {
        self.read_to
    }

    /// Reads about `max_bytes`, and calls `each` with every complete line and the offset after it.
    /// A file that does not exist yet counts as empty.
    pub(super) fn read(
        &mut self,
        max_bytes: usize,
        mut each: impl FnMut(LineContent, u64),
    ) -> Result<Stopped, JournalError> {
        let mut budget = max_bytes;
        let mut chunk = vec![0; FIRST_CHUNK_BYTES.min(max_bytes.max(1))];
        while budget > 0 {
            let wanted = chunk.len().min(budget);
            let got = self.read_chunk(&mut chunk[..wanted])?;
            if got == 0 {
                return Ok(Stopped::AtEnd);
            }
            budget -= got;
            let mut input = &chunk[..got];
            let read_from = self.read_to;
            self.read_to += got as u64;
            while let Some(line) = self.splitter.next(&mut input) {
                let after = read_from + (got - input.len()) as u64;
                each(line.into(), after);
                self.line_start = after;
            }
            if got == chunk.len() {
                chunk.resize(CHUNK_BYTES.min(max_bytes.max(1)), 0);
            }
        }
        Ok(Stopped::AtBudget)
    }

    /// Returns an unfinished last line. Call it only when nobody will finish that line.
    pub(super) fn drain_tail(&mut self) -> Option<(LineContent, u64)> {
        let line = self.splitter.finish()?.into();
        self.line_start = self.read_to;
        Some((line, self.line_start))
    }

    fn read_chunk(&mut self, into: &mut [u8]) -> Result<usize, JournalError> {
        let io_error = |source| JournalError::Io { path: self.path.clone(), source };
        let file = match &mut self.file {
            Some(file) => file,
            closed => match File::open(&self.path) {
                Ok(mut file) => {
                    let len = file.metadata().map_err(io_error)?.len();
                    if len < self.read_to {
                        return Err(JournalError::Shrunk {
                            path: self.path.clone(),
                            offset: self.read_to,
                            len,
                        });
                    }
                    file.seek(SeekFrom::Start(self.read_to)).map_err(io_error)?;
                    closed.insert(file)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                Err(error) => return Err(io_error(error)),
            },
        };
        loop {
            match file.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    return result
                        .map_err(|source| JournalError::Io { path: self.path.clone(), source });
                }
            }
        }
    }
}

impl From<SplitLine<'_>> for LineContent {
    fn from(line: SplitLine<'_>) -> Self {
        match line {
            SplitLine::Whole(bytes) => Self::Whole(bytes.to_vec()),
            SplitLine::TooLong { size, head } => Self::TooLong { size, head: head.to_vec() },
        }
    }
}

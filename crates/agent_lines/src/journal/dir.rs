//! A journal that is a directory of numbered segments: `000001.jsonl`, `000002.jsonl`, …
//!
//! The writer begins a new segment when the current one is large enough, and never returns to an
//! old one. A reader may remove a segment that it has read to its end.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::segment::{Segment, Stopped};
use super::{JournalError, JournalLine, JournalOptions};

/// A place in a directory of segments. The order is the order of writing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Position {
    /// The number in the segment's name.
    pub segment: u64,
    /// The offset in that segment.
    pub offset: u64,
}

impl Position {
    /// The beginning of a journal.
    pub const START: Self = Self { segment: 1, offset: 0 };
}

/// Reads a directory of segments from a position on.
#[derive(Debug)]
pub struct JournalDir {
    dir: PathBuf,
    options: JournalOptions,
    number: u64,
    current: Segment,
}

impl JournalDir {
    /// Opens the directory at `position`: [`Position::START`], or the position that an earlier
    /// reader got with its last line. Neither the directory nor the segment need exist yet.
    pub fn open(dir: impl Into<PathBuf>, position: Position) -> Self {
        Self::open_with(dir, position, JournalOptions::default())
    }

    /// Opens the directory with options.
    pub fn open_with(dir: impl Into<PathBuf>, position: Position, options: JournalOptions) -> Self {
        let dir = dir.into();
        let current = Segment::new(
            segment_path(&dir, position.segment),
            position.offset,
            options.max_line_bytes,
        );
        Self { dir, options, number: position.segment, current }
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns where the next line will begin.
    pub fn position(&self) -> Position {
        Position { segment: self.number, offset: self.current.offset() }
    }

    /// Reads about `max_bytes`, continuing into later segments, and returns the complete lines. A
    /// line longer than `max_bytes` is read to its end, so the result is empty only when the
    /// journal holds no further complete line. Never waits.
    pub fn read_lines(
        &mut self,
        max_bytes: usize,
    ) -> Result<Vec<JournalLine<Position>>, JournalError> {
        let mut lines = Vec::new();
        let mut budget = max_bytes.max(1);
        loop {
            // The search comes before the read: once a later segment exists the current one no
            // longer grows, so the read below finds its final end.
            let later = self.next_segment()?;
            let segment = self.number;
            let before = self.current.read_to();
            let stopped = self.current.read(budget, |content, offset| {
                lines.push(JournalLine { content, position_after: Position { segment, offset } });
            })?;
            budget -= budget.min((self.current.read_to() - before) as usize);
            match (stopped, later) {
                (Stopped::AtEnd, Some(later)) => {
                    // Nobody will finish a partial line at the end of a closed segment.
                    lines.extend(self.drain_tail());
                    self.number = later;
                    self.current = Segment::new(
                        segment_path(&self.dir, later),
                        0,
                        self.options.max_line_bytes,
                    );
                }
                (Stopped::AtBudget, _) if lines.is_empty() => budget = max_bytes.max(1),
                (Stopped::AtEnd, None) | (Stopped::AtBudget, _) => return Ok(lines),
            }
        }
    }

    /// Returns the last line if it has no newline. Call it only after the writer is gone and
    /// [`JournalDir::read_lines`] returned nothing more.
    pub fn drain_tail(&mut self) -> Option<JournalLine<Position>> {
        let segment = self.number;
        self.current.drain_tail().map(|(content, offset)| JournalLine {
            content,
            position_after: Position { segment, offset },
        })
    }

    /// Returns the lowest segment number after the current one. Numbers may be missing, because
    /// segments that were read may have been removed.
    fn next_segment(&self) -> Result<Option<u64>, JournalError> {
        // The usual case takes one lookup instead of a directory listing.
        let following = self.number + 1;
        if segment_path(&self.dir, following).exists() {
            return Ok(Some(following));
        }
        // An open segment existed, and nobody removes a segment before it was read to its end.
        if self.current.is_open() || self.current.path().exists() {
            return Ok(None);
        }
        let io_error = |source| JournalError::Io { path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(error)),
        };
        let mut lowest = None;
        for entry in entries {
            let number = segment_number(&entry.map_err(io_error)?.file_name());
            lowest =
                [lowest, number.filter(|&number| number > self.number)].into_iter().flatten().min();
        }
        Ok(lowest)
    }
}

/// Returns the path of a segment: its number with six digits.
fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.jsonl"))
}

fn segment_number(name: &std::ffi::OsStr) -> Option<u64> {
    name.to_str()?.strip_suffix(".jsonl")?.parse().ok()
}

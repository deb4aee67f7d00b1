//! A journal that is one growing file.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::segment::{Segment, Stopped};
use super::{Growth, JournalError, JournalLine, JournalOptions};
use crate::{LineError, LineParser};

/// How many bytes [`Journal::next_event`] reads ahead.
const READ_AHEAD_BYTES: usize = 256 * 1024;

/// Reads one growing file from an offset on. `P` parses its lines for [`Journal::next_event`].
#[derive(Debug)]
pub struct Journal<P> {
    segment: Segment,
    parser: P,
    /// Lines that were read but not yet returned as events.
    ahead: VecDeque<JournalLine<u64>>,
}

/// One event of a journal, or the error for a line that could not be read.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEvent<E> {
    /// What the line says.
    pub event: Result<E, LineError>,
    /// The offset at which to continue after this line.
    pub offset_after: u64,
}

impl<P: LineParser + Default> Journal<P> {
    /// Opens the journal at `path` from `offset` on: 0, or the offset that an earlier reader got
    /// with its last line. The file need not exist yet.
    pub fn open(path: impl Into<PathBuf>, offset: u64) -> Self {
        Self::open_with(path, offset, JournalOptions::default())
    }

    /// Opens the journal with options.
    pub fn open_with(path: impl Into<PathBuf>, offset: u64, options: JournalOptions) -> Self {
        Self {
            segment: Segment::new(path.into(), offset, options.max_line_bytes),
            parser: P::default(),
            ahead: VecDeque::new(),
        }
    }
}

impl<P: LineParser> Journal<P> {
    /// Returns the file.
    pub fn path(&self) -> &Path {
        self.segment.path()
    }

    /// Reads about `max_bytes` and returns the complete lines. A line longer than `max_bytes` is
    /// read to its end, so the result is empty only when the file holds no further complete line.
    /// Never waits.
    pub fn read_lines(&mut self, max_bytes: usize) -> Result<Vec<JournalLine<u64>>, JournalError> {
        let mut lines: Vec<_> = self.ahead.drain(..).collect();
        loop {
            let stopped = self.segment.read(max_bytes.max(1), |content, position_after| {
                lines.push(JournalLine { content, position_after })
            })?;
            if stopped == Stopped::AtEnd || !lines.is_empty() {
                return Ok(lines);
            }
        }
    }

    /// Returns the last line if it has no newline. Call it only after the writer is gone and
    /// [`Journal::read_lines`] returned nothing more.
    pub fn drain_tail(&mut self) -> Option<JournalLine<u64>> {
        self.segment
            .drain_tail()
            .map(|(content, position_after)| JournalLine { content, position_after })
    }

    /// Returns the next event, waiting with `growth` until there is one. Dropping the future loses
    /// nothing.
    pub async fn next_event(
        &mut self,
        growth: &mut Growth,
    ) -> Result<JournalEvent<P::Event>, JournalError> {
        loop {
            if let Some(event) = self.try_next_event()? {
                return Ok(event);
            }
            growth.wait().await;
        }
    }

    /// Returns the next event if there is one; never waits.
    pub fn try_next_event(&mut self) -> Result<Option<JournalEvent<P::Event>>, JournalError> {
        loop {
            if self.ahead.is_empty() {
                let ahead = &mut self.ahead;
                let stopped = self.segment.read(READ_AHEAD_BYTES, |content, position_after| {
                    ahead.push_back(JournalLine { content, position_after });
                })?;
                if ahead.is_empty() && stopped == Stopped::AtEnd {
                    return Ok(None);
                }
            }
            while let Some(line) = self.ahead.pop_front() {
                if let Some(event) = line.content.parse(&mut self.parser).transpose() {
                    return Ok(Some(JournalEvent { event, offset_after: line.position_after }));
                }
            }
        }
    }
}

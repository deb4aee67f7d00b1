//! The journal's segments: their names, and how to list and remove them.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::{LayoutError, RunDir};

/// The number of a segment, from 1 on; as text it is the file's name, `000001.jsonl`.
///
/// A segment holds lines. It is complete when a segment with a higher number or `exit.json` exists,
/// and may then be removed once it is committed. Numbers go up by one, and skip a name that another
/// process took. A line counts once its newline is there; the last line of the newest segment may
/// still be growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNo(pub u64);

impl SegmentNo {
    /// The first segment of every run.
    pub const FIRST: Self = Self(1);

    /// Returns the segment that comes after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Reads the number from a file's name; `None` when it is not the name of a segment.
    pub fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(".jsonl")?;
        let number = digits.parse().ok()?;
        // Comparing the text refuses other spellings of the same number, such as `+1` or `0000001`.
        (Self(number).to_string() == name && number > 0).then_some(Self(number))
    }
}

impl fmt::Display for SegmentNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}.jsonl", self.0)
    }
}

impl RunDir {
    /// Returns the path of a segment.
    pub fn segment(&self, number: SegmentNo) -> PathBuf {
        self.journal().join(number.to_string())
    }

    /// Removes a segment that is complete and committed, and wakes a shim that waits for room. It
    /// is no error when the segment is gone already.
    pub fn remove_segment(&self, number: SegmentNo) -> Result<(), LayoutError> {
        let path = self.segment(number);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LayoutError::io("remove", &path, error))
            }
            _ => {
                self.wake_shim();
                Ok(())
            }
        }
    }

    /// Returns the existing segments, in order; none when there is no journal.
    pub fn segments(&self) -> Result<Vec<SegmentNo>, LayoutError> {
        let journal = self.journal();
        let failed = |source| LayoutError::io("list", &journal, source);
        let entries = match std::fs::read_dir(&journal) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            found.extend(entry.map_err(failed)?.file_name().to_str().and_then(SegmentNo::parse));
        }
        found.sort_unstable();
        Ok(found)
    }
}

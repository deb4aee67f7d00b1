//! Writes the child's output to disk: segments of whole lines, waiting while the disk is full, and
//! back-pressure.
//!
//! The loop puts bytes into [`Journal::queue`] and calls [`Journal::flush`]. While the queue holds
//! anything the loop reads no more from the child, so the child blocks in its write and nothing is
//! lost.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::time::Duration;

use crate::clock::Moment;
use crate::layout::{RunDir, SegmentNo, create_private};
use crate::lines::KEPT_CAPACITY;

/// How long to wait before a failed write is tried again. Room on a disk appears when a person
/// makes it; a second is soon enough and costs nothing.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How many segment names in a row may already be taken before we report that the journal cannot be
/// written.
const MAX_TAKEN_NAMES: u32 = 1_000;

/// Writes the journal of one run.
#[derive(Debug)]
pub(crate) struct Journal {
    run: RunDir,
    segment_bytes: u64,
    backlog_bytes: u64,
    /// The segment that is written now.
    current: SegmentNo,
    file: File,
    /// How many bytes the current segment holds.
    written: u64,
    /// Whether the last byte written ended a line. A new segment may begin only there.
    at_line_border: bool,
    /// Complete segments that existed when we last looked, with their sizes, oldest first.
    complete: VecDeque<(SegmentNo, u64)>,
    /// Bytes still to be written.
    queue: Vec<u8>,
    /// When to try again after a failed write.
    retry_at: Option<Moment>,
    /// Why the last write failed, for a run that gives up at its end.
    last_error: Option<io::Error>,
}

impl Journal {
    /// Begins the journal with its first segment, which must not exist.
    pub(crate) fn create(run: RunDir, segment_bytes: u64, backlog_bytes: u64) -> io::Result<Self> {
        let current = SegmentNo::FIRST;
        let file = create_private(&run.segment(current))?;
        Ok(Self {
            run,
            segment_bytes,
            backlog_bytes,
            current,
            file,
            written: 0,
            at_line_border: true,
            complete: VecDeque::new(),
            queue: Vec::new(),
            retry_at: None,
            last_error: None,
        })
    }

    /// Returns the buffer that takes bytes to be written.
    pub(crate) fn queue(&mut self) -> &mut Vec<u8> {
        &mut self.queue
    }

    /// Writes the queue, as far as the disk takes it. The rest stays queued: no byte is lost or
    /// written twice.
    pub(crate) fn flush(&mut self, now: Moment) {
        if self.retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.retry_at = None;
        let mut done = 0;
        let outcome = loop {
            match self.write_some(done) {
                Ok(0) => break Ok(()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.queue.drain(..done);
        if self.queue.is_empty() && self.queue.capacity() > KEPT_CAPACITY {
            self.queue = Vec::new();
        }
        self.last_error = outcome.err();
        self.retry_at = self.last_error.is_some().then(|| now.plus(RETRY_PAUSE));
    }

    /// Returns whether everything queued was written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns when [`flush`](Self::flush) will try again after a failure.
    pub(crate) fn retry_at(&self) -> Option<Moment> {
        self.retry_at
    }

    /// Returns why the last write failed, if it did.
    pub(crate) fn last_error(&self) -> Option<&io::Error> {
        self.last_error.as_ref()
    }

    /// Returns whether the server has to take segments before more is read. It is `false` in the
    /// middle of a line: the server can take only complete lines.
    pub(crate) fn is_backlogged(&self) -> bool {
        let complete: u64 = self.complete.iter().map(|(_, size)| size).sum();
        self.at_line_border && complete.saturating_add(self.written) > self.backlog_bytes
    }

    /// Forgets the complete segments that the server has removed, and completes the current one
    /// when it is full, so that the server can take that as well.
    pub(crate) fn look_for_room(&mut self) {
        let run = &self.run;
        self.complete.retain(|(number, _)| std::fs::symlink_metadata(run.segment(*number)).is_ok());
        if self.at_line_border && self.written >= self.segment_bytes {
            self.last_error = self.roll().err();
        }
    }

    /// Writes one slice of the queue, beginning at `done` and ending where a segment has to end,
    /// and returns how many bytes were written.
    fn write_some(&mut self, done: usize) -> io::Result<usize> {
        let rest = self.queue.get(done..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(0);
        }
        if self.at_line_border && self.written >= self.segment_bytes {
            self.roll()?;
        }
        let rest = self.queue.get(done..).unwrap_or_default();
        // The segment ends with the line that holds this byte, if the queue has the end of that
        // line.
        let room = usize::try_from(self.segment_bytes.saturating_sub(self.written))
            .unwrap_or(usize::MAX)
            .max(1);
        let slice =
            match rest.get(room - 1..).and_then(|tail| tail.iter().position(|&byte| byte == b'\n'))
            {
                Some(newline) => rest.get(..room + newline).unwrap_or(rest),
                None => rest,
            };
        plexus_fault::point!("shim.journal.between", when !self.at_line_border);
        plexus_fault::point!("shim.journal.before");
        let count = self.file.write(plexus_fault::cut!("shim.journal.between", slice))?;
        plexus_fault::point!("shim.journal.after");
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.written += count as u64;
        self.at_line_border = slice.get(count - 1) == Some(&b'\n');
        Ok(count)
    }

    fn roll(&mut self) -> io::Result<()> {
        let mut next = self.current.next();
        for _ in 0..MAX_TAKEN_NAMES {
            match create_private(&self.run.segment(next)) {
                Ok(file) => {
                    self.complete.push_back((self.current, self.written));
                    self.current = next;
                    self.file = file;
                    self.written = 0;
                    return Ok(());
                }
                // Another process put a file where ours belongs. We neither follow nor overwrite
                // it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => next = next.next(),
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(segment_bytes: u64) -> (tempfile::TempDir, RunDir, Journal) {
        let temp = tempfile::tempdir().unwrap();
        let run = RunDir::new(temp.path().join("run"));
        run.create().unwrap();
        let journal = Journal::create(run.clone(), segment_bytes, segment_bytes * 2).unwrap();
        (temp, run, journal)
    }

    fn write(journal: &mut Journal, text: &str) {
        journal.queue().extend_from_slice(text.as_bytes());
        journal.flush(Moment::now());
        assert!(journal.is_flushed());
    }

    fn contents(run: &RunDir) -> Vec<String> {
        run.segments()
            .unwrap()
            .into_iter()
            .map(|no| std::fs::read_to_string(run.segment(no)).unwrap())
            .collect()
    }

    #[test]
    fn segments_end_at_lines() {
        let (_temp, run, mut journal) = journal(4);
        write(&mut journal, "a\nbb\nccccccc\nd\n");
        write(&mut journal, "e\nf\n");
        assert_eq!(contents(&run), ["a\nbb\n", "ccccccc\n", "d\ne\n", "f\n"]);
    }

    #[test]
    fn a_segment_never_ends_within_a_line_that_comes_in_pieces() {
        let (_temp, run, mut journal) = journal(4);
        for piece in ["aaaa", "aaaa", "a\nb", "bbb\n", "c\n"] {
            write(&mut journal, piece);
        }
        assert_eq!(contents(&run), ["aaaaaaaaa\n", "bbbb\n", "c\n"]);
    }

    #[test]
    fn a_backlog_ends_when_the_server_takes_segments() {
        let (_temp, run, mut journal) = journal(4);
        write(&mut journal, "aaa\nbbb\nc");
        assert!(!journal.is_backlogged(), "nobody can take half a line");
        write(&mut journal, "cc\n");
        assert!(journal.is_backlogged());
        journal.look_for_room();
        assert_eq!(
            run.segments().unwrap().len(),
            4,
            "the full segment is complete, so the server can take it"
        );
        std::fs::remove_file(run.segment(SegmentNo::FIRST)).unwrap();
        journal.look_for_room();
        assert!(!journal.is_backlogged());
    }

    #[test]
    fn a_name_that_is_taken_is_skipped_and_a_link_is_not_followed() {
        let (temp, run, mut journal) = journal(4);
        let outside = temp.path().join("outside");
        std::fs::write(&outside, "mine").unwrap();
        std::os::unix::fs::symlink(&outside, run.segment(SegmentNo(2))).unwrap();
        write(&mut journal, "aaa\nbbb\n");
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(run.segment(SegmentNo(3))).unwrap(), "bbb\n");
    }

    #[test]
    fn an_unwritten_part_of_the_journal_stays_for_the_next_try() {
        let (_temp, run, mut journal) = journal(4);
        write(&mut journal, "aaa\n");
        let moved = run.path().join("moved");
        std::fs::rename(run.journal(), &moved).unwrap();
        journal.queue().extend_from_slice(b"bbb\n");
        let now = Moment::now();
        journal.flush(now);
        assert!(!journal.is_flushed());
        std::fs::rename(&moved, run.journal()).unwrap();
        journal.flush(now);
        assert!(!journal.is_flushed(), "not before the pause is over");
        journal.flush(now.plus(RETRY_PAUSE));
        assert!(journal.is_flushed());
        assert_eq!(contents(&run), ["aaa\n", "bbb\n"]);
    }
}

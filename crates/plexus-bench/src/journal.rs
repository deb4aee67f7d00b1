//! Reads a child's output from its run directory: the shim writes every line there before the
//! server knows of it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// Returns the journal of a session's `run`-th process.
#[must_use]
pub fn journal_of(data_dir: &Path, session: &str, run: u32) -> PathBuf {
    data_dir.join("runs").join(session).join(run.to_string()).join("journal")
}

/// Returns the first segment of a journal. The server removes it once there is a second and all of
/// the first is stored.
#[must_use]
pub fn first_segment(journal: &Path) -> PathBuf {
    journal.join("000001.jsonl")
}

/// Follows a journal as it grows.
pub struct Tail {
    journal: PathBuf,
    /// The segment that is read. Names sort by age.
    segment: PathBuf,
    file: File,
    watch: std::os::fd::OwnedFd,
    /// The bytes after the last complete line.
    rest: Vec<u8>,
}

impl Tail {
    /// Follows a journal from its present end.
    pub fn at_end(journal: &Path) -> Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        // The watch starts before the position is taken, so that a write in between is read and not
        // missed.
        inotify::add_watch(
            &watch,
            journal,
            inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE,
        )?;
        let segment = segments(journal)?.pop().context("a journal has no segment")?;
        let mut file = open(&segment)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { journal: journal.to_owned(), segment, file, watch, rest: Vec::new() })
    }

    /// Blocks until a complete line contains `mark`, and returns when it was seen.
    pub fn wait_for(&mut self, mark: &str, patience: Duration) -> Result<Instant> {
        let deadline = Instant::now() + patience;
        loop {
            // Listed first: when there is a newer segment, nothing is added to this one.
            let newer = segments(&self.journal)?.into_iter().find(|it| *it > self.segment);
            self.file.read_to_end(&mut self.rest)?;
            let seen = Instant::now();
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if String::from_utf8_lossy(&line).contains(mark) {
                    return Ok(seen);
                }
            }
            match newer {
                Some(segment) => {
                    self.file = open(&segment)?;
                    self.segment = segment;
                }
                None => self.wait_for_growth(deadline, mark)?,
            }
        }
    }

    fn wait_for_growth(&mut self, deadline: Instant, mark: &str) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).context("an odd wait")?;
        let mut descriptors = [PollFd::new(&self.watch, PollFlags::IN)];
        if poll(&mut descriptors, Some(&timeout))? == 0 {
            bail!("this did not come: a line with {mark}");
        }
        // The events say only that there is something to read.
        let mut buffer = [0_u8; 4096];
        while rustix::io::read(&self.watch, &mut buffer).is_ok_and(|read| read > 0) {}
        Ok(())
    }
}

/// Returns the segments of a journal, oldest first.
fn segments(journal: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(journal)
        .with_context(|| format!("could not list {}", journal.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn open(segment: &Path) -> Result<File> {
    File::open(segment).with_context(|| format!("could not open {}", segment.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_tail_goes_on_in_the_next_segment() {
        let journal = tempfile::tempdir().unwrap();
        let at = |number: u32| journal.path().join(format!("{number:06}.jsonl"));
        std::fs::write(at(1), "mark-0\n").unwrap();
        let mut tail = Tail::at_end(journal.path()).unwrap();
        std::fs::write(at(1), "mark-0\nmark-1\n").unwrap();
        std::fs::write(at(2), "mark-2\n").unwrap();
        tail.wait_for("mark-1", PATIENCE).unwrap();
        // The server has stored all of the first.
        std::fs::remove_file(at(1)).unwrap();
        std::fs::write(at(3), "mark-3\n").unwrap();
        tail.wait_for("mark-2", PATIENCE).unwrap();
        tail.wait_for("mark-3", PATIENCE).unwrap();
    }
}

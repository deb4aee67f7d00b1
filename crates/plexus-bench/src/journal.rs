//! Reads a child's output from its run directory: the shim writes every line there before the
//! server knows of it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// Returns the first segment of the journal of a session's `run`-th process.
#[must_use]
pub fn first_segment(data_dir: &Path, session: &str, run: u32) -> PathBuf {
    data_dir.join("runs").join(session).join(run.to_string()).join("journal").join("000001.jsonl")
}

/// Follows one segment as it grows.
pub struct Tail {
    file: File,
    watch: std::os::fd::OwnedFd,
    /// The bytes after the last complete line.
    rest: Vec<u8>,
}

impl Tail {
    /// Follows a segment from its present end.
    pub fn at_end(segment: &Path) -> Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        // The watch starts before the position is taken, so that a write in between is read and not
        // missed.
        inotify::add_watch(&watch, segment, inotify::WatchFlags::MODIFY)?;
        let mut file =
            File::open(segment).with_context(|| format!("could not open {}", segment.display()))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, watch, rest: Vec::new() })
    }

    /// Blocks until a complete line contains `mark`, and returns when it was seen.
    pub fn wait_for(&mut self, mark: &str, patience: Duration) -> Result<Instant> {
        let deadline = Instant::now() + patience;
        loop {
            self.file.read_to_end(&mut self.rest)?;
            let seen = Instant::now();
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if String::from_utf8_lossy(&line).contains(mark) {
                    return Ok(seen);
                }
            }
            self.wait_for_growth(deadline, mark)?;
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

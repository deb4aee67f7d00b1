//! Reads the journal of a run in bounded pieces, and says which lines may wait for the next.
//!
//! A line for which nobody waits, such as the note that an answer has arrived, lingers: it stays in
//! the journal and is stored together with the lines after it, which saves a commit.

use std::time::Instant;

use agent_lines::journal::LineContent;

use super::{Over, Run};
use crate::wait::STORE_RETRY;

/// How much of a journal one look takes, so that one talkative child does not hold up its own
/// commands.
const READ_BYTES: usize = 512 * 1024;

/// What one look at the journal brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pumped {
    /// Lines, which were handed to the store. There may be more.
    Stored,
    /// No whole line, or only lines that linger: everything up to here was read.
    Nothing,
    /// The journal could not be read, for example because no descriptor was free.
    Unreadable,
}

/// Whether lines may wait for those that follow them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Linger {
    /// Lines for which nobody waits may, for as long as the settings say.
    Allowed,
    /// Every line is stored now.
    Refused,
}

impl Run {
    /// Reads a bounded amount of the journal, at least one whole line, and stores it.
    pub(super) async fn pump(&mut self, may: Linger) -> Result<Pumped, Over> {
        let lingering = self.unwritten.len();
        if self.unwritten.is_empty() || self.linger_until.is_some() {
            plexus_fault::point!("journal.read.before");
            match self.journal.read_lines(READ_BYTES) {
                Ok(lines) => {
                    plexus_fault::point!("journal.read.after", when !lines.is_empty());
                    self.facts.add_journal_bytes(
                        lines.iter().map(|line| line_bytes(&line.content)).sum(),
                    );
                    self.unwritten.extend(lines);
                }
                Err(error) => {
                    tracing::error!(run = %self.key, %error, "could not read a journal");
                    tokio::time::sleep(STORE_RETRY).await;
                    return Ok(Pumped::Unreadable);
                }
            }
        }
        if self.unwritten.is_empty() {
            return Ok(Pumped::Nothing);
        }
        let until = self.linger_until.unwrap_or_else(|| Instant::now() + self.settings.linger);
        let linger = if Instant::now() < until { may } else { Linger::Refused };
        let is_nothing_new = self.linger_until.is_some() && self.unwritten.len() == lingering;
        if is_nothing_new && linger == Linger::Allowed {
            return Ok(Pumped::Nothing);
        }
        self.store_lines(linger).await?;
        // A store that cannot be written leaves lines too; they are tried again at once.
        let lingers = linger == Linger::Allowed && !self.unwritten.is_empty();
        self.linger_until = lingers.then_some(until);
        Ok(if lingers { Pumped::Nothing } else { Pumped::Stored })
    }

    /// Gives back what only reading needs: a child that waits for an answer writes nothing
    /// meanwhile.
    pub(super) fn rest(&mut self) {
        self.unwritten.shrink_to_fit();
    }
}

fn line_bytes(content: &LineContent) -> usize {
    match content {
        LineContent::Whole(bytes) => bytes.len(),
        LineContent::TooLong { size, .. } => usize::try_from(*size).unwrap_or(usize::MAX),
    }
}

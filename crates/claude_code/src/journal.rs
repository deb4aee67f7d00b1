//! Reads stream-json that another process writes into files: while it grows, across restarts, a
//! bounded amount at a time. See [`agent_lines::journal`].

pub use agent_lines::journal::{
    Growth, JournalDir, JournalError, JournalLine, JournalOptions, JournalWatcher, LineContent,
    Position, SAFETY_INTERVAL,
};

use crate::event::ClaudeStreamJsonEvent;
use crate::parser::ClaudeStreamJsonParser;

/// Reads one growing file from an offset on.
pub type Journal = agent_lines::journal::Journal<ClaudeStreamJsonParser>;

/// One event of a journal, or the error for a line that could not be read.
pub type JournalEvent = agent_lines::journal::JournalEvent<ClaudeStreamJsonEvent>;

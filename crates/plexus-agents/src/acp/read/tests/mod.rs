//! Recorded conversations with real agents, and lines that no agent should write.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p plexus-agents --lib acp` writes `tests/data/acp` anew; read
//! the difference before you keep it.

mod bad_input;
mod play;
mod recorded;

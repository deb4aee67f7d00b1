//! The counters of the doors, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// One reading of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Connections that are open now, including WebSockets.
    pub open_connections: usize,
    /// Bytes of requests, answers and stream items that are in memory now.
    pub held_bytes: usize,
    /// Streams and long calls that are open now.
    pub open_streams: usize,
    /// MCP sessions that are kept now.
    pub mcp_sessions: usize,
    /// Calls made since the start, over all doors.
    pub calls_total: u64,
    /// How many of those calls failed.
    pub errors_total: u64,
    /// Methods that panicked since the start. Each is also a failed call, or a failed stream.
    pub panics_total: u64,
}

/// The counters for [`Stats`]. They are read one by one, so a reading is not a consistent snapshot.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    calls: AtomicU64,
    errors: AtomicU64,
}

impl Counters {
    /// Counts one call by its outcome.
    pub(crate) fn count<T, E>(&self, outcome: Result<T, E>) -> Result<T, E> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if outcome.is_err() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Adds these counters to `elsewhere`.
    pub(crate) fn read(&self, elsewhere: Stats) -> Stats {
        Stats {
            calls_total: self.calls.load(Ordering::Relaxed),
            errors_total: self.errors.load(Ordering::Relaxed),
            ..elsewhere
        }
    }
}

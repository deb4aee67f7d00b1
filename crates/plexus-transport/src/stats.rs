//! What the doors count, for the metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One reading of what the doors count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Connections that are open now.
    pub open_connections: usize,
    /// Streams and long calls that are open now.
    pub open_streams: usize,
    /// MCP sessions that are kept now.
    pub mcp_sessions: usize,
    /// Calls made since the start, over all doors.
    pub calls_total: u64,
    /// Those of them that failed.
    pub errors_total: u64,
}

/// The counters behind [`Stats`]. They are read one by one, so a reading is not of one instant.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    connections: AtomicUsize,
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

    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, open_streams: usize, mcp_sessions: usize) -> Stats {
        Stats {
            open_connections: self.connections.load(Ordering::Relaxed),
            open_streams,
            mcp_sessions,
            calls_total: self.calls.load(Ordering::Relaxed),
            errors_total: self.errors.load(Ordering::Relaxed),
        }
    }
}

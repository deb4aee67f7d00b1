//! Every bound of the doors, with its reason. Reaching one is an answer (`busy`, 413, 503), never an accident.

use std::time::Duration;

/// The bounds that a configuration may change.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest request body and WebSocket message. A prompt may be 10 MiB and is escaped on the wire.
    pub body_bytes: usize,
    /// Open connections over all doors. One more is answered 503 and closed.
    pub connections: usize,
    /// Open streams and long calls over all doors.
    pub streams: usize,
    /// Calls of one caller under way at the same time, so that one parent cannot starve the others.
    pub calls_per_caller: usize,
    /// How long a client may take to send its request headers, and how long a connection may stay silent between requests.
    pub header_timeout: Duration,
    /// How long a client may take to send its body.
    pub body_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 16 * 1024 * 1024,
            connections: 12_000,
            streams: 10_000,
            calls_per_caller: 2_048,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(60),
        }
    }
}

/// Calls in one JSON-RPC batch. A batch is answered as a whole, so its size bounds how long a caller waits for its first answer.
pub(crate) const MAX_BATCH: usize = 100;

/// Calls and streams under way on one WebSocket.
pub(crate) const MAX_CALLS_PER_SOCKET: usize = 256;

/// Messages waiting to be written to one WebSocket. Small: a stream's own task is what waits when the client is slow.
pub(crate) const SOCKET_QUEUE: usize = 64;

/// How often a silent SSE stream says that it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// When a caller that met a limit of the doors should try again.
pub(crate) const RETRY_AFTER_MS: u64 = 1_000;

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
    /// How often the token behind an open stream or socket is looked at again: one that was revoked ends it.
    pub token_check: Duration,
    /// MCP sessions kept, at about 50 KiB each. Clients rarely end theirs, so one more pushes out the one that was idle for longest: its
    /// client is answered 404 and begins a new one.
    pub mcp_sessions: usize,
    /// How long an MCP session with nothing open is kept.
    pub mcp_idle: Duration,
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
            token_check: Duration::from_secs(15),
            mcp_sessions: 4_096,
            mcp_idle: Duration::from_secs(60 * 60),
        }
    }
}

/// Calls in one JSON-RPC batch. A batch is answered as a whole, so its size bounds how long a caller waits for its first answer.
pub(crate) const MAX_BATCH: usize = 100;

/// Calls and streams under way on one WebSocket.
pub(crate) const MAX_CALLS_PER_SOCKET: usize = 256;

/// Messages waiting to be written to one WebSocket. Small: a stream's own task is what waits when the client is slow.
pub(crate) const SOCKET_QUEUE: usize = 64;

/// Answers to webhooks under way at the same time. Each is one small transaction, so more than this is no person.
pub(crate) const MAX_HOOK_ANSWERS: usize = 64;

/// Largest answer to a webhook: a token, a word and a reason.
pub(crate) const MAX_HOOK_ANSWER_BYTES: usize = 64 * 1024;

/// How often a silent SSE stream says that it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// How often a blocked MCP call tells its client that it lives. Clients give up on a silent call after 60 s to 300 s.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(15);

/// Least time between two progress notifications of one call, however much its method reports.
pub(crate) const PROGRESS_AT_MOST_EVERY: Duration = Duration::from_millis(500);

/// How long the client of a resumable call should wait before it comes back. It tries twice, after this and after this again, so the
/// number is half of the longest restart that a waiting call survives, and the least delay after a short one.
pub(crate) const RESUME_RETRY: Duration = Duration::from_secs(15);

/// How long a resumable call whose connection was lost can still be cancelled: a little longer than its client tries to come back.
pub(crate) const RESUME_GRACE: Duration = Duration::from_secs(60);

/// When a caller that met a limit of the doors should try again.
pub(crate) const RETRY_AFTER_MS: u64 = 1_000;

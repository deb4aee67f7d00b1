//! Every bound of the doors, with its reason. Reaching one is an ordinary outcome with its own
//! answer (`busy`, 413, 503).

use std::time::Duration;

/// The bounds that a configuration may change.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest request body and WebSocket message. A prompt may be 10 MiB and is escaped on the
    /// wire.
    pub body_bytes: usize,
    /// Open connections over all doors, including WebSockets; each is one descriptor.
    pub connections: usize,
    /// Connections of one caller. A further one is answered 503 and closed.
    pub connections_per_caller: usize,
    /// Open streams and long calls over all doors.
    pub streams: usize,
    /// Open streams and long calls of one caller.
    pub streams_per_caller: usize,
    /// Concurrent calls over all doors.
    pub calls: usize,
    /// Concurrent calls of one caller, so that one parent cannot starve the others.
    pub calls_per_caller: usize,
    /// Bytes of requests, answers and stream items that are in memory for all callers.
    pub held_bytes: usize,
    /// The same for one caller. A caller that does not read its answers reaches this bound.
    pub held_bytes_per_caller: usize,
    /// How long a client may take to send its request headers, and how long a connection may stay
    /// silent between requests.
    pub header_timeout: Duration,
    /// How long a client may take to send its body.
    pub body_timeout: Duration,
    /// How long a client may read nothing of the data sent to it. Its connection is then closed;
    /// the reader of a stream comes back with its cursor and loses nothing.
    pub stall_timeout: Duration,
    /// The interval between pings of a WebSocket. A socket that misses [`SILENT_PINGS`] of them is
    /// closed.
    pub socket_ping: Duration,
    /// How long a WebSocket without a call under way is kept.
    pub socket_idle: Duration,
    /// How often the token of an open stream or socket is checked again; a revoked token ends it.
    pub token_check: Duration,
    /// MCP sessions kept, at about 50 KiB each. Clients rarely end theirs, so a further one evicts
    /// an idle one: its client is answered 404 and starts a new one.
    pub mcp_sessions: usize,
    /// MCP sessions of one caller. A further one evicts that caller's longest idle session.
    pub mcp_sessions_per_caller: usize,
    /// How long an MCP session with nothing open is kept.
    pub mcp_idle: Duration,
    /// How long open connections may take to finish when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 16 * 1024 * 1024,
            connections: 12_000,
            connections_per_caller: 1_024,
            streams: 10_000,
            streams_per_caller: 1_024,
            calls: 16_384,
            calls_per_caller: 1_024,
            held_bytes: 512 * 1024 * 1024,
            held_bytes_per_caller: 64 * 1024 * 1024,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            socket_ping: Duration::from_secs(15),
            socket_idle: Duration::from_secs(10 * 60),
            token_check: Duration::from_secs(15),
            mcp_sessions: 4_096,
            mcp_sessions_per_caller: 256,
            mcp_idle: Duration::from_secs(60 * 60),
            drain: Duration::from_secs(5),
        }
    }
}

/// One part in this many of every bound is reserved for the operator, who can therefore look and
/// answer whatever all other callers do.
pub(crate) const OPERATOR_PART: usize = 8;

/// One part in this many of all connections is for those that have shown no token yet. Anybody can
/// open such a connection, so a further one closes the oldest of them: a client that sends its
/// request at once is served, however many stay silent.
pub(crate) const UNPROVEN_PART: usize = 8;

/// Pings that a WebSocket may leave unanswered before it is closed.
pub const SILENT_PINGS: u32 = 3;

/// Bytes that one connection buffers for its HTTP headers, and for output beyond one piece of an
/// answer.
pub(crate) const CONNECTION_BUFFER: usize = 64 * 1024;

/// Bytes that the kernel buffers for one connection before the server waits for its client to read;
/// Linux doubles the number. By default it would buffer 4 MiB for a client that reads nothing.
pub(crate) const SEND_BUFFER: usize = 256 * 1024;

/// Bytes of messages that wait to be written to one WebSocket. A larger message waits until all
/// others are written.
pub(crate) const SOCKET_QUEUE_BYTES: usize = 256 * 1024;

/// Bytes of an incomplete WebSocket message that do not count as held.
pub(crate) const UNCOUNTED_MESSAGE_BYTES: usize = 64 * 1024;

/// Concurrent sign-ins of dashboards. A person makes one.
pub(crate) const MAX_EXCHANGES: usize = 16;

/// Largest sign-in: a code of about 70 bytes.
pub(crate) const MAX_EXCHANGE_BYTES: usize = 4 * 1024;

/// How long a client without a token may take to send its body, which is small.
pub(crate) const TOKENLESS_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Calls in one JSON-RPC batch. A batch is answered as a whole, so its size bounds how long a
/// caller waits for its first answer.
pub(crate) const MAX_BATCH: usize = 100;

/// Bytes of answers in one JSON-RPC batch, after which its remaining calls are refused. It is the
/// size of a page of events, the largest answer.
pub(crate) const MAX_BATCH_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// The largest answer that is always given, whatever its caller holds: one that fits into the
/// buffer of its connection.
pub(crate) const SMALL_ANSWER_BYTES: usize = CONNECTION_BUFFER;

/// Concurrent calls and streams on one WebSocket.
pub(crate) const MAX_CALLS_PER_SOCKET: usize = 256;

/// Bytes that a WebSocket reads and writes at a time, and keeps while it is idle. The library's
/// default of 128 KiB would add up to 1.5 GiB for all.
pub(crate) const SOCKET_BUFFER: usize = 8 * 1024;

/// Messages waiting to be written to one WebSocket. The queue is small, so that back-pressure of a
/// slow client reaches the task of each stream.
pub(crate) const SOCKET_QUEUE: usize = 64;

/// Concurrent answers to webhooks. Each is one small transaction, so people never reach this
/// number.
pub(crate) const MAX_HOOK_ANSWERS: usize = 64;

/// Largest answer to a webhook: a token, a word and a reason.
pub(crate) const MAX_HOOK_ANSWER_BYTES: usize = 64 * 1024;

/// The interval of heartbeats on a silent SSE stream.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// The interval of progress notifications of a blocked MCP call. Clients give up on a silent call
/// after 60 s to 300 s.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(15);

/// Least time between two progress notifications of one call, however much its method reports.
pub(crate) const PROGRESS_AT_MOST_EVERY: Duration = Duration::from_millis(500);

/// How long the client of a resumable call should wait before it reconnects. It tries twice, each
/// time after this wait. So the number is half of the longest restart that a waiting call survives,
/// and the least delay after a short one.
pub(crate) const RESUME_RETRY: Duration = Duration::from_secs(15);

/// How long a resumable call whose connection was lost can still be cancelled: a little longer than
/// its client tries to reconnect.
pub(crate) const RESUME_GRACE: Duration = Duration::from_secs(60);

/// Resumable calls of one caller that lost their connection and can still be cancelled: as many as
/// one session may have pending.
pub(crate) const MAX_LOST_CALLS: usize = 256;

/// The longest id of a request. The answer repeats it, and an MCP call that can be resumed keeps
/// it. Every known client uses a counter.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// When a caller that reached a limit of the doors should retry.
pub(crate) const RETRY_AFTER_MS: u64 = 1_000;

//! Every bound of the doors, with its reason. Reaching one is an answer (`busy`, 413, 503), never
//! an accident.

use std::time::Duration;

/// The bounds that a configuration may change.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest request body and WebSocket message. A prompt may be 10 MiB and is escaped on the
    /// wire.
    pub body_bytes: usize,
    /// Open connections over all doors, WebSockets included; each is one descriptor.
    pub connections: usize,
    /// Connections of one caller. One more is answered 503 and closed.
    pub connections_per_caller: usize,
    /// Open streams and long calls over all doors.
    pub streams: usize,
    /// Open streams and long calls of one caller.
    pub streams_per_caller: usize,
    /// Calls over all doors under way at the same time.
    pub calls: usize,
    /// Calls of one caller under way at the same time, so that one parent cannot starve the others.
    pub calls_per_caller: usize,
    /// Bytes of requests, answers and stream items that are in memory for all callers.
    pub held_bytes: usize,
    /// The same for one caller. Whoever does not read what it asked for meets this bound.
    pub held_bytes_per_caller: usize,
    /// How long a client may take to send its request headers, and how long a connection may stay
    /// silent between requests.
    pub header_timeout: Duration,
    /// How long a client may take to send its body.
    pub body_timeout: Duration,
    /// How long a client may take to read anything at all of what is sent to it. Its connection is
    /// then ended; a reader of a stream comes back with its cursor and loses nothing.
    pub stall_timeout: Duration,
    /// How often a WebSocket is pinged. One that is silent for [`SILENT_PINGS`] of them is ended.
    pub socket_ping: Duration,
    /// How long a WebSocket on which no call is under way is kept.
    pub socket_idle: Duration,
    /// How often the token behind an open stream or socket is looked at again: one that was revoked
    /// ends it.
    pub token_check: Duration,
    /// MCP sessions kept, at about 50 KiB each. Clients rarely end theirs, so one more pushes out
    /// an idle one: its client is answered 404 and begins a new one.
    pub mcp_sessions: usize,
    /// MCP sessions of one caller. One more pushes out that caller's own that was idle for longest.
    pub mcp_sessions_per_caller: usize,
    /// How long an MCP session with nothing open is kept.
    pub mcp_idle: Duration,
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
        }
    }
}

/// One part in this many of every bound is kept for the operator: whatever all other callers do,
/// the operator can look and answer.
pub(crate) const OPERATOR_PART: usize = 8;

/// One part in this many of all connections is for those that have shown no token yet. They are the
/// only ones that anybody can open, so one more pushes out the oldest of them: whoever sends its
/// request at once is served, however many say nothing.
pub(crate) const UNPROVEN_PART: usize = 8;

/// Pings that a WebSocket may leave unanswered before it is ended.
pub const SILENT_PINGS: u32 = 3;

/// Bytes that one connection buffers for its HTTP headers, and for what it writes beyond one piece
/// of an answer.
pub(crate) const CONNECTION_BUFFER: usize = 64 * 1024;

/// Bytes that the system buffers for one connection before the server waits for its client to read;
/// Linux takes twice the number. Left to itself it would take 4 MiB for a client that reads
/// nothing.
pub(crate) const SEND_BUFFER: usize = 256 * 1024;

/// Bytes of messages that wait to be written to one WebSocket. A larger message waits until all
/// others are written.
pub(crate) const SOCKET_QUEUE_BYTES: usize = 256 * 1024;

/// Bytes of a WebSocket message that is not whole yet and is not counted as held.
pub(crate) const UNCOUNTED_MESSAGE_BYTES: usize = 64 * 1024;

/// Sign-ins of dashboards under way at the same time. A person makes one.
pub(crate) const MAX_EXCHANGES: usize = 16;

/// Largest sign-in: a code of about 70 bytes.
pub(crate) const MAX_EXCHANGE_BYTES: usize = 4 * 1024;

/// How long a client that shows no token may take to send its body, which is small.
pub(crate) const TOKENLESS_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Calls in one JSON-RPC batch. A batch is answered as a whole, so its size bounds how long a
/// caller waits for its first answer.
pub(crate) const MAX_BATCH: usize = 100;

/// Bytes of answers in one JSON-RPC batch, after which its other calls are refused: a page of
/// events, which is the largest answer.
pub(crate) const MAX_BATCH_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Largest answer that is given whatever its caller holds: one that fits into the buffer of its
/// connection.
pub(crate) const SMALL_ANSWER_BYTES: usize = CONNECTION_BUFFER;

/// Calls and streams under way on one WebSocket.
pub(crate) const MAX_CALLS_PER_SOCKET: usize = 256;

/// Bytes that a WebSocket reads and writes at a time, and keeps while it is idle. The library's own
/// 128 KiB would be 1.5 GiB for all.
pub(crate) const SOCKET_BUFFER: usize = 8 * 1024;

/// Messages waiting to be written to one WebSocket. Small: a stream's own task is what waits when
/// the client is slow.
pub(crate) const SOCKET_QUEUE: usize = 64;

/// Answers to webhooks under way at the same time. Each is one small transaction, so more than this
/// is no person.
pub(crate) const MAX_HOOK_ANSWERS: usize = 64;

/// Largest answer to a webhook: a token, a word and a reason.
pub(crate) const MAX_HOOK_ANSWER_BYTES: usize = 64 * 1024;

/// How often a silent SSE stream says that it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// How often a blocked MCP call tells its client that it lives. Clients give up on a silent call
/// after 60 s to 300 s.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(15);

/// Least time between two progress notifications of one call, however much its method reports.
pub(crate) const PROGRESS_AT_MOST_EVERY: Duration = Duration::from_millis(500);

/// How long the client of a resumable call should wait before it comes back. It tries twice, after
/// this and after this again, so the number is half of the longest restart that a waiting call
/// survives, and the least delay after a short one.
pub(crate) const RESUME_RETRY: Duration = Duration::from_secs(15);

/// How long a resumable call whose connection was lost can still be cancelled: a little longer than
/// its client tries to come back.
pub(crate) const RESUME_GRACE: Duration = Duration::from_secs(60);

/// Resumable calls of one caller whose connection was lost and that can still be cancelled: as many
/// as one session may have pending.
pub(crate) const MAX_LOST_CALLS: usize = 256;

/// Longest id of an MCP request. It is kept for as long as the call can be resumed, and every
/// client counts.
pub(crate) const MAX_MCP_ID_BYTES: usize = 256;

/// When a caller that met a limit of the doors should try again.
pub(crate) const RETRY_AFTER_MS: u64 = 1_000;

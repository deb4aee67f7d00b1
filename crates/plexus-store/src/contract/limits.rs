//! Every bound of the store, with its reason. Reaching one is an ordinary error (`invalid` or
//! `busy`).

pub use plexus_wire::text::{MAX_FIELD_BYTES, MAX_NAME_BYTES, MAX_PROMPT_BYTES};

/// How long the JSON of one event may be: one line of the CLI (16 MiB) and what translation adds.
pub const MAX_EVENT_BYTES: usize = 17 * 1024 * 1024;

/// How long the compressed transcript of a parked agent may be. One with 150 large outputs has 9 MB
/// and compresses to a tenth of it or less.
pub const MAX_TRANSCRIPT_BYTES: usize = 16 * 1024 * 1024;

/// How many events one page holds at most.
pub const MAX_PAGE_EVENTS: usize = 1_000;

/// How many bytes of event bodies one page holds at most, unless its first event alone is larger.
pub const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// How many records one page of anything else holds at most.
pub const MAX_PAGE_ITEMS: usize = 1_000;

/// How many changes one commit may hold: a page of events and related changes, far below what would
/// delay others.
pub const MAX_CHANGES: usize = 4_096;

/// How many events one [`AppendEvents`](super::AppendEvents) may hold.
pub const MAX_BATCH_EVENTS: usize = 4_096;

/// How many approvals of one session may be pending: a child that asks for more is looping.
pub const MAX_PENDING_PER_SESSION: usize = plexus_wire::bounds::MAX_RESPOND_MANY;

/// How many of a session's newest approvals are searched for those that its newest chat was
/// refused. The bound keeps lists of sessions fast, because each listed session is searched.
pub const REFUSED_AMONG: usize = 1_000;

/// How many sessions a store holds.
pub const MAX_SESSIONS: usize = 100_000;

/// How deep sessions may be nested; ancestors are walked on every permission question.
pub const MAX_SESSION_DEPTH: usize = 64;

/// How many consumers one session may have.
pub const MAX_CONSUMERS_PER_SESSION: usize = 1_024;

/// How many devices may be paired at a time; more than one person carries.
pub const MAX_DEVICES: usize = 64;

/// How many change lists may wait for the writer.
pub const MAX_QUEUE_ENTRIES: usize = 8_192;

/// How many bytes of change lists may wait for the writer.
pub const MAX_QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// How many bytes one transaction takes before it commits: the first caller of a group must not
/// wait for the last.
pub const MAX_GROUP_BYTES: usize = 4 * 1024 * 1024;

/// How many nodes one answer of Arbor holds at most; longer paths are read in pages.
pub const MAX_PATH_NODES: usize = 10_000;

/// How many faults a check of the whole store reports; a broken store would have one for every row.
pub(crate) const MAX_FAULTS: usize = 100;

/// How many events one step of pruning touches, so that others are not delayed for long.
pub(crate) const PRUNE_EVENTS: u64 = 2_000;

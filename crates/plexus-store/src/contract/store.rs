//! The contract of a store. The conformance suite checks every engine against this documentation.

use std::collections::HashMap;
use std::path::Path;

use async_trait::async_trait;
use plexus_core::{
    ApprovalId, DeviceId, EventId, LatencyReading, NodeId, RuleId, SessionId, TreeId,
};
pub use plexus_wire::Counts;
use plexus_wire::Refused;
use serde::Serialize;

use super::approval::{ApprovalFilter, ApprovalRecord, Due};
use super::arbor::{Node, OutlineEntry, Tree};
use super::audit::{NumberedLine, OutboxDue, Waiting};
use super::budget::{SpendTotals, SubtreeSpend};
use super::change::{Change, Committed, Priority};
use super::chat::{Chat, PromptImage};
use super::cursor::{Consumer, Cursor};
use super::device::Device;
use super::error::StoreError;
use super::event::{Event, EventPage, FeedPage, ReadLimit};
use super::page::{Page, PageRequest};
use super::rule::StoredRule;
use super::run::{RunKey, RunRecord};
use super::search::{Indexed, SearchFilter, SearchPage};
use super::server::{Lease, Server};
use super::session::{ChangedSessions, SessionFilter, SessionRecord};
use super::time::UnixMillis;
use super::token::{Token, TokenHash};
use super::wake::{Topic, Wake};

/// Everything durable. Shared as `Arc<dyn Store>`.
///
/// **Writes** go through [`commit`](Store::commit) alone. **Reads** see everything that was
/// committed before they began, and each read sees one moment of the store. **Wakes** follow the
/// commit: subscribe with [`watch`](Store::watch), then read, then wait.
///
/// A missing record is [`StoreError::NotFound`]; where absence is usual, the method returns an
/// `Option`.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Writes all of `changes` in one transaction, or nothing.
    ///
    /// Returns when the changes are as durable as the store is configured to make them. Dropping
    /// the future does not take the changes back: they may be committed or not. An empty list, or
    /// one over [`limits`](super::limits), is `Invalid`; a full queue is `Busy`.
    ///
    /// Fenced, where a server owns the record (see [`server`](super::server)): `AssignRun`,
    /// `EndChat`, `AppendEvents` and `KeepTranscript` of its chats; `UpdateRun`,
    /// `SetJournalPosition` and `EndRun` of its runs; `OpenApproval`, `SettleApproval`,
    /// `RetireApproval`, `MarkBreach` and `AddToken` that name such a run; `ParkApproval` of its
    /// runs and chats; and, with any lease, `StartChat` and `CreateRun`. Everybody may decide,
    /// escalate, read, revoke and delete.
    async fn commit(
        &self,
        changes: Vec<Change>,
        priority: Priority,
    ) -> Result<Committed, StoreError>;

    /// Returns the number of the newest commit; 0 in a new store.
    async fn newest_commit(&self) -> Result<u64, StoreError>;

    /// Returns the newest moment at which something was written that grants or decides anything;
    /// `None` in a new store.
    async fn newest_time(&self) -> Result<Option<UnixMillis>, StoreError>;

    /// Subscribes to commits that change `topic`. Subscribe first, then read.
    fn watch(&self, topic: Topic) -> Wake;

    // Sessions.

    /// Returns a session.
    async fn session(&self, id: SessionId) -> Result<SessionRecord, StoreError>;

    /// Returns the session of exactly this name under `parent` (`None`: without a parent).
    async fn session_named(
        &self,
        parent: Option<SessionId>,
        name: &str,
    ) -> Result<SessionRecord, StoreError>;

    /// Lists sessions, oldest first.
    async fn sessions(
        &self,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<Page<SessionRecord>, StoreError>;

    /// Returns the ancestors of a session, its parent first.
    async fn ancestors(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError>;

    /// Returns all strict descendants of a session, parents before children.
    async fn descendants(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError>;

    /// Returns sessions that changed after commit `after`, oldest change first, at most `limit`.
    async fn sessions_changed(
        &self,
        after: u64,
        filter: SessionFilter,
        limit: usize,
    ) -> Result<ChangedSessions, StoreError>;

    // Chats and events.

    /// Returns a chat; `None` for the newest of the session.
    async fn chat(&self, session: SessionId, chat: Option<u32>) -> Result<Chat, StoreError>;

    /// Returns the images of a chat's prompt, in order; none once prompts of its time were pruned.
    async fn chat_images(
        &self,
        session: SessionId,
        chat: u32,
    ) -> Result<Vec<PromptImage>, StoreError>;

    /// Returns the transcript that was kept with a chat, as it was compressed; `None` where none
    /// was, and once the chat has ended.
    async fn parked_transcript(
        &self,
        session: SessionId,
        chat: u32,
    ) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns the chat that has this idempotency key, if there is one.
    async fn chat_by_key(&self, session: SessionId, key: &str) -> Result<Option<Chat>, StoreError>;

    /// Lists chats and their streams, oldest first: of one session, or of all (then only those of
    /// strict descendants of `under`, if set).
    async fn chats(
        &self,
        session: Option<SessionId>,
        under: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<Chat>, StoreError>;

    /// Reads events of one chat from `from_seq` on. Moves no reader. A `from_seq` past the end is
    /// an empty page.
    async fn read_events(
        &self,
        session: SessionId,
        chat: u32,
        from_seq: u32,
        limit: ReadLimit,
    ) -> Result<EventPage, StoreError>;

    /// Reads events of a session from `cursor` on, through the end of one chat into the next. Moves
    /// no reader.
    async fn read_from(&self, cursor: Cursor, limit: ReadLimit) -> Result<EventPage, StoreError>;

    /// Reads events of all sessions after commit `after`, in commit order, whole commits at a time.
    async fn read_commits(&self, after: u64, limit: ReadLimit) -> Result<FeedPage, StoreError>;

    /// Returns an event by its id.
    async fn event(&self, id: EventId) -> Result<Event, StoreError>;

    /// Reads a reader's position: a cursor we gave, or the `node_id` of an event of `session`,
    /// which means the position after it.
    async fn resolve_cursor(&self, session: SessionId, text: &str) -> Result<Cursor, StoreError>;

    /// Returns a named consumer, if it exists.
    async fn consumer(
        &self,
        session: SessionId,
        name: &str,
    ) -> Result<Option<Consumer>, StoreError>;

    /// Returns all named consumers of a session, by name.
    async fn consumers(&self, session: SessionId) -> Result<Vec<Consumer>, StoreError>;

    // Runs.

    /// Returns a run.
    async fn run(&self, run: RunKey) -> Result<RunRecord, StoreError>;

    /// Returns all runs that have not ended, oldest first: a starting server examines them.
    async fn open_runs(&self) -> Result<Vec<RunRecord>, StoreError>;

    /// Returns the runs of a session, oldest first.
    async fn runs(&self, session: SessionId) -> Result<Vec<RunRecord>, StoreError>;

    // Servers.

    /// Returns the lease this handle writes under: of the last
    /// [`RegisterServer`](super::RegisterServer) it committed, until it retires. It may have run
    /// out.
    fn lease(&self) -> Option<Lease>;

    /// Returns all servers that have registered, oldest first. Those that are gone stay until they
    /// are pruned.
    async fn servers(&self) -> Result<Vec<Server>, StoreError>;

    // Approvals, rules, tokens and budgets.

    /// Returns an approval.
    async fn approval(&self, id: ApprovalId) -> Result<ApprovalRecord, StoreError>;

    /// Returns the approval that a request's key stands for, if it is not retired.
    async fn approval_by_request(
        &self,
        session: SessionId,
        run: Option<u32>,
        request_id: &str,
    ) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Lists approvals; see [`Stage`](super::Stage) for the order.
    async fn approvals(
        &self,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<ApprovalRecord>, StoreError>;

    /// Counts the approvals of each chat that were denied or expired, among the newest
    /// [`REFUSED_AMONG`](super::limits::REFUSED_AMONG) approvals of its session, in one read. A
    /// session is named once; those without any are left out.
    async fn refused(
        &self,
        chats: &[(SessionId, u32)],
    ) -> Result<HashMap<SessionId, Refused>, StoreError>;

    /// Returns the approvals that are due at `now`, and when to ask again.
    async fn due(&self, now: UnixMillis) -> Result<Due, StoreError>;

    /// Returns a rule.
    async fn rule(&self, id: RuleId) -> Result<StoredRule, StoreError>;

    /// Lists rules, oldest first, also those that are used up or expired.
    async fn rules(&self, page: PageRequest) -> Result<Page<StoredRule>, StoreError>;

    /// Returns the token of this hash, if there is one. Expiry is the reader's to compare.
    async fn token(&self, hash: TokenHash) -> Result<Option<Token>, StoreError>;

    /// Returns a device, also a revoked one.
    async fn device(&self, id: DeviceId) -> Result<Device, StoreError>;

    /// Returns the devices that are not revoked, oldest first.
    async fn devices(&self) -> Result<Vec<Device>, StoreError>;

    /// Returns the spending of a session and its subtree.
    async fn spend(&self, session: SessionId) -> Result<SpendTotals, StoreError>;

    /// Returns the spending and the reservations of several sessions with their subtrees, in one
    /// read. Sessions without any are left out.
    async fn subtree_spend(
        &self,
        sessions: &[SessionId],
    ) -> Result<HashMap<SessionId, SubtreeSpend>, StoreError>;

    // The audit log and the outbox.

    /// Lists audit lines, newest first.
    async fn audit(
        &self,
        session: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<NumberedLine>, StoreError>;

    /// Returns the entries that are due at `now` for one target, at most `limit`, and when the next
    /// one is due.
    async fn outbox_due(
        &self,
        target: &str,
        now: UnixMillis,
        limit: usize,
    ) -> Result<OutboxDue, StoreError>;

    /// Returns the backlog of every target that has one, by name.
    async fn outbox_waiting(&self) -> Result<Vec<Waiting>, StoreError>;

    // Arbor.

    /// Returns a tree.
    async fn tree(&self, id: TreeId) -> Result<Tree, StoreError>;

    /// Lists trees, oldest first.
    async fn trees(&self, page: PageRequest) -> Result<Page<Tree>, StoreError>;

    /// Returns a node.
    async fn node(&self, id: NodeId) -> Result<Node, StoreError>;

    /// Returns the children of a node: the one that goes on in its chain first, then its branches,
    /// oldest first.
    async fn children(&self, id: NodeId) -> Result<Vec<Node>, StoreError>;

    /// Returns the last `limit` nodes of the path from the root to `id`, in that order: with a
    /// limit of one, the node itself.
    async fn path(&self, id: NodeId, limit: usize) -> Result<Vec<Node>, StoreError>;

    /// Returns the path from `from` to `to`, both included. `from` must be `to` or an ancestor of
    /// it, and not further away than [`MAX_PATH_NODES`](super::limits::MAX_PATH_NODES).
    async fn path_between(&self, from: NodeId, to: NodeId) -> Result<Vec<Node>, StoreError>;

    /// Lists the leaves of a tree: the ends of its branches, oldest branch first.
    async fn leaves(&self, tree: TreeId, page: PageRequest) -> Result<Page<Node>, StoreError>;

    /// Lists the nodes of a tree for rendering, at most `limit`: chain by chain, so that each node
    /// comes after its parent.
    async fn tree_outline(
        &self,
        tree: TreeId,
        limit: usize,
    ) -> Result<Vec<OutlineEntry>, StoreError>;

    // Upkeep.

    /// Counts records, for metrics.
    async fn counts(&self) -> Result<Counts, StoreError>;

    /// Returns how long callers have waited for their commits while the store was open.
    fn commit_latency(&self) -> LatencyReading;

    /// Checks the whole store and returns the faults it finds.
    async fn integrity(&self) -> Result<Vec<String>, StoreError>;

    /// Writes a copy of the store, as of one moment, to `path`, which must not exist. Others go on
    /// meanwhile.
    async fn backup_to(&self, path: &Path) -> Result<(), StoreError>;

    /// Finds what was asked, said and done, newest first. It finds what was indexed: see
    /// [`index_step`](Store::index_step).
    async fn search(
        &self,
        filter: SearchFilter,
        page: PageRequest,
    ) -> Result<SearchPage, StoreError>;

    /// Indexes a bounded part of what was committed and is not indexed yet, in a transaction of its
    /// own. Commits do not wait for the index. Whoever owns the store calls this until nothing is
    /// left, and again after commits. A step that another server does at the same time does
    /// nothing.
    async fn index_step(&self) -> Result<Indexed, StoreError>;

    /// Removes old data, by the time at which it ended: approvals that were decided and settled,
    /// the content of events of ended chats (`{"type":"pruned","was":…}` is left, so that seq,
    /// cursors and trees keep their meaning) and, where that was asked for, of their prompts
    /// ([`NodeData::Pruned`](super::NodeData::Pruned)), audit lines, servers that are gone, and
    /// rows that nothing refers to. Sessions stay.
    async fn prune(&self, before: UnixMillis, prompts: Prompts) -> Result<Pruned, StoreError>;

    /// Commits the accepted changes, then closes. Later calls are [`StoreError::Closed`].
    async fn close(&self) -> Result<(), StoreError>;
}

/// Whether the texts of prompts are removed with what was done about them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Prompts {
    /// They stay: what was asked for is short, and the one thing that nobody could tell again.
    Keep,
    /// They go too.
    Remove,
}

/// What [`Store::prune`] removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Pruned {
    /// Approvals.
    pub approvals: u64,
    /// Chats whose events were emptied.
    pub chats: u64,
    /// Events.
    pub events: u64,
    /// Prompts.
    pub prompts: u64,
    /// Audit lines.
    pub audit: u64,
}

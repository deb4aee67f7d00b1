//! Everything the engine holds. Keys are numbers in the order of creation, which is the order of every list.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use plexus_core::{NodeId, ServerId, SessionId};
use uuid::Uuid;

use crate::contract::{
    ApprovalRecord, AuditLine, Chat, Consumer, Event, Lease, Node, OutboxEntry, Page, PageRequest,
    Run, ServerState, Session, Spend, StoredRule, Token, TokenHash, Topic, Tree, UnixMillis,
};

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) commits: u64,
    pub(super) events_ever: u64,
    /// The last key that was given.
    pub(super) keys: u64,
    /// Whom the running change list wakes.
    pub(super) topics: Vec<Topic>,
    pub(super) trees: BTreeMap<u64, Tree>,
    pub(super) chains: BTreeMap<u64, Chain>,
    pub(super) nodes: HashMap<NodeId, NodeRecord>,
    pub(super) sessions: BTreeMap<u64, SessionRecord>,
    pub(super) chats: BTreeMap<u64, ChatRecord>,
    pub(super) batches: Vec<Batch>,
    pub(super) consumers: BTreeMap<(SessionId, String), Consumer>,
    pub(super) runs: BTreeMap<u64, Run>,
    pub(super) approvals: BTreeMap<u64, ApprovalRecord>,
    pub(super) rules: BTreeMap<u64, StoredRule>,
    pub(super) tokens: HashMap<TokenHash, Token>,
    pub(super) spend: HashMap<SessionId, Spend>,
    /// The most that was added at once, in cost and turns.
    pub(super) largest: HashMap<SessionId, Spend>,
    pub(super) reservations: BTreeMap<(SessionId, u32), Spend>,
    pub(super) audit: BTreeMap<u64, AuditLine>,
    pub(super) outbox: BTreeMap<u64, OutboxEntry>,
    pub(super) servers: BTreeMap<u64, ServerRecord>,
    /// The lease this store writes under; it has one handle.
    pub(super) lease: Option<Lease>,
    /// The server that is being taken over from: what belongs to it may be ended.
    pub(super) taking: Option<ServerId>,
}

/// A server. Whether its lease has run out is seen when it is read.
#[derive(Clone, Debug)]
pub(super) struct ServerRecord {
    pub(super) lease: Lease,
    pub(super) name: String,
    pub(super) url: String,
    pub(super) state: ServerState,
    pub(super) heartbeat_at: UnixMillis,
    pub(super) lease_until: UnixMillis,
}

/// A run of nodes without a branch in between.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) tree: u64,
    pub(super) parent: Option<NodeId>,
    pub(super) nodes: Vec<NodeId>,
}

#[derive(Clone, Debug)]
pub(super) struct NodeRecord {
    pub(super) node: Node,
    pub(super) chain: u64,
    pub(super) position: usize,
}

/// A session. Its computed fields (`newest_chat`, `pending_approvals`, `next_run`) are filled in when it is read.
#[derive(Clone, Debug)]
pub(super) struct SessionRecord {
    pub(super) session: Session,
    /// Kept for a fork's sake, seen by nobody.
    pub(super) deleted: bool,
}

/// A chat. Its computed fields (`head_node`, `total_events`) are filled in when it is read.
#[derive(Clone, Debug)]
pub(super) struct ChatRecord {
    pub(super) chat: Chat,
    pub(super) events: Vec<Event>,
}

#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) commit: u64,
    pub(super) chat: u64,
    pub(super) first: u32,
    pub(super) count: u32,
}

impl State {
    pub(super) fn next_key(&mut self) -> u64 {
        self.keys += 1;
        self.keys
    }

    /// Says whether a UUID is taken by an event or a node, which share theirs.
    pub(super) fn knows_node(&self, id: &Uuid) -> bool {
        self.nodes.contains_key(&NodeId::from_uuid(*id))
    }
}

/// Reads a page of records that `keep` wants, oldest first.
pub(super) fn ascending<R, T>(
    map: &BTreeMap<u64, R>,
    page: PageRequest,
    mut keep: impl FnMut(&R) -> Option<T>,
) -> Page<T> {
    let limit = page.bounded();
    let from = page.after.map_or(Bound::Unbounded, |token| Bound::Excluded(token.0));
    let found =
        map.range((from, Bound::Unbounded)).filter_map(|(key, record)| Some((*key, keep(record)?)));
    Page::of(found.take(limit + 1).collect(), limit)
}

/// Reads a page of records that `keep` wants, newest first.
pub(super) fn descending<R, T>(
    map: &BTreeMap<u64, R>,
    page: PageRequest,
    mut keep: impl FnMut(&R) -> Option<T>,
) -> Page<T> {
    let limit = page.bounded();
    let to = page.after.map_or(Bound::Unbounded, |token| Bound::Excluded(token.0));
    let found = map
        .range((Bound::Unbounded, to))
        .rev()
        .filter_map(|(key, record)| Some((*key, keep(record)?)));
    Page::of(found.take(limit + 1).collect(), limit)
}

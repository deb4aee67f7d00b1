//! The contract, handed to the modules that keep it.

use std::path::Path;

use async_trait::async_trait;
use plexus_core::{ApprovalId, EventId, NodeId, RuleId, SessionId, TreeId};

use super::state::{ascending, descending};
use super::{
    MemoryStore, approvals, arbor, audit, budget, chats, consumers, events, rules, runs, servers,
    sessions, upkeep,
};
use crate::contract::{
    ApprovalFilter, ApprovalRecord, AuditLine, Change, ChangedSessions, Chat, Committed, Consumer,
    Counts, Cursor, Due, Event, EventPage, FeedPage, Lease, Node, OutboxDue, OutlineEntry, Page,
    PageRequest, Priority, Pruned, ReadLimit, Run, RunKey, Server, Session, SessionFilter,
    SpendTotals, Store, StoreError, StoredRule, Token, TokenHash, Topic, Tree, UnixMillis, Waiting,
    Wake,
};

#[async_trait]
impl Store for MemoryStore {
    async fn commit(
        &self,
        changes: Vec<Change>,
        _priority: Priority,
    ) -> Result<Committed, StoreError> {
        self.write(changes)
    }

    async fn newest_commit(&self) -> Result<u64, StoreError> {
        self.read(|state| Ok(state.commits))
    }

    fn watch(&self, topic: Topic) -> Wake {
        self.wakes.subscribe(topic)
    }

    async fn session(&self, id: SessionId) -> Result<Session, StoreError> {
        self.read(|state| sessions::get(state, id))
    }

    async fn session_named(
        &self,
        parent: Option<SessionId>,
        name: &str,
    ) -> Result<Session, StoreError> {
        self.read(|state| sessions::named(state, parent, name))
    }

    async fn sessions(
        &self,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<Page<Session>, StoreError> {
        self.read(|state| sessions::list(state, &filter, page))
    }

    async fn ancestors(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
        self.read(|state| sessions::ancestors(state, id))
    }

    async fn descendants(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
        self.read(|state| sessions::descendants(state, id))
    }

    async fn sessions_changed(
        &self,
        after: u64,
        filter: SessionFilter,
        limit: usize,
    ) -> Result<ChangedSessions, StoreError> {
        self.read(|state| sessions::changed(state, after, &filter, limit))
    }

    async fn chat(&self, session: SessionId, chat: Option<u32>) -> Result<Chat, StoreError> {
        self.read(|state| chats::get(state, session, chat))
    }

    async fn chat_by_key(&self, session: SessionId, key: &str) -> Result<Option<Chat>, StoreError> {
        self.read(|state| chats::by_key(state, session, key))
    }

    async fn chats(
        &self,
        session: Option<SessionId>,
        under: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<Chat>, StoreError> {
        self.read(|state| chats::list(state, session, under, page))
    }

    async fn read_events(
        &self,
        session: SessionId,
        chat: u32,
        from_seq: u32,
        limit: ReadLimit,
    ) -> Result<EventPage, StoreError> {
        self.read(|state| events::read(state, session, chat, from_seq, limit))
    }

    async fn read_from(&self, cursor: Cursor, limit: ReadLimit) -> Result<EventPage, StoreError> {
        self.read(|state| events::read_from(state, cursor, limit))
    }

    async fn read_commits(&self, after: u64, limit: ReadLimit) -> Result<FeedPage, StoreError> {
        self.read(|state| events::read_commits(state, after, limit))
    }

    async fn event(&self, id: EventId) -> Result<Event, StoreError> {
        self.read(|state| events::get(state, id))
    }

    async fn resolve_cursor(&self, session: SessionId, text: &str) -> Result<Cursor, StoreError> {
        self.read(|state| events::resolve_cursor(state, session, text))
    }

    async fn consumer(
        &self,
        session: SessionId,
        name: &str,
    ) -> Result<Option<Consumer>, StoreError> {
        self.read(|state| consumers::get(state, session, name))
    }

    async fn consumers(&self, session: SessionId) -> Result<Vec<Consumer>, StoreError> {
        self.read(|state| consumers::list(state, session))
    }

    async fn run(&self, run: RunKey) -> Result<Run, StoreError> {
        self.read(|state| runs::get(state, run))
    }

    async fn open_runs(&self) -> Result<Vec<Run>, StoreError> {
        self.read(|state| {
            Ok(state.runs.values().filter(|run| run.ended_at.is_none()).cloned().collect())
        })
    }

    async fn runs(&self, session: SessionId) -> Result<Vec<Run>, StoreError> {
        self.read(|state| {
            sessions::require(state, session)?;
            Ok(state.runs.values().filter(|run| run.key.session == session).cloned().collect())
        })
    }

    fn lease(&self) -> Option<Lease> {
        self.lock().as_ref().and_then(|state| state.lease)
    }

    async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        self.read(|state| Ok(servers::list(state)))
    }

    async fn approval(&self, id: ApprovalId) -> Result<ApprovalRecord, StoreError> {
        self.read(|state| approvals::get(state, id))
    }

    async fn approval_by_request(
        &self,
        session: SessionId,
        run: Option<u32>,
        request_id: &str,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        self.read(|state| approvals::by_request(state, session, run, request_id))
    }

    async fn approvals(
        &self,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<ApprovalRecord>, StoreError> {
        self.read(|state| approvals::list(state, &filter, page))
    }

    async fn due(&self, now: UnixMillis) -> Result<Due, StoreError> {
        self.read(|state| Ok(approvals::due(state, now)))
    }

    async fn rule(&self, id: RuleId) -> Result<StoredRule, StoreError> {
        self.read(|state| rules::get(state, id))
    }

    async fn rules(&self, page: PageRequest) -> Result<Page<StoredRule>, StoreError> {
        self.read(|state| Ok(ascending(&state.rules, page, |rule| Some(rule.clone()))))
    }

    async fn token(&self, hash: TokenHash) -> Result<Option<Token>, StoreError> {
        self.read(|state| Ok(state.tokens.get(&hash).copied()))
    }

    async fn spend(&self, session: SessionId) -> Result<SpendTotals, StoreError> {
        self.read(|state| budget::totals(state, session))
    }

    async fn audit(
        &self,
        session: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<AuditLine>, StoreError> {
        self.read(|state| {
            let fits = |line: &AuditLine| session.is_none() || line.session == session;
            Ok(descending(&state.audit, page, |line| fits(line).then(|| line.clone())))
        })
    }

    async fn outbox_due(
        &self,
        target: &str,
        now: UnixMillis,
        limit: usize,
    ) -> Result<OutboxDue, StoreError> {
        self.read(|state| Ok(audit::due(state, target, now, limit)))
    }

    async fn outbox_waiting(&self) -> Result<Vec<Waiting>, StoreError> {
        self.read(|state| Ok(audit::waiting(state)))
    }

    async fn tree(&self, id: TreeId) -> Result<Tree, StoreError> {
        self.read(|state| arbor::tree(state, id))
    }

    async fn trees(&self, page: PageRequest) -> Result<Page<Tree>, StoreError> {
        self.read(|state| Ok(arbor::trees(state, page)))
    }

    async fn node(&self, id: NodeId) -> Result<Node, StoreError> {
        self.read(|state| arbor::node(state, id))
    }

    async fn children(&self, id: NodeId) -> Result<Vec<Node>, StoreError> {
        self.read(|state| arbor::children(state, id))
    }

    async fn path(&self, id: NodeId, limit: usize) -> Result<Vec<Node>, StoreError> {
        self.read(|state| arbor::path(state, id, limit))
    }

    async fn path_between(&self, from: NodeId, to: NodeId) -> Result<Vec<Node>, StoreError> {
        self.read(|state| arbor::path_between(state, from, to))
    }

    async fn leaves(&self, tree: TreeId, page: PageRequest) -> Result<Page<Node>, StoreError> {
        self.read(|state| arbor::leaves(state, tree, page))
    }

    async fn tree_outline(
        &self,
        tree: TreeId,
        limit: usize,
    ) -> Result<Vec<OutlineEntry>, StoreError> {
        self.read(|state| arbor::outline(state, tree, limit))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.read(|state| Ok(upkeep::counts(state)))
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        self.read(|_| Ok(Vec::new()))
    }

    async fn backup_to(&self, _path: &Path) -> Result<(), StoreError> {
        Err(StoreError::invalid(
            "back up a store in memory: it is for tests, and nothing of it lasts",
        ))
    }

    async fn prune(&self, before: UnixMillis) -> Result<Pruned, StoreError> {
        self.lock().as_mut().ok_or(StoreError::Closed).map(|state| upkeep::prune(state, before))
    }

    async fn close(&self) -> Result<(), StoreError> {
        *self.lock() = None;
        Ok(())
    }
}

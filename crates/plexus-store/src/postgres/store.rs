//! The contract, handed to the modules that keep it.

use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

use async_trait::async_trait;
use plexus_core::{ApprovalId, EventId, LatencyReading, NodeId, RuleId, SessionId, TreeId};
use tokio::sync::oneshot;

use super::readers::{READ_TIMEOUT, Tries};
use super::{
    CLOSE_PATIENCE, PostgresStore, approvals, arbor, audit, budget, chats, consumers, events,
    rules, runs, servers, sessions, tokens, upkeep,
};
use crate::contract::{
    ApprovalFilter, ApprovalRecord, AuditLine, Change, ChangedSessions, Chat, Committed, Consumer,
    Counts, Cursor, Due, Event, EventPage, FeedPage, Lease, Node, OutboxDue, OutlineEntry, Page,
    PageRequest, Priority, Pruned, ReadLimit, Run, RunKey, Server, Session, SessionFilter,
    SpendTotals, Store, StoreError, StoredRule, Token, TokenHash, Topic, Tree, UnixMillis, Waiting,
    Wake, check,
};
use crate::queue::Job;

fn unavailable(message: String) -> StoreError {
    StoreError::Unavailable { message, source: None }
}

/// Reads in one snapshot. A connection that was lost is no answer: the read is done again on another one, within bounds.
macro_rules! read {
    ($self:ident, $conn:ident => $work:expr) => {{
        let tries = Tries::new();
        loop {
            let result = match $self.readers.begin().await {
                Err(error) => Err(error),
                Ok(reading) => {
                    let $conn = reading.conn()?;
                    match tokio::time::timeout(READ_TIMEOUT, $work).await {
                        Ok(result) => result,
                        Err(_) => {
                            reading.discard();
                            Err(unavailable(format!(
                                "the database did not answer within {READ_TIMEOUT:?}"
                            )))
                        }
                    }
                }
            };
            match result {
                Ok(found) => break Ok(found),
                Err(error) => tries.again(error).await?,
            }
        }
    }};
}

impl PostgresStore {
    async fn prune_step(&self, before: UnixMillis) -> Result<Pruned, StoreError> {
        let tries = Tries::new();
        loop {
            let result = match self.readers.take().await {
                Err(error) => Err(error),
                Ok(taken) => {
                    let conn = taken.conn()?;
                    conn.send("BEGIN");
                    match upkeep::prune_step(conn, before).await {
                        Ok(step) => conn.batch("COMMIT").await.map(|()| step),
                        Err(error) => Err(error),
                    }
                }
            };
            match result {
                Ok(step) => return Ok(step),
                Err(error) => tries.again(error).await?,
            }
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(
        &self,
        changes: Vec<Change>,
        priority: Priority,
    ) -> Result<Committed, StoreError> {
        let bytes = check::change_list(&changes)?;
        let since = Instant::now();
        let (reply, answer) = oneshot::channel();
        self.queue.push(Job { changes, bytes, reply }, priority)?;
        let committed = answer.await.map_err(|_| StoreError::Closed)?;
        if committed.is_ok() {
            self.commit_latency.note(since.elapsed());
        }
        committed
    }

    fn commit_latency(&self) -> LatencyReading {
        self.commit_latency.read()
    }

    async fn newest_commit(&self) -> Result<u64, StoreError> {
        read!(self, conn => sessions::newest_commit(conn))
    }

    fn watch(&self, topic: Topic) -> Wake {
        self.wakes.subscribe(topic)
    }

    async fn session(&self, id: SessionId) -> Result<Session, StoreError> {
        read!(self, conn => sessions::get(conn, id))
    }

    async fn session_named(
        &self,
        parent: Option<SessionId>,
        name: &str,
    ) -> Result<Session, StoreError> {
        read!(self, conn => sessions::named(conn, parent, name))
    }

    async fn sessions(
        &self,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<Page<Session>, StoreError> {
        read!(self, conn => sessions::list(conn, &filter, page))
    }

    async fn ancestors(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
        read!(self, conn => sessions::ancestors(conn, id))
    }

    async fn descendants(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
        read!(self, conn => sessions::descendants(conn, id))
    }

    async fn sessions_changed(
        &self,
        after: u64,
        filter: SessionFilter,
        limit: usize,
    ) -> Result<ChangedSessions, StoreError> {
        read!(self, conn => sessions::changed(conn, after, &filter, limit))
    }

    async fn chat(&self, session: SessionId, chat: Option<u32>) -> Result<Chat, StoreError> {
        read!(self, conn => chats::get(conn, session, chat))
    }

    async fn chat_by_key(&self, session: SessionId, key: &str) -> Result<Option<Chat>, StoreError> {
        read!(self, conn => chats::by_key(conn, session, key))
    }

    async fn chats(
        &self,
        session: Option<SessionId>,
        under: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<Chat>, StoreError> {
        read!(self, conn => chats::list(conn, session, under, page))
    }

    async fn read_events(
        &self,
        session: SessionId,
        chat: u32,
        from_seq: u32,
        limit: ReadLimit,
    ) -> Result<EventPage, StoreError> {
        read!(self, conn => events::read(conn, session, chat, from_seq, limit))
    }

    async fn read_from(&self, cursor: Cursor, limit: ReadLimit) -> Result<EventPage, StoreError> {
        read!(self, conn => events::read_from(conn, cursor, limit))
    }

    async fn read_commits(&self, after: u64, limit: ReadLimit) -> Result<FeedPage, StoreError> {
        read!(self, conn => events::read_commits(conn, after, limit))
    }

    async fn event(&self, id: EventId) -> Result<Event, StoreError> {
        read!(self, conn => events::get(conn, id))
    }

    async fn resolve_cursor(&self, session: SessionId, text: &str) -> Result<Cursor, StoreError> {
        read!(self, conn => events::resolve_cursor(conn, session, text))
    }

    async fn consumer(
        &self,
        session: SessionId,
        name: &str,
    ) -> Result<Option<Consumer>, StoreError> {
        read!(self, conn => consumers::get(conn, session, name))
    }

    async fn consumers(&self, session: SessionId) -> Result<Vec<Consumer>, StoreError> {
        read!(self, conn => consumers::list(conn, session))
    }

    async fn run(&self, run: RunKey) -> Result<Run, StoreError> {
        read!(self, conn => runs::get(conn, run))
    }

    async fn open_runs(&self) -> Result<Vec<Run>, StoreError> {
        read!(self, conn => runs::open(conn))
    }

    async fn runs(&self, session: SessionId) -> Result<Vec<Run>, StoreError> {
        read!(self, conn => runs::of_session(conn, session))
    }

    fn lease(&self) -> Option<Lease> {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        read!(self, conn => servers::list(conn))
    }

    async fn approval(&self, id: ApprovalId) -> Result<ApprovalRecord, StoreError> {
        read!(self, conn => approvals::get(conn, id))
    }

    async fn approval_by_request(
        &self,
        session: SessionId,
        run: Option<u32>,
        request_id: &str,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        read!(self, conn => approvals::by_request(conn, session, run, request_id))
    }

    async fn approvals(
        &self,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<ApprovalRecord>, StoreError> {
        read!(self, conn => approvals::list(conn, &filter, page))
    }

    async fn due(&self, now: UnixMillis) -> Result<Due, StoreError> {
        read!(self, conn => approvals::due(conn, now))
    }

    async fn rule(&self, id: RuleId) -> Result<StoredRule, StoreError> {
        read!(self, conn => rules::get(conn, id))
    }

    async fn rules(&self, page: PageRequest) -> Result<Page<StoredRule>, StoreError> {
        read!(self, conn => rules::list(conn, page))
    }

    async fn token(&self, hash: TokenHash) -> Result<Option<Token>, StoreError> {
        read!(self, conn => tokens::get(conn, hash))
    }

    async fn spend(&self, session: SessionId) -> Result<SpendTotals, StoreError> {
        read!(self, conn => budget::totals(conn, session))
    }

    async fn audit(
        &self,
        session: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<AuditLine>, StoreError> {
        read!(self, conn => audit::list(conn, session, page))
    }

    async fn outbox_due(
        &self,
        target: &str,
        now: UnixMillis,
        limit: usize,
    ) -> Result<OutboxDue, StoreError> {
        read!(self, conn => audit::due(conn, target, now, limit))
    }

    async fn outbox_waiting(&self) -> Result<Vec<Waiting>, StoreError> {
        read!(self, conn => audit::waiting(conn))
    }

    async fn tree(&self, id: TreeId) -> Result<Tree, StoreError> {
        read!(self, conn => arbor::tree(conn, id))
    }

    async fn trees(&self, page: PageRequest) -> Result<Page<Tree>, StoreError> {
        read!(self, conn => arbor::trees(conn, page))
    }

    async fn node(&self, id: NodeId) -> Result<Node, StoreError> {
        read!(self, conn => arbor::node(conn, id))
    }

    async fn children(&self, id: NodeId) -> Result<Vec<Node>, StoreError> {
        read!(self, conn => arbor::children(conn, id))
    }

    async fn path(&self, id: NodeId, limit: usize) -> Result<Vec<Node>, StoreError> {
        read!(self, conn => arbor::path(conn, id, limit))
    }

    async fn path_between(&self, from: NodeId, to: NodeId) -> Result<Vec<Node>, StoreError> {
        read!(self, conn => arbor::path_between(conn, from, to))
    }

    async fn leaves(&self, tree: TreeId, page: PageRequest) -> Result<Page<Node>, StoreError> {
        read!(self, conn => arbor::leaves(conn, tree, page))
    }

    async fn tree_outline(
        &self,
        tree: TreeId,
        limit: usize,
    ) -> Result<Vec<OutlineEntry>, StoreError> {
        read!(self, conn => arbor::outline(conn, tree, limit))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let queue_entries = self.queue.len() as u64;
        Ok(Counts { queue_entries, ..read!(self, conn => upkeep::counts(conn))? })
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        let reading = self.readers.begin().await?;
        upkeep::integrity(reading.conn()?).await
    }

    async fn backup_to(&self, _path: &Path) -> Result<(), StoreError> {
        Err(StoreError::invalid(
            "copy a PostgreSQL store to a file: use pg_dump, which does it as of one moment too",
        ))
    }

    async fn prune(&self, before: UnixMillis) -> Result<Pruned, StoreError> {
        let mut all = Pruned::default();
        loop {
            // Step by step, each in a transaction of its own, so that nobody is held up for long.
            let step = self.prune_step(before).await?;
            all.approvals += step.approvals;
            all.chats += step.chats;
            all.events += step.events;
            all.audit += step.audit;
            if step == Pruned::default() {
                return Ok(all);
            }
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        self.shutdown.send_replace(true);
        self.readers.close().await;
        let Some(mut writer) = self.take_writer() else { return Ok(()) };
        match tokio::time::timeout(CLOSE_PATIENCE, &mut writer).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unavailable(format!("the writer broke off: {error}"))),
            Err(_) => {
                writer.abort();
                Err(unavailable(format!(
                    "what was accepted was not written within {CLOSE_PATIENCE:?}"
                )))
            }
        }
    }
}

//! The contract, handed to the modules that keep it.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use plexus_core::{ApprovalId, EventId, LatencyReading, NodeId, RuleId, SessionId, TreeId};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::sql::store_error;
use super::{
    SqliteStore, approvals, arbor, audit, budget, chats, consumers, events, readers, rules, runs,
    servers, sessions, tokens, upkeep,
};
use crate::contract::{
    ApprovalFilter, ApprovalRecord, AuditLine, Change, ChangedSessions, Chat, Committed, Consumer,
    Counts, Cursor, Due, Event, EventPage, FeedPage, Lease, Node, OutboxDue, OutlineEntry, Page,
    PageRequest, Priority, Pruned, ReadLimit, Run, RunKey, Server, Session, SessionFilter,
    SpendTotals, Store, StoreError, StoredRule, Token, TokenHash, Topic, Tree, UnixMillis, Waiting,
    Wake, check,
};
use crate::queue::Job;

impl SqliteStore {
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.check()?;
        self.readers.run(work).await
    }

    /// Runs `work` in a transaction of its own on the writer's connection.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.check()?;
        let (reply, answer) = oneshot::channel();
        let health = Arc::clone(&self.health);
        self.queue.push_task(Box::new(move |conn| {
            let result = in_transaction(conn, work);
            if let Err(error) = &result {
                health.note(error);
            }
            // A caller that left has no use for its answer.
            let _gone = reply.send(result);
        }))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs something long on a connection and a thread of its own, so that it takes no reader's place.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.check()?;
        let path = self.path.clone();
        let running =
            tokio::task::spawn_blocking(move || readers::open(&path).and_then(|conn| work(&conn)));
        running.await.map_err(|error| StoreError::Unavailable {
            message: format!("upkeep broke off: {error}"),
            source: None,
        })?
    }
}

fn in_transaction<T>(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    conn.execute_batch("BEGIN IMMEDIATE").map_err(store_error)?;
    let result = work(conn)
        .and_then(|value| conn.execute_batch("COMMIT").map(|()| value).map_err(store_error));
    if result.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK").map_err(store_error)?;
    }
    result
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(
        &self,
        changes: Vec<Change>,
        priority: Priority,
    ) -> Result<Committed, StoreError> {
        let bytes = check::change_list(&changes)?;
        self.health.check()?;
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
        self.read(sessions::newest_commit).await
    }

    fn watch(&self, topic: Topic) -> Wake {
        self.wakes.subscribe(topic)
    }

    async fn session(&self, id: SessionId) -> Result<Session, StoreError> {
        self.read(move |conn| sessions::get(conn, id)).await
    }

    async fn session_named(
        &self,
        parent: Option<SessionId>,
        name: &str,
    ) -> Result<Session, StoreError> {
        let name = name.to_owned();
        self.read(move |conn| sessions::named(conn, parent, &name)).await
    }

    async fn sessions(
        &self,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<Page<Session>, StoreError> {
        self.read(move |conn| sessions::list(conn, &filter, page)).await
    }

    async fn ancestors(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
        self.read(move |conn| sessions::ancestors(conn, id)).await
    }

    async fn descendants(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
        self.read(move |conn| sessions::descendants(conn, id)).await
    }

    async fn sessions_changed(
        &self,
        after: u64,
        filter: SessionFilter,
        limit: usize,
    ) -> Result<ChangedSessions, StoreError> {
        self.read(move |conn| sessions::changed(conn, after, &filter, limit)).await
    }

    async fn chat(&self, session: SessionId, chat: Option<u32>) -> Result<Chat, StoreError> {
        self.read(move |conn| chats::get(conn, session, chat)).await
    }

    async fn chat_by_key(&self, session: SessionId, key: &str) -> Result<Option<Chat>, StoreError> {
        let key = key.to_owned();
        self.read(move |conn| chats::by_key(conn, session, &key)).await
    }

    async fn chats(
        &self,
        session: Option<SessionId>,
        under: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<Chat>, StoreError> {
        self.read(move |conn| chats::list(conn, session, under, page)).await
    }

    async fn read_events(
        &self,
        session: SessionId,
        chat: u32,
        from_seq: u32,
        limit: ReadLimit,
    ) -> Result<EventPage, StoreError> {
        self.read(move |conn| events::read(conn, session, chat, from_seq, limit)).await
    }

    async fn read_from(&self, cursor: Cursor, limit: ReadLimit) -> Result<EventPage, StoreError> {
        self.read(move |conn| events::read_from(conn, cursor, limit)).await
    }

    async fn read_commits(&self, after: u64, limit: ReadLimit) -> Result<FeedPage, StoreError> {
        self.read(move |conn| events::read_commits(conn, after, limit)).await
    }

    async fn event(&self, id: EventId) -> Result<Event, StoreError> {
        self.read(move |conn| events::get(conn, id)).await
    }

    async fn resolve_cursor(&self, session: SessionId, text: &str) -> Result<Cursor, StoreError> {
        let text = text.to_owned();
        self.read(move |conn| events::resolve_cursor(conn, session, &text)).await
    }

    async fn consumer(
        &self,
        session: SessionId,
        name: &str,
    ) -> Result<Option<Consumer>, StoreError> {
        let name = name.to_owned();
        self.read(move |conn| consumers::get(conn, session, &name)).await
    }

    async fn consumers(&self, session: SessionId) -> Result<Vec<Consumer>, StoreError> {
        self.read(move |conn| consumers::list(conn, session)).await
    }

    async fn run(&self, run: RunKey) -> Result<Run, StoreError> {
        self.read(move |conn| runs::get(conn, run)).await
    }

    async fn open_runs(&self) -> Result<Vec<Run>, StoreError> {
        self.read(runs::open).await
    }

    async fn runs(&self, session: SessionId) -> Result<Vec<Run>, StoreError> {
        self.read(move |conn| runs::of_session(conn, session)).await
    }

    fn lease(&self) -> Option<Lease> {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        self.read(servers::list).await
    }

    async fn approval(&self, id: ApprovalId) -> Result<ApprovalRecord, StoreError> {
        self.read(move |conn| approvals::get(conn, id)).await
    }

    async fn approval_by_request(
        &self,
        session: SessionId,
        run: Option<u32>,
        request_id: &str,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        let request_id = request_id.to_owned();
        self.read(move |conn| approvals::by_request(conn, session, run, &request_id)).await
    }

    async fn approvals(
        &self,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<ApprovalRecord>, StoreError> {
        self.read(move |conn| approvals::list(conn, &filter, page)).await
    }

    async fn due(&self, now: UnixMillis) -> Result<Due, StoreError> {
        self.read(move |conn| approvals::due(conn, now)).await
    }

    async fn rule(&self, id: RuleId) -> Result<StoredRule, StoreError> {
        self.read(move |conn| rules::get(conn, id)).await
    }

    async fn rules(&self, page: PageRequest) -> Result<Page<StoredRule>, StoreError> {
        self.read(move |conn| rules::list(conn, page)).await
    }

    async fn token(&self, hash: TokenHash) -> Result<Option<Token>, StoreError> {
        self.read(move |conn| tokens::get(conn, hash)).await
    }

    async fn spend(&self, session: SessionId) -> Result<SpendTotals, StoreError> {
        self.read(move |conn| budget::totals(conn, session)).await
    }

    async fn audit(
        &self,
        session: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<AuditLine>, StoreError> {
        self.read(move |conn| audit::list(conn, session, page)).await
    }

    async fn outbox_due(
        &self,
        target: &str,
        now: UnixMillis,
        limit: usize,
    ) -> Result<OutboxDue, StoreError> {
        let target = target.to_owned();
        self.read(move |conn| audit::due(conn, &target, now, limit)).await
    }

    async fn outbox_waiting(&self) -> Result<Vec<Waiting>, StoreError> {
        self.read(audit::waiting).await
    }

    async fn tree(&self, id: TreeId) -> Result<Tree, StoreError> {
        self.read(move |conn| arbor::tree(conn, id)).await
    }

    async fn trees(&self, page: PageRequest) -> Result<Page<Tree>, StoreError> {
        self.read(move |conn| arbor::trees(conn, page)).await
    }

    async fn node(&self, id: NodeId) -> Result<Node, StoreError> {
        self.read(move |conn| arbor::node(conn, id)).await
    }

    async fn children(&self, id: NodeId) -> Result<Vec<Node>, StoreError> {
        self.read(move |conn| arbor::children(conn, id)).await
    }

    async fn path(&self, id: NodeId, limit: usize) -> Result<Vec<Node>, StoreError> {
        self.read(move |conn| arbor::path(conn, id, limit)).await
    }

    async fn path_between(&self, from: NodeId, to: NodeId) -> Result<Vec<Node>, StoreError> {
        self.read(move |conn| arbor::path_between(conn, from, to)).await
    }

    async fn leaves(&self, tree: TreeId, page: PageRequest) -> Result<Page<Node>, StoreError> {
        self.read(move |conn| arbor::leaves(conn, tree, page)).await
    }

    async fn tree_outline(
        &self,
        tree: TreeId,
        limit: usize,
    ) -> Result<Vec<OutlineEntry>, StoreError> {
        self.read(move |conn| arbor::outline(conn, tree, limit)).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let queue_entries = self.queue.len() as u64;
        Ok(Counts { queue_entries, ..self.read(upkeep::counts).await? })
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        self.apart(upkeep::integrity).await
    }

    async fn backup_to(&self, path: &Path) -> Result<(), StoreError> {
        let path = path.to_owned();
        self.apart(move |conn| upkeep::backup(conn, &path)).await
    }

    async fn prune(&self, before: UnixMillis) -> Result<Pruned, StoreError> {
        let mut all = Pruned::default();
        loop {
            // Step by step through the queue, so that others get their turn in between.
            let step = self.write(move |conn| upkeep::prune_step(conn, before)).await?;
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
        self.readers.close(self.reader_count).await;
        let Some(thread) = self.take_writer() else { return Ok(()) };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match joined {
            Ok(Ok(())) => self.health.check(),
            _ => Err(StoreError::Unavailable {
                message: "the writer broke off".to_owned(),
                source: None,
            }),
        }
    }
}

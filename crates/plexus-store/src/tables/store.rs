//! The contract of a store, kept once for all engines: the tables answer reads, the engine does the
//! rest.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use plexus_core::Latency;

use crate::contract::{
    Change, Committed, Indexed, Lease, Priority, Prompts, Pruned, StoreError, UnixMillis, Wakes,
};
use crate::sqlite::newest::Newest;

/// The part of a store that its callers share with its writer.
#[derive(Debug, Default)]
pub(crate) struct Handle {
    /// The subscribers to wake after a commit.
    pub(crate) wakes: Wakes,
    /// The lease that the newest group was committed under; set by the writer.
    pub(crate) lease: Arc<Mutex<Option<Lease>>>,
    /// How long callers waited, from handing in a change list to its answer.
    pub(crate) latency: Latency,
    /// What was just written; empty in an engine that is not the only writer of its store.
    pub(crate) newest: Arc<Newest>,
}

impl Handle {
    /// Returns the lease that the store writes under.
    pub(crate) fn lease(&self) -> Option<Lease> {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What each engine does in its own way.
pub(crate) trait Engine {
    /// Returns what the store shares with its writer.
    fn handle(&self) -> &Handle;
    /// Returns how many lists of changes wait for the writer.
    fn waiting(&self) -> usize;
    /// Returns what was just written, while the store can be trusted.
    fn newest(&self) -> Option<&Newest>;
    /// Writes all of `changes` in one transaction, or nothing.
    async fn commit(
        &self,
        changes: Vec<Change>,
        priority: Priority,
    ) -> Result<Committed, StoreError>;
    /// Reads everything and returns what is wrong with it.
    async fn integrity(&self) -> Result<Vec<String>, StoreError>;
    /// Copies the store, as of one moment, to a file.
    async fn backup_to(&self, path: &Path) -> Result<(), StoreError>;
    /// Prunes a bounded part of what ended before `before`, in a transaction of its own.
    async fn prune_step(&self, before: UnixMillis, prompts: Prompts) -> Result<Pruned, StoreError>;
    /// Indexes a bounded part of what is not indexed yet, in a transaction of its own.
    async fn index_step(&self) -> Result<Indexed, StoreError>;
    /// Writes what was accepted and lets go of the store.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Makes a [`Store`](crate::contract::Store) of an [`Engine`].
///
/// `$read!(self, conn => work)` runs `work`, a future over the tables, in one snapshot. It is a
/// macro because the engines run it differently: PostgreSQL awaits it and may have to start it
/// again, SQLite takes it to another thread.
macro_rules! store {
    ($engine:ident, $read:ident) => {
        const _: () = {
            use std::collections::HashMap;
            use std::path::Path;

            use plexus_core::{
                ApprovalId, DeviceId, EventId, LatencyReading, NodeId, RuleId, SessionId, TreeId,
            };
            use $crate::contract::{
                ApprovalFilter, ApprovalRecord, Change, ChangedSessions, Chat, Committed, Consumer,
                Counts, Cursor, Device, Due, Event, EventPage, FeedPage, Indexed, Lease, Node,
                NumberedLine, OutboxDue, OutlineEntry, Page, PageRequest, Priority, PromptImage,
                Prompts, Pruned, ReadLimit, RunKey, RunRecord, SearchFilter, SearchPage, Server,
                SessionFilter, SessionRecord, SpendTotals, Store, StoreError, StoredRule,
                SubtreeSpend, Token, TokenHash, Topic, Tree, UnixMillis, Waiting, Wake,
            };
            use $crate::sqlite::newest::Newest;
            use $crate::tables::store::Engine;
            use $crate::tables::{
                approvals, arbor, audit, budget, chats, consumers, devices, events, parking, rules,
                runs, search, servers, sessions, tokens, upkeep,
            };

            #[async_trait::async_trait]
            impl Store for $engine {
                async fn commit(
                    &self,
                    changes: Vec<Change>,
                    priority: Priority,
                ) -> Result<Committed, StoreError> {
                    Engine::commit(self, changes, priority).await
                }

                fn commit_latency(&self) -> LatencyReading {
                    self.handle().latency.read()
                }

                fn watch(&self, topic: Topic) -> Wake {
                    self.handle().wakes.subscribe(topic)
                }

                fn lease(&self) -> Option<Lease> {
                    self.handle().lease()
                }

                async fn newest_commit(&self) -> Result<u64, StoreError> {
                    $read!(self, conn => sessions::newest_commit(conn))
                }

                async fn newest_time(&self) -> Result<Option<UnixMillis>, StoreError> {
                    $read!(self, conn => sessions::newest_time(conn))
                }

                async fn session(&self, id: SessionId) -> Result<SessionRecord, StoreError> {
                    if let Some(found) = self.newest().and_then(|newest| newest.session(id)) {
                        return Ok(found);
                    }
                    $read!(self, conn => sessions::get(conn, id))
                }

                async fn session_named(
                    &self,
                    parent: Option<SessionId>,
                    name: &str,
                ) -> Result<SessionRecord, StoreError> {
                    let name = name.to_owned();
                    $read!(self, conn => sessions::named(conn, parent, &name))
                }

                async fn sessions(
                    &self,
                    filter: SessionFilter,
                    page: PageRequest,
                ) -> Result<Page<SessionRecord>, StoreError> {
                    $read!(self, conn => sessions::list(conn, &filter, page))
                }

                async fn ancestors(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
                    let known = self.newest().and_then(|newest| newest.session(id));
                    if known.is_some_and(|session| session.parent.is_none()) {
                        return Ok(Vec::new());
                    }
                    $read!(self, conn => sessions::ancestors(conn, id))
                }

                async fn descendants(&self, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
                    $read!(self, conn => sessions::descendants(conn, id))
                }

                async fn sessions_changed(
                    &self,
                    after: u64,
                    filter: SessionFilter,
                    limit: usize,
                ) -> Result<ChangedSessions, StoreError> {
                    $read!(self, conn => sessions::changed(conn, after, &filter, limit))
                }

                async fn chat(
                    &self,
                    session: SessionId,
                    chat: Option<u32>,
                ) -> Result<Chat, StoreError> {
                    $read!(self, conn => chats::get(conn, session, chat))
                }

                async fn chat_images(
                    &self,
                    session: SessionId,
                    chat: u32,
                ) -> Result<Vec<PromptImage>, StoreError> {
                    $read!(self, conn => chats::images(conn, session, chat))
                }

                async fn parked_transcript(
                    &self,
                    session: SessionId,
                    chat: u32,
                ) -> Result<Option<Vec<u8>>, StoreError> {
                    $read!(self, conn => parking::transcript(conn, session, chat))
                }

                async fn chat_by_key(
                    &self,
                    session: SessionId,
                    key: &str,
                ) -> Result<Option<Chat>, StoreError> {
                    let key = key.to_owned();
                    $read!(self, conn => chats::by_key(conn, session, &key))
                }

                async fn chats(
                    &self,
                    session: Option<SessionId>,
                    under: Option<SessionId>,
                    page: PageRequest,
                ) -> Result<Page<Chat>, StoreError> {
                    $read!(self, conn => chats::list(conn, session, under, page))
                }

                async fn read_events(
                    &self,
                    session: SessionId,
                    chat: u32,
                    from_seq: u32,
                    limit: ReadLimit,
                ) -> Result<EventPage, StoreError> {
                    $read!(self, conn => events::read(conn, session, chat, from_seq, limit))
                }

                async fn read_from(
                    &self,
                    cursor: Cursor,
                    limit: ReadLimit,
                ) -> Result<EventPage, StoreError> {
                    $read!(self, conn => events::read_from(conn, cursor, limit))
                }

                async fn read_commits(
                    &self,
                    after: u64,
                    limit: ReadLimit,
                ) -> Result<FeedPage, StoreError> {
                    $read!(self, conn => events::read_commits(conn, after, limit))
                }

                async fn event(&self, id: EventId) -> Result<Event, StoreError> {
                    $read!(self, conn => events::get(conn, id))
                }

                async fn resolve_cursor(
                    &self,
                    session: SessionId,
                    text: &str,
                ) -> Result<Cursor, StoreError> {
                    let text = text.to_owned();
                    $read!(self, conn => events::resolve_cursor(conn, session, &text))
                }

                async fn consumer(
                    &self,
                    session: SessionId,
                    name: &str,
                ) -> Result<Option<Consumer>, StoreError> {
                    let name = name.to_owned();
                    $read!(self, conn => consumers::get(conn, session, &name))
                }

                async fn consumers(&self, session: SessionId) -> Result<Vec<Consumer>, StoreError> {
                    $read!(self, conn => consumers::list(conn, session))
                }

                async fn run(&self, run: RunKey) -> Result<RunRecord, StoreError> {
                    $read!(self, conn => runs::get(conn, run))
                }

                async fn open_runs(&self) -> Result<Vec<RunRecord>, StoreError> {
                    $read!(self, conn => runs::open(conn))
                }

                async fn runs(&self, session: SessionId) -> Result<Vec<RunRecord>, StoreError> {
                    $read!(self, conn => runs::of_session(conn, session))
                }

                async fn servers(&self) -> Result<Vec<Server>, StoreError> {
                    $read!(self, conn => servers::list(conn))
                }

                async fn approval(&self, id: ApprovalId) -> Result<ApprovalRecord, StoreError> {
                    if let Some(found) = self.newest().and_then(|newest| newest.approval(id)) {
                        return Ok(found);
                    }
                    $read!(self, conn => approvals::get(conn, id))
                }

                async fn approval_by_request(
                    &self,
                    session: SessionId,
                    run: Option<u32>,
                    request_id: &str,
                ) -> Result<Option<ApprovalRecord>, StoreError> {
                    let newest = self.newest();
                    let known = |it: &Newest| it.approval_by_request(session, run, request_id);
                    if let Some(found) = newest.and_then(known) {
                        return Ok(Some(found));
                    }
                    let request_id = request_id.to_owned();
                    $read!(self, conn => approvals::by_request(conn, session, run, &request_id))
                }

                async fn approvals(
                    &self,
                    filter: ApprovalFilter,
                    page: PageRequest,
                ) -> Result<Page<ApprovalRecord>, StoreError> {
                    let known = |it: &Newest| it.pending(&filter, page);
                    if let Some(found) = self.newest().and_then(known) {
                        return Ok(found);
                    }
                    $read!(self, conn => approvals::list(conn, &filter, page))
                }

                async fn refused(
                    &self,
                    chats: &[(SessionId, u32)],
                ) -> Result<HashMap<SessionId, plexus_wire::Refused>, StoreError> {
                    let chats = chats.to_vec();
                    $read!(self, conn => approvals::refused(conn, &chats))
                }

                async fn due(&self, now: UnixMillis) -> Result<Due, StoreError> {
                    $read!(self, conn => approvals::due(conn, now))
                }

                async fn rule(&self, id: RuleId) -> Result<StoredRule, StoreError> {
                    $read!(self, conn => rules::get(conn, id))
                }

                async fn rules(&self, page: PageRequest) -> Result<Page<StoredRule>, StoreError> {
                    $read!(self, conn => rules::list(conn, page))
                }

                async fn token(&self, hash: TokenHash) -> Result<Option<Token>, StoreError> {
                    $read!(self, conn => tokens::get(conn, hash))
                }

                async fn device(&self, id: DeviceId) -> Result<Device, StoreError> {
                    $read!(self, conn => devices::get(conn, id))
                }

                async fn devices(&self) -> Result<Vec<Device>, StoreError> {
                    $read!(self, conn => devices::list(conn))
                }

                async fn spend(&self, session: SessionId) -> Result<SpendTotals, StoreError> {
                    $read!(self, conn => budget::totals(conn, session))
                }

                async fn subtree_spend(
                    &self,
                    sessions: &[SessionId],
                ) -> Result<HashMap<SessionId, SubtreeSpend>, StoreError> {
                    let sessions = sessions.to_vec();
                    $read!(self, conn => budget::subtrees(conn, &sessions))
                }

                async fn audit(
                    &self,
                    session: Option<SessionId>,
                    page: PageRequest,
                ) -> Result<Page<NumberedLine>, StoreError> {
                    $read!(self, conn => audit::list(conn, session, page))
                }

                async fn outbox_due(
                    &self,
                    target: &str,
                    now: UnixMillis,
                    limit: usize,
                ) -> Result<OutboxDue, StoreError> {
                    let target = target.to_owned();
                    $read!(self, conn => audit::due(conn, &target, now, limit))
                }

                async fn outbox_waiting(&self) -> Result<Vec<Waiting>, StoreError> {
                    $read!(self, conn => audit::waiting(conn))
                }

                async fn tree(&self, id: TreeId) -> Result<Tree, StoreError> {
                    $read!(self, conn => arbor::tree(conn, id))
                }

                async fn trees(&self, page: PageRequest) -> Result<Page<Tree>, StoreError> {
                    $read!(self, conn => arbor::trees(conn, page))
                }

                async fn node(&self, id: NodeId) -> Result<Node, StoreError> {
                    $read!(self, conn => arbor::node(conn, id))
                }

                async fn children(&self, id: NodeId) -> Result<Vec<Node>, StoreError> {
                    $read!(self, conn => arbor::children(conn, id))
                }

                async fn path(&self, id: NodeId, limit: usize) -> Result<Vec<Node>, StoreError> {
                    $read!(self, conn => arbor::path(conn, id, limit))
                }

                async fn path_between(
                    &self,
                    from: NodeId,
                    to: NodeId,
                ) -> Result<Vec<Node>, StoreError> {
                    $read!(self, conn => arbor::path_between(conn, from, to))
                }

                async fn leaves(
                    &self,
                    tree: TreeId,
                    page: PageRequest,
                ) -> Result<Page<Node>, StoreError> {
                    $read!(self, conn => arbor::leaves(conn, tree, page))
                }

                async fn tree_outline(
                    &self,
                    tree: TreeId,
                    limit: usize,
                ) -> Result<Vec<OutlineEntry>, StoreError> {
                    $read!(self, conn => arbor::outline(conn, tree, limit))
                }

                async fn counts(&self) -> Result<Counts, StoreError> {
                    let queue_entries = self.waiting() as u64;
                    let counts: Result<Counts, StoreError> =
                        $read!(self, conn => upkeep::counts(conn));
                    Ok(Counts { queue_entries, ..counts? })
                }

                async fn integrity(&self) -> Result<Vec<String>, StoreError> {
                    Engine::integrity(self).await
                }

                async fn backup_to(&self, path: &Path) -> Result<(), StoreError> {
                    Engine::backup_to(self, path).await
                }

                async fn search(
                    &self,
                    filter: SearchFilter,
                    page: PageRequest,
                ) -> Result<SearchPage, StoreError> {
                    $read!(self, conn => search::search(conn, &filter, page))
                }

                async fn index_step(&self) -> Result<Indexed, StoreError> {
                    Engine::index_step(self).await
                }

                async fn prune(
                    &self,
                    before: UnixMillis,
                    prompts: Prompts,
                ) -> Result<Pruned, StoreError> {
                    let mut all = Pruned::default();
                    loop {
                        // In steps, each in a transaction of its own: others get their turn.
                        let step = self.prune_step(before, prompts).await?;
                        all.approvals += step.approvals;
                        all.chats += step.chats;
                        all.events += step.events;
                        all.prompts += step.prompts;
                        all.audit += step.audit;
                        if step == Pruned::default() {
                            return Ok(all);
                        }
                    }
                }

                async fn close(&self) -> Result<(), StoreError> {
                    Engine::close(self).await
                }
            }
        };
    };
}
pub(crate) use store;

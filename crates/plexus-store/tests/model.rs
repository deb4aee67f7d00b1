//! Random programs against a simple model: append, branch, fork, read, move cursors, close, crash
//! and reopen.
//!
//! The model holds only what a reader expects: lists of events, and the parent of every node.

#![expect(clippy::expect_used, reason = "the helpers of a test may stop loudly too")]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use plexus_core::{EventId, NodeId, SessionId, TreeId};
use plexus_store::{
    AppendEvents, AppendNode, Change, CreateSession, Cursor, Durability, EndChat, Ending, Fork,
    JsonText, MemoryStore, NewEvent, NodeData, PageRequest, Priority, ReadLimit, SetCursor,
    SqliteOptions, SqliteStore, StartChat, Store,
};
use proptest::prelude::*;
use serde_json::json;

/// One step of a program. Numbers select among existing things, modulo their count.
#[derive(Clone, Debug)]
enum Step {
    Create,
    Fork { session: usize, at: usize },
    Start { session: usize },
    Append { session: usize, count: usize },
    End { session: usize },
    Node { parent: usize },
    Read { session: usize, limit: usize },
    Refused { session: usize },
    Reopen,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..1000_usize;
    prop_oneof![
        1 => Just(Step::Create),
        2 => (any.clone(), any.clone()).prop_map(|(session, at)| Step::Fork { session, at }),
        4 => any.clone().prop_map(|session| Step::Start { session }),
        8 => (any.clone(), 1..6_usize).prop_map(|(session, count)| Step::Append { session, count }),
        3 => any.clone().prop_map(|session| Step::End { session }),
        4 => any.clone().prop_map(|parent| Step::Node { parent }),
        6 => (any.clone(), 1..8_usize).prop_map(|(session, limit)| Step::Read { session, limit }),
        1 => any.prop_map(|session| Step::Refused { session }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
    ]
}

#[derive(Default)]
struct ModelSession {
    id: Option<SessionId>,
    tree: Option<TreeId>,
    head: Option<NodeId>,
    chats: Vec<Vec<EventId>>,
    open: bool,
    /// The events that the session's consumer has read so far.
    read: Vec<(u32, u32, EventId)>,
}

#[derive(Default)]
struct Model {
    sessions: Vec<ModelSession>,
    parents: HashMap<NodeId, Option<NodeId>>,
    /// In creation order, so that a number selects one.
    nodes: Vec<(TreeId, NodeId)>,
    feed: BTreeMap<SessionId, Vec<EventId>>,
}

impl Model {
    fn add_node(&mut self, tree: TreeId, id: NodeId, parent: Option<NodeId>) {
        self.parents.insert(id, parent);
        self.nodes.push((tree, id));
    }

    fn path(&self, id: NodeId) -> Vec<NodeId> {
        let mut path = vec![id];
        while let Some(Some(parent)) = self.parents.get(path.last().expect("never empty")) {
            path.push(*parent);
        }
        path.reverse();
        path
    }

    fn add_event(&mut self, session: usize, event: EventId, parent: NodeId) -> NodeId {
        let node = NodeId::from_uuid(*event.as_uuid());
        let it = &mut self.sessions[session];
        it.chats.last_mut().expect("a chat").push(event);
        let (tree, id) = (it.tree.expect("a tree"), it.id.expect("an id"));
        self.feed.entry(id).or_default().push(event);
        self.add_node(tree, node, Some(parent));
        node
    }
}

/// An engine under test. The one in memory cannot be reopened.
trait Bench {
    fn store(&self) -> Arc<dyn Store>;
    async fn reopen(&mut self, crash: bool) -> anyhow::Result<()>;
}

struct InMemory(Arc<MemoryStore>);

impl Bench for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }
    async fn reopen(&mut self, _crash: bool) -> anyhow::Result<()> {
        Ok(())
    }
}

struct OnDisk {
    dir: tempfile::TempDir,
    store: Arc<SqliteStore>,
}

fn open(dir: &Path) -> anyhow::Result<Arc<SqliteStore>> {
    // Surviving the death of a process needs none of the flushes that power loss would.
    Ok(Arc::new(SqliteStore::open(&SqliteOptions {
        sync: Durability::Normal,
        ..SqliteOptions::new(dir)
    })?))
}

impl Bench for OnDisk {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }
    async fn reopen(&mut self, crash: bool) -> anyhow::Result<()> {
        let next = tempfile::tempdir()?;
        if crash {
            // The files as a killed server leaves them: the database and its log, without any
            // cleanup.
            for name in ["plexus.db", "plexus.db-wal"] {
                std::fs::copy(self.dir.path().join(name), next.path().join(name))?;
            }
        }
        self.store.close().await?;
        if crash {
            self.dir = next;
        }
        self.store = open(self.dir.path())?;
        Ok(())
    }
}

fn content(n: usize) -> NewEvent {
    NewEvent::now("content", JsonText::from(json!({ "type": "content", "n": n })))
}

async fn play(bench: &mut impl Bench, program: &[Step]) -> anyhow::Result<()> {
    let mut model = Model::default();
    create(&bench.store(), &mut model, None).await?;
    for step in program {
        let store = bench.store();
        let sessions = model.sessions.len();
        match step {
            Step::Create => create(&store, &mut model, None).await?,
            Step::Fork { session, at } => {
                let source = session % sessions;
                let tree = model.sessions[source].tree.expect("a tree");
                let of_tree: Vec<_> =
                    model.nodes.iter().filter(|(of, _)| *of == tree).map(|(_, id)| *id).collect();
                let at = of_tree[at % of_tree.len()];
                create(&store, &mut model, Some((source, at))).await?;
            }
            Step::Start { session } => start(&store, &mut model, session % sessions).await?,
            Step::Append { session, count } => {
                append(&store, &mut model, session % sessions, *count, false).await?
            }
            Step::End { session } => {
                append(&store, &mut model, session % sessions, 1, true).await?
            }
            Step::Node { parent } => {
                let (tree, parent) = model.nodes[parent % model.nodes.len()];
                let (id, data) = (NodeId::generate(), NodeData::Text { content: "note".into() });
                let node =
                    AppendNode { id, tree, parent, data, metadata: JsonText::empty_object() };
                store.commit(vec![Change::AppendNode(node)], Priority::Normal).await?;
                model.add_node(tree, id, Some(parent));
            }
            Step::Read { session, limit } => {
                read(&store, &mut model, session % sessions, *limit).await?
            }
            Step::Refused { session } => {
                // The second change fails, so the first must leave no trace, whatever it was.
                let id = model.sessions[session % sessions].id.expect("an id");
                let list = vec![
                    Change::StartChat(StartChat::new(id, "lost")),
                    Change::AppendEvents(AppendEvents {
                        session: id,
                        chat: 4_000,
                        events: vec![content(0)],
                    }),
                ];
                anyhow::ensure!(store.commit(list, Priority::Urgent).await.is_err());
            }
            Step::Reopen => bench.reopen(false).await?,
            Step::Crash => bench.reopen(true).await?,
        }
    }
    compare(&bench.store(), &mut model).await
}

async fn create(
    store: &Arc<dyn Store>,
    model: &mut Model,
    fork: Option<(usize, NodeId)>,
) -> anyhow::Result<()> {
    let fork_of = fork
        .map(|(source, at)| Fork { of: model.sessions[source].id.expect("an id"), at: Some(at) });
    let new = CreateSession {
        fork: fork_of,
        ..CreateSession::new(format!("s{}", model.sessions.len()), None)
    };
    let id = new.id;
    store.commit(vec![Change::CreateSession(new)], Priority::Normal).await?;
    let it = store.session(id).await?;
    match fork {
        Some((_, at)) => anyhow::ensure!(it.head == at, "a fork stands where it was made"),
        None => model.add_node(it.tree, it.head, None),
    }
    model.sessions.push(ModelSession {
        id: Some(id),
        tree: Some(it.tree),
        head: Some(it.head),
        ..ModelSession::default()
    });
    Ok(())
}

async fn start(store: &Arc<dyn Store>, model: &mut Model, n: usize) -> anyhow::Result<()> {
    let it = &model.sessions[n];
    let (id, tree, head) =
        (it.id.expect("an id"), it.tree.expect("a tree"), it.head.expect("a head"));
    let result =
        store.commit(vec![Change::StartChat(StartChat::new(id, "go"))], Priority::Normal).await;
    if it.open {
        anyhow::ensure!(result.is_err(), "two chats at once");
        return Ok(());
    }
    let started = result?.chat().expect("a chat");
    anyhow::ensure!(started.chat as usize == it.chats.len());
    let chat = store.chat(id, None).await?;
    model.sessions[n].open = true;
    model.sessions[n].chats.push(Vec::new());
    model.add_node(tree, chat.user_node, Some(head));
    model.add_node(tree, chat.root_node, Some(chat.user_node));
    model.add_event(n, started.start_event, chat.root_node);
    Ok(())
}

async fn append(
    store: &Arc<dyn Store>,
    model: &mut Model,
    n: usize,
    count: usize,
    end: bool,
) -> anyhow::Result<()> {
    let it = &model.sessions[n];
    let (session, open) = (it.id.expect("an id"), it.open);
    let chat = u32::try_from(it.chats.len().saturating_sub(1))?;
    let events: Vec<_> = (0..count).map(content).collect();
    let ids: Vec<_> = events.iter().map(|event| event.id).collect();
    let change = if end {
        Change::EndChat(EndChat {
            session,
            chat,
            ending: Ending::Complete,
            usage: None,
            event: events[0].clone(),
        })
    } else {
        Change::AppendEvents(AppendEvents { session, chat, events })
    };
    let result = store.commit(vec![change], Priority::Normal).await;
    if !open {
        anyhow::ensure!(result.is_err(), "an ended chat took events");
        return Ok(());
    }
    result?;
    let last = *it.chats.last().and_then(|chat| chat.last()).expect("a start");
    let mut parent = NodeId::from_uuid(*last.as_uuid());
    for id in ids {
        parent = model.add_event(n, id, parent);
    }
    if end {
        model.sessions[n].open = false;
        model.sessions[n].head = Some(parent);
    }
    Ok(())
}

/// Reads a page as the session's consumer and acknowledges it.
async fn read(
    store: &Arc<dyn Store>,
    model: &mut Model,
    n: usize,
    limit: usize,
) -> anyhow::Result<()> {
    let it = &mut model.sessions[n];
    let session = it.id.expect("an id");
    let cursor = store
        .consumer(session, "reader")
        .await?
        .map_or(Cursor::start(session), |consumer| consumer.cursor);
    let page = store.read_from(cursor, ReadLimit::events(limit)).await?;
    it.read.extend(page.events.iter().map(|event| (event.chat, event.seq, event.id)));
    let set = SetCursor { consumer: "reader".into(), cursor: page.next };
    store.commit(vec![Change::SetCursor(set)], Priority::Normal).await?;
    Ok(())
}

async fn compare(store: &Arc<dyn Store>, model: &mut Model) -> anyhow::Result<()> {
    for n in 0..model.sessions.len() {
        let everything: Vec<_> = (0_u32..)
            .zip(&model.sessions[n].chats)
            .flat_map(|(chat, events)| (0_u32..).zip(events).map(move |(seq, id)| (chat, seq, *id)))
            .collect();
        // Whatever it has read so far, the rest is exactly the missing events.
        while model.sessions[n].read.len() < everything.len() {
            let before = model.sessions[n].read.len();
            read(store, model, n, 3).await?;
            anyhow::ensure!(model.sessions[n].read.len() > before, "the reader is stuck");
        }
        anyhow::ensure!(model.sessions[n].read == everything, "a cursor skipped or repeated");
        let it = &model.sessions[n];
        anyhow::ensure!(
            Some(store.session(it.id.expect("an id")).await?.head) == it.head,
            "the head is elsewhere"
        );
    }
    let mut children: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    for (_, id) in &model.nodes {
        let expected = model.path(*id);
        let path: Vec<_> = store.path(*id, 10_000).await?.into_iter().map(|node| node.id).collect();
        anyhow::ensure!(path == expected, "the path to {id}: {path:?}, expected {expected:?}");
        let half = expected[expected.len() / 2];
        let part: Vec<_> =
            store.path_between(half, *id).await?.into_iter().map(|node| node.id).collect();
        anyhow::ensure!(part == expected[expected.len() / 2..], "the path from {half} to {id}");
        if let Some(Some(parent)) = model.parents.get(id) {
            children.entry(*parent).or_default().push(*id);
        }
    }
    let mut leaves: HashMap<TreeId, Vec<NodeId>> = HashMap::new();
    for (tree, id) in &model.nodes {
        let mut found: Vec<_> =
            store.children(*id).await?.into_iter().map(|node| node.id).collect();
        let mut expected = children.remove(id).unwrap_or_default();
        if expected.is_empty() {
            leaves.entry(*tree).or_default().push(*id);
        }
        found.sort();
        expected.sort();
        anyhow::ensure!(found == expected, "the children of {id}");
    }
    for (tree, mut expected) in leaves {
        let mut found: Vec<_> = store
            .leaves(tree, PageRequest::first(1000))
            .await?
            .items
            .into_iter()
            .map(|node| node.id)
            .collect();
        found.sort();
        expected.sort();
        anyhow::ensure!(found == expected, "the leaves of {tree}");
    }
    let feed = store.read_commits(0, ReadLimit::events(1000)).await?;
    anyhow::ensure!(!feed.has_more, "programs are short enough for one page");
    let mut by_session: BTreeMap<SessionId, Vec<EventId>> = BTreeMap::new();
    for it in feed.events {
        by_session.entry(it.event.session).or_default().push(it.event.id);
    }
    anyhow::ensure!(by_session == model.feed, "the feed has other events");
    let faults = store.integrity().await?;
    anyhow::ensure!(faults.is_empty(), "{faults:?}");
    Ok(())
}

fn check(mut bench: impl Bench, program: &[Step]) -> Result<(), TestCaseError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime
        .block_on(play(&mut bench, program))
        .map_err(|error| TestCaseError::fail(format!("{error:?}")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_does_what_the_model_does(program in proptest::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path()).expect("a new store");
        check(OnDisk { dir, store }, &program)?;
    }

    #[test]
    fn memory_does_what_the_model_does(program in proptest::collection::vec(step(), 1..60)) {
        check(InMemory(Arc::new(MemoryStore::new())), &program)?;
    }
}

//! Stores that are filled directly: a million events through children would take longer than all
//! measures together.
//!
//! The server must be stopped meanwhile; it then opens the prepared store as its own.

use std::path::Path;

use anyhow::{Context as _, Result};
use plexus_core::{NodeId, SessionId};
use plexus_store::{
    AppendEvents, AppendNode, Change, CreateSession, Durability, JsonText, NewEvent, NodeData,
    Priority, SessionRecord, SqliteOptions, SqliteStore, StartChat, Store as _, limits,
};
use serde_json::json;

/// Sessions created in one commit.
const SESSIONS_AT_ONCE: usize = 500;

/// Opens the store of a stopped server. It does not flush at every commit: nobody relies on these
/// events.
pub fn open(data_dir: &Path) -> Result<SqliteStore> {
    let options = SqliteOptions { sync: Durability::Normal, ..SqliteOptions::new(data_dir) };
    SqliteStore::open(&options).context("could not open the store")
}

/// Creates `count` sessions with the configuration of `like`.
pub async fn add_sessions(
    store: &SqliteStore,
    like: &SessionRecord,
    prefix: &str,
    count: usize,
) -> Result<Vec<SessionId>> {
    let new = |index: usize| {
        let session = CreateSession::new(format!("{prefix}-{index}"), None);
        CreateSession { config: like.config.clone(), ..session }
    };
    let sessions: Vec<CreateSession> = (0..count).map(new).collect();
    for some in sessions.chunks(SESSIONS_AT_ONCE) {
        store
            .commit(some.iter().cloned().map(Change::CreateSession).collect(), Priority::Normal)
            .await?;
    }
    Ok(sessions.iter().map(|session| session.id).collect())
}

/// Gives a session a running chat of `count` events, and returns the node of the last.
pub async fn add_events(store: &SqliteStore, session: SessionId, count: u32) -> Result<NodeId> {
    let started = store
        .commit(vec![Change::StartChat(StartChat::new(session, "go"))], Priority::Normal)
        .await?;
    let chat = started.chat().context("no chat was started")?.chat;
    let numbers: Vec<u32> = (0..count).collect();
    let mut last = None;
    for some in numbers.chunks(limits::MAX_BATCH_EVENTS) {
        let events: Vec<NewEvent> = some.iter().map(|number| event(*number)).collect();
        last = events.last().map(NewEvent::node_id);
        let append = AppendEvents { session, chat, events };
        store.commit(vec![Change::AppendEvents(append)], Priority::Normal).await?;
    }
    last.context("a chat without events has no last node")
}

/// Returns an event of the usual size: a sentence or two of a model.
fn event(number: u32) -> NewEvent {
    let text = format!("{number}: {}", "what a model says in a sentence or two. ".repeat(5));
    NewEvent::now("content", JsonText::from(json!({"type": "content", "text": text})))
}

/// Adds branches to a node, each starting at the middle of the one before, and returns the end of
/// the last. A path to it passes through `branches` chains before it reaches `node`.
pub async fn add_branches(
    store: &SqliteStore,
    session: &SessionRecord,
    node: NodeId,
    branches: usize,
    length: usize,
) -> Result<NodeId> {
    let mut parent = node;
    for branch in 0..branches {
        let mut middle = parent;
        for position in 0..length {
            let id = NodeId::generate();
            let data = NodeData::Text { content: format!("branch {branch}, node {position}") };
            let append = AppendNode {
                id,
                tree: session.tree,
                parent,
                data,
                metadata: JsonText::empty_object(),
            };
            store.commit(vec![Change::AppendNode(append)], Priority::Normal).await?;
            parent = id;
            if position == length / 2 {
                middle = id;
            }
        }
        // The next branch starts at the middle of this one. The end of the last branch is returned,
        // as the node whose path is measured.
        if branch + 1 < branches {
            parent = middle;
        }
    }
    Ok(parent)
}

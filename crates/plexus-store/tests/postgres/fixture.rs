//! What the cases have in common: databases, handles, and short ways to say what they do all the time.

use std::sync::Arc;

use plexus_core::SessionId;
use plexus_store::{
    AppendEvents, Change, Committed, CreateSession, JsonText, NewEvent, PostgresOptions, PostgresStore, Priority,
    StartChat, Store, StoreError,
};
use serde_json::json;

/// Reads that run at once: few, so that a test of several handles leaves room for others.
const READERS: usize = 4;

/// An empty database; nothing where PostgreSQL is not installed.
pub(crate) async fn database() -> anyhow::Result<Option<String>> {
    let found = tokio::task::spawn_blocking(|| testkit::postgres::shared().map(|shared| shared.fresh_database()));
    found.await?.transpose()
}

/// A handle, as a server of its own has it.
pub(crate) async fn open(url: &str) -> Result<Arc<PostgresStore>, StoreError> {
    let options = PostgresOptions { readers: READERS, ..PostgresOptions::new(url) };
    PostgresStore::open(&options).await.map(Arc::new)
}

pub(crate) async fn one(store: &dyn Store, change: Change) -> Result<Committed, StoreError> {
    store.commit(vec![change], Priority::Normal).await
}

/// A session with an open chat.
pub(crate) async fn session(store: &dyn Store, name: &str) -> anyhow::Result<SessionId> {
    let new = CreateSession::new(name, None);
    let id = new.id;
    let start = Change::StartChat(StartChat::new(id, "go"));
    store.commit(vec![Change::CreateSession(new), start], Priority::Normal).await?;
    Ok(id)
}

pub(crate) fn event(n: u64) -> NewEvent {
    NewEvent::now("content", JsonText::from(json!({ "type": "content", "n": n })))
}

pub(crate) fn append(session: SessionId, numbers: impl IntoIterator<Item = u64>) -> Change {
    Change::AppendEvents(AppendEvents { session, chat: 0, events: numbers.into_iter().map(event).collect() })
}

//! Helpers that the cases share: databases, handles, and short forms of common changes.

use std::sync::Arc;

use plexus_core::SessionId;
use plexus_store::{
    AppendEvents, Change, JsonText, NewEvent, PostgresOptions, PostgresStore, StoreError,
};
use serde_json::json;

pub(crate) use crate::common::{
    allow, decision, new_run, one, open_postgres, question, session_with_chat,
};

/// How many reads run at once: few, so that a test with several handles leaves connections for
/// others.
const READERS: usize = 4;

/// Creates an empty database.
pub(crate) async fn database() -> anyhow::Result<String> {
    tokio::task::spawn_blocking(|| testkit::postgres::shared().fresh_database()).await?
}

/// Opens a handle, as a separate server would.
pub(crate) async fn open(url: &str) -> Result<Arc<PostgresStore>, StoreError> {
    let options = PostgresOptions { readers: READERS, ..PostgresOptions::new(url) };
    open_postgres(&options).await.map(Arc::new)
}

pub(crate) fn event(n: u64) -> NewEvent {
    NewEvent::now("content", JsonText::from(json!({ "type": "content", "n": n })))
}

pub(crate) fn append(session: SessionId, numbers: impl IntoIterator<Item = u64>) -> Change {
    Change::AppendEvents(AppendEvents {
        session,
        chat: 0,
        events: numbers.into_iter().map(event).collect(),
    })
}

//! Helpers that the cases share: engines, and short forms of common changes.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use plexus_core::{ApprovalId, SessionId};
use plexus_store::{
    AppendEvents, ApprovalRecord, Change, Committed, CreateSession, EndChat, Ending, JsonText,
    MemoryStore, NewEvent, Outcome, PostgresOptions, RunKey, SqliteOptions, SqliteStore, StartChat,
    Store,
};
use serde_json::json;
use testkit::postgres::{self, Postgres};

pub(crate) use crate::common::{allow, decision, new_run, one, open_postgres, question};

pub(crate) fn sqlite(dir: &Path) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(SqliteStore::open(&SqliteOptions::new(dir))?))
}

/// Opens a store in its own database.
pub(crate) async fn postgres() -> anyhow::Result<Arc<dyn Store>> {
    static CLUSTER: OnceLock<Postgres> = OnceLock::new();
    let url = tokio::task::spawn_blocking(|| {
        // No case here tests power loss, and flushing a database for each case takes long.
        let settings = ["fsync=off", "full_page_writes=off"].map(str::to_owned).to_vec();
        let options =
            postgres::PostgresOptions { settings, ..postgres::PostgresOptions::default() };
        CLUSTER.get_or_init(|| postgres::own_with(options)).fresh_database()
    });
    Ok(Arc::new(open_postgres(&PostgresOptions::new(url.await??)).await?))
}

pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

pub(crate) async fn session(
    store: &dyn Store,
    name: &str,
    parent: Option<SessionId>,
) -> anyhow::Result<SessionId> {
    let new = CreateSession::new(name, parent);
    let id = new.id;
    one(store, Change::CreateSession(new)).await?;
    Ok(id)
}

pub(crate) async fn chat(
    store: &dyn Store,
    session: SessionId,
    prompt: &str,
) -> anyhow::Result<u32> {
    let committed = one(store, Change::StartChat(StartChat::new(session, prompt))).await?;
    Ok(committed.chat().expect("a started chat").chat)
}

pub(crate) fn text(text: &str) -> NewEvent {
    NewEvent::now("content", JsonText::from(json!({ "type": "content", "text": text })))
}

pub(crate) fn events(session: SessionId, chat: u32, texts: &[&str]) -> Change {
    Change::AppendEvents(AppendEvents {
        session,
        chat,
        events: texts.iter().map(|it| text(it)).collect(),
    })
}

pub(crate) fn end(session: SessionId, chat: u32) -> Change {
    let event = NewEvent::now("complete", JsonText::from(json!({ "type": "complete" })));
    Change::EndChat(EndChat { session, chat, ending: Ending::Complete, usage: None, event })
}

/// Writes a chat with its start, `texts` and its end.
pub(crate) async fn whole_chat(
    store: &dyn Store,
    session: SessionId,
    texts: &[&str],
) -> anyhow::Result<u32> {
    let number = chat(store, session, "go").await?;
    if !texts.is_empty() {
        one(store, events(session, number, texts)).await?;
    }
    one(store, end(session, number)).await?;
    Ok(number)
}

pub(crate) async fn run(store: &dyn Store, session: SessionId) -> anyhow::Result<RunKey> {
    Ok(one(store, Change::CreateRun(new_run(session))).await?.run().expect("a run"))
}

pub(crate) async fn ask(
    store: &dyn Store,
    session: SessionId,
    request: &str,
) -> anyhow::Result<ApprovalId> {
    let open = question(session, request, "ls");
    let id = open.id;
    one(store, Change::OpenApproval(open)).await?;
    Ok(id)
}

pub(crate) fn approval_of(committed: &Committed) -> ApprovalRecord {
    match &committed.outcomes[..] {
        [Outcome::Approval { record, .. }] => record.clone(),
        other => panic!("no approval in {other:?}"),
    }
}

/// Asserts the variant of an error, and shows the actual result otherwise.
#[macro_export]
macro_rules! assert_err {
    ($result:expr, $pattern:pat) => {
        match $result {
            Err($pattern) => {}
            other => panic!("expected {}, got {other:?}", stringify!($pattern)),
        }
    };
}

//! Helpers that all test programs share.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use plexus_core::digest::input_digest;
use plexus_core::{ApprovalId, SessionId};
use plexus_store::{
    Again, Change, Committed, CreateRun, CreateSession, DecideApproval, DecidedBy, JsonText,
    OpenApproval, Owner, PostgresOptions, PostgresStore, Priority, StartChat, Store, StoreError,
    UnixMillis, Verdict,
};
use serde_json::json;
use testkit::wait::PATIENCE;

/// Opens a store in PostgreSQL. A database on a busy machine may take longer to answer than the
/// store waits, so this tries again.
pub(crate) async fn open_postgres(options: &PostgresOptions) -> Result<PostgresStore, StoreError> {
    let began = std::time::Instant::now();
    loop {
        match PostgresStore::open(options).await {
            Err(StoreError::Unavailable { message, .. })
                if message.contains("did not answer within") && began.elapsed() < PATIENCE => {}
            opened => return opened,
        }
    }
}

pub(crate) async fn one(store: &dyn Store, change: Change) -> Result<Committed, StoreError> {
    store.commit(vec![change], Priority::Normal).await
}

/// Creates a session without a parent, with an open chat.
pub(crate) async fn session_with_chat(
    store: &dyn Store,
    name: &str,
) -> Result<SessionId, StoreError> {
    let new = CreateSession::new(name, None);
    let id = new.id;
    let start = Change::StartChat(StartChat::new(id, "go"));
    store.commit(vec![Change::CreateSession(new), start], Priority::Normal).await?;
    Ok(id)
}

pub(crate) fn new_run(session: SessionId) -> CreateRun {
    CreateRun {
        session,
        expects_n: None,
        channel: "control".into(),
        launch: JsonText::empty_object(),
    }
}

/// Makes a request for a command, which the operator must decide and which never expires.
pub(crate) fn question(session: SessionId, request: &str, command: &str) -> OpenApproval {
    let input = json!({ "command": command });
    OpenApproval {
        id: ApprovalId::generate(),
        session,
        chat: None,
        run: None,
        channel: "control".into(),
        request_id: request.into(),
        tool_name: "Bash".into(),
        tool_use_id: format!("toolu_{request}"),
        input_digest: input_digest(&input),
        input: JsonText::from(input),
        description: None,
        person_only: None,
        suggestions: JsonText::from(json!([])),
        owner: Owner::Operator,
        at: UnixMillis::now(),
        deadline: None,
        escalate_at: None,
        event: None,
        parent_event: None,
        outbox: vec![],
    }
}

/// Makes the operator's decision, whatever the input was.
pub(crate) fn decision(id: ApprovalId, verdict: Verdict) -> DecideApproval {
    DecideApproval {
        id,
        expects_digest: None,
        verdict,
        by: DecidedBy::Operator,
        message: None,
        at: UnixMillis::now(),
        event: None,
        again: Again::Fine,
        outbox: vec![],
    }
}

pub(crate) fn allow() -> Verdict {
    Verdict::Allow { updated_input: None }
}

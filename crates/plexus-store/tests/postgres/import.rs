//! Moving a SQLite store: every row of every table arrives, and each value means the same.
//!
//! Both sides are read without our own code, table by table as the file lists them, so that a table
//! which the import forgets is noticed.

use std::path::Path;
use std::time::Duration;

use plexus_core::{Caller, DeviceId, RuleId, ServerId};
use plexus_store::{
    AddDevice, AddSpend, AuditLine, Change, CreateSession, Cursor, DecideApproval, EndChat, EndRun,
    Ending, JsonText, NewEvent, NewRule, OpenApproval, OutboxEntry, Owner, PostgresOptions,
    PostgresStore, Priority, PromptImage, RegisterServer, RuleDecision, RuleScope, SetCursor,
    Spend, SqliteOptions, SqliteStore, StartChat, Store, Token, TokenHash, UnixMillis,
};
use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::fixture::{allow, append, database, decision, new_run, one, open_postgres, question};

/// Whether the rows of a table belong to the engine and not to its users: the counters, and the
/// index of search, which is filled again.
fn is_own(table: &str) -> bool {
    table == "store_meta" || table.starts_with("search_")
}

pub(crate) async fn every_row_of_every_table_arrives_as_it_was() -> anyhow::Result<()> {
    let url = database().await?;
    let dir = tempfile::tempdir()?;
    fill(dir.path()).await?;
    let (from, to) = (SqliteOptions::new(dir.path()), PostgresOptions::new(&url));
    let moved = PostgresStore::import(&to, &from).await?;

    let file = rusqlite::Connection::open(dir.path().join("plexus.db"))?;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let mut tables = file.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
    )?;
    let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for table in ["tokens", "outbox", "reservations"] {
        assert!(tables.iter().any(|name| name == table), "{tables:?}");
    }
    let mut rows = 0;
    for table in tables.iter().filter(|table| !is_own(table)) {
        let mut there: Vec<Map<String, Value>> = Vec::new();
        for row in
            client.query(&format!("SELECT row_to_json(t)::text FROM plexus.{table} t"), &[]).await?
        {
            there.push(serde_json::from_str(row.get(0))?);
        }
        let mut here = Vec::new();
        let mut read = file.prepare(&format!("SELECT * FROM {table}"))?;
        let names: Vec<String> = read.column_names().map(str::to_owned).collect();
        let mut found = read.query([])?;
        while let Some(row) = found.next()? {
            let value = |(n, name): (usize, &String)| {
                Ok((name.clone(), as_json(name, row.get_ref(n)?, &there)))
            };
            here.push(
                names.iter().enumerate().map(value).collect::<rusqlite::Result<Map<_, _>>>()?,
            );
        }
        rows += here.len();
        let sorted = |rows: &[Map<String, Value>]| {
            let mut rows: Vec<String> =
                rows.iter().map(|row| Value::Object(row.clone()).to_string()).collect();
            rows.sort();
            rows
        };
        assert!(!here.is_empty(), "nothing is shown about {table}: give it a row");
        assert_eq!(sorted(&here), sorted(&there), "{table}");
    }
    assert_eq!(moved, u64::try_from(rows)?);
    Ok(())
}

pub(crate) async fn a_file_with_a_table_that_would_be_left_behind_is_not_moved()
-> anyhow::Result<()> {
    let url = database().await?;
    let dir = tempfile::tempdir()?;
    fill(dir.path()).await?;
    rusqlite::Connection::open(dir.path().join("plexus.db"))?
        .execute_batch("CREATE TABLE forgotten (n INTEGER)")?;
    let refused =
        PostgresStore::import(&PostgresOptions::new(&url), &SqliteOptions::new(dir.path())).await;
    let error = refused.expect_err("a table is unknown").to_string();
    assert!(error.contains("forgotten"), "{error}");
    let empty = open_postgres(&PostgresOptions::new(&url)).await?;
    assert_eq!(empty.counts().await?.sessions, 0, "all of it, or nothing");
    Ok(())
}

/// Creates a store that has at least one row in every table, and nothing running.
async fn fill(dir: &Path) -> anyhow::Result<()> {
    let store = SqliteStore::open(&SqliteOptions::new(dir))?;
    let now = UnixMillis::now();
    let register = RegisterServer {
        id: ServerId::generate(),
        name: "n".into(),
        url: "http://127.0.0.1:1".into(),
        lease: Duration::from_secs(60),
    };
    one(&store, Change::RegisterServer(register)).await?;
    let session = CreateSession::new("it's \\ a name", None);
    let id = session.id;
    let image = PromptImage::new("image/png", "AA==");
    let start = StartChat { images: vec![image], ..StartChat::new(id, "go") };
    let begun = vec![Change::CreateSession(session), Change::StartChat(start)];
    store.commit(begun, Priority::Normal).await?;
    let run = one(&store, Change::CreateRun(new_run(id))).await?.run().expect("a run");
    one(&store, append(id, 0..3)).await?;
    let open = OpenApproval {
        chat: Some(0),
        run: Some(run.n),
        at: now,
        deadline: Some(now),
        ..question(id, "r", "ls '\u{1F980}'")
    };
    let decide = DecideApproval { at: now, ..decision(open.id, allow()) };
    let rule = NewRule {
        id: RuleId::generate(),
        decision: RuleDecision::Deny,
        pattern: "Bash(rm:*)".into(),
        scope: RuleScope::All,
        author: Owner::Operator,
        ends_with: None,
        expires_at: None,
        uses: Some(7),
        reason: None,
        matches: vec!["rm x".into()],
        does_not_match: vec![],
    };
    let token = |text: &str, caller, run| Token {
        hash: TokenHash::of(text),
        caller,
        run,
        expires_at: Some(now),
    };
    let device = DeviceId::generate();
    let message = OutboxEntry {
        id: Uuid::now_v7(),
        kind: "approval.requested".into(),
        target: "phone".into(),
        body: JsonText::from(json!({"a": "b\\'c"})),
        created_at: now,
        due_at: now,
        attempts: 0,
        last_error: Some("no 'route'".into()),
    };
    let line = AuditLine {
        at: now,
        kind: "k".into(),
        session: Some(id),
        body: JsonText::from(json!({"n": 1})),
    };
    let spend = Spend { cost_micros: 12, turns: 3, input_tokens: 4, output_tokens: 5, wall_ms: 6 };
    let end = NewEvent::now("complete", JsonText::from(json!({"type": "complete"})));
    let changes = vec![
        Change::OpenApproval(open),
        Change::DecideApproval(decide),
        Change::AddRule(rule),
        Change::AddToken(token("one", Caller::Session(id), None)),
        Change::AddToken(token("two", Caller::Child(id), Some(run))),
        Change::AddDevice(AddDevice { id: device, name: "phone".into(), at: now }),
        Change::AddToken(token("three", Caller::Device(device), None)),
        Change::Enqueue(message),
        Change::AppendAudit(line),
        Change::AddSpend(AddSpend { session: id, amount: spend }),
        Change::SetCursor(SetCursor {
            consumer: "c".into(),
            cursor: Cursor { session: id, chat: 0, next: 2 },
        }),
        Change::EndChat(EndChat {
            session: id,
            chat: 0,
            ending: Ending::Complete,
            usage: None,
            event: end,
        }),
        Change::EndRun(EndRun { run, exit: JsonText::empty_object() }),
    ];
    store.commit(changes, Priority::Normal).await?;
    store.close().await?;
    // A reservation and the transcript of a parked agent end with their chat, and no store is
    // imported while a chat runs. So only a leftover row can fill these tables.
    let file = rusqlite::Connection::open(dir.join("plexus.db"))?;
    file.execute_batch(
        "INSERT INTO reservations SELECT id, 0, 1, 2, 3, 4, 5 FROM sessions;
         INSERT INTO parked_transcripts SELECT id, x'00ff' FROM chat_streams;",
    )?;
    Ok(())
}

/// Converts a value of the file to the form in the database, which has its own types for booleans,
/// ids and bytes.
fn as_json(column: &str, value: ValueRef<'_>, there: &[Map<String, Value>]) -> Value {
    let is_bool = there.iter().any(|row| row.get(column).is_some_and(Value::is_boolean));
    let is_bytes = there
        .iter()
        .any(|row| row.get(column).and_then(Value::as_str).is_some_and(|it| it.starts_with("\\x")));
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) if is_bool => json!(number != 0),
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) if is_bytes => {
            json!(format!(
                "\\x{}",
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            ))
        }
        ValueRef::Blob(bytes) => {
            json!(Uuid::from_slice(bytes).map(|id| id.to_string()).unwrap_or_default())
        }
    }
}

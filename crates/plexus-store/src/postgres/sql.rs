//! Implements the SQL interface of the tables for PostgreSQL, and maps its errors to ours in one
//! place.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use futures::{FutureExt as _, TryStreamExt as _};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error, Row, Statement};
use uuid::Uuid;

use crate::contract::{NewEvent, SearchQuery, StoreError, UnixMillis, refusal};
use crate::tables::keys::EventKey;
use crate::tables::search::{self, index::Entry};
use crate::tables::sql::{self, Bind, Cells, Param, Sql, params};

/// Parameters of a statement that only this engine has; they may be arrays.
pub(super) type Values<'p> = &'p [&'p (dyn ToSql + Sync)];

/// The database's clock, in milliseconds since 1970.
macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::int8"
    };
}
pub(super) use now;

/// A connection with its prepared statements.
pub(super) struct Conn {
    client: Client,
    /// The backend process that serves it, which identifies its notifications.
    pub(super) pid: i32,
    /// The backend process and its start time, which identify it after the connection was lost:
    /// process ids are reused.
    pub(super) process: String,
    /// Prepared statements by their text. The code has a fixed number of them, so the map needs no
    /// bound.
    statements: Mutex<HashMap<String, Statement>>,
}

impl std::fmt::Debug for Conn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conn").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Conn {
    pub(super) fn new(client: Client, pid: i32, process: String) -> Self {
        Self { client, pid, process, statements: Mutex::default() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends statements without parameters and does not wait. The next request follows them, and
    /// fails if they fail.
    pub(super) fn send(&self, sql: &str) {
        // The first poll sends; the connection discards the answer to a dropped request.
        let _answer = self.client.batch_execute(sql).now_or_never();
    }

    /// Runs statements without parameters.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.client.batch_execute(sql).await.map_err(store_error)
    }

    fn known(&self, sql: &str) -> Option<Statement> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned()
    }

    fn remember(&self, sql: &str, statement: Statement) -> Statement {
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.insert(sql.to_owned(), statement.clone());
        statement
    }

    /// Returns a statement that only this engine has, prepared at its first use.
    pub(super) async fn statement(&self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.known(sql) {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await.map_err(store_error)?;
        Ok(self.remember(sql, statement))
    }

    /// Returns a statement of the tables, prepared at its first use: with this engine's
    /// placeholders, and with the type of every parameter, so that it needs no casts.
    async fn table_statement(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Statement, StoreError> {
        if let Some(statement) = self.known(sql) {
            return Ok(statement);
        }
        let types: Vec<Type> = params.iter().map(type_of).collect();
        let text = sql.replace('?', "$");
        let statement = self.client.prepare_typed(&text, &types).await.map_err(store_error)?;
        Ok(self.remember(sql, statement))
    }

    /// Runs a prepared statement and returns how many rows it changed. The first poll sends it.
    pub(super) async fn execute(
        &self,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<u64, StoreError> {
        self.client.execute(statement, values).await.map_err(store_error)
    }

    /// Returns all rows of a prepared statement. The first poll sends it.
    pub(super) async fn query(
        &self,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.client.query(statement, values).await.map_err(store_error)
    }
}

fn type_of(param: &Param<'_>) -> Type {
    match param {
        Param::Int(_) => Type::INT8,
        Param::Bool(_) => Type::BOOL,
        Param::Text(_) => Type::TEXT,
        Param::Id(_) => Type::UUID,
        Param::Bytes(_) => Type::BYTEA,
    }
}

/// The statement that appends events.
pub(super) const INSERT_EVENTS: &str = "INSERT INTO chat_events (id, uuid, created_at, type, body)
    SELECT * FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::text[], $5::text[])";

/// Appends events with [`INSERT_EVENTS`]. The first poll sends them.
pub(super) async fn insert_events<'e>(
    conn: &Conn,
    insert: &Statement,
    events: impl Iterator<Item = (EventKey, &'e NewEvent)> + Clone,
) -> Result<(), StoreError> {
    let keys: Vec<i64> = events.clone().map(|(key, _)| key.0).collect();
    let ids: Vec<Uuid> = events.clone().map(|(_, event)| *event.id.as_uuid()).collect();
    let times: Vec<i64> = events.clone().map(|(_, event)| event.timestamp.0).collect();
    let types: Vec<&str> = events.clone().map(|(_, event)| event.event_type.as_str()).collect();
    let bodies: Vec<&str> = events.map(|(_, event)| event.body.as_str()).collect();
    conn.execute(insert, &[&keys, &ids, &times, &types, &bodies]).await.map(drop)
}

/// The statement that adds entries to the index of search. The lock keeps a chat from being deleted
/// before its entries are there to be deleted with it, and lets every other change through.
const INSERT_ENTRIES: &str = "WITH given AS (
        SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::text[], $5::text[])
            WITH ORDINALITY AS g (event, at, kind, tool, words, n)),
    standing AS (
        SELECT g.*
        FROM given g JOIN chat_streams c ON c.id = g.event >> 32
        JOIN sessions s ON s.id = c.session
        WHERE s.deleted_at IS NULL AND (NOT c.pruned OR g.kind = 0) FOR KEY SHARE OF c),
    added AS (
        INSERT INTO search_entries (event, at, kind, tool)
        SELECT event, at, kind, tool FROM standing ORDER BY n
        ON CONFLICT (event) DO NOTHING RETURNING id, event)
    INSERT INTO search_words (id, words)
    SELECT a.id, CAST(g.words AS tsvector) FROM added a JOIN given g ON g.event = a.event";

/// Returns the number that stands for a variant.
fn number(of: &impl Bind) -> i64 {
    match of.bind() {
        Param::Int(Some(number)) => number,
        _ => 0,
    }
}

/// Writes words as a tsvector with their positions. They hold letters and digits alone, so none can
/// leave its quotes.
fn vector(words: &[String]) -> String {
    let mut vector = String::new();
    for (word, position) in words.iter().zip(1..) {
        // Writing to a string cannot fail.
        let _ = write!(vector, "'{word}':{position} ");
    }
    vector
}

impl Sql for Conn {
    const FALSE: &'static str = "FALSE";
    const JSON_STRING: &'static str = "to_json";
    const IDS: &'static str =
        "SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST(?1 AS JSON))";
    const SIZE: &'static str = "SELECT pg_database_size(current_database())";
    const HAS_WORDS: &'static str = "SELECT id FROM search_words
        WHERE words @@ CAST(?1 AS tsquery) AND id < ?2 ORDER BY id DESC";

    fn words_query(query: &SearchQuery) -> Option<String> {
        search::for_postgres(query)
    }

    async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        let statement = self.table_statement(sql, params).await?;
        self.client.execute_raw(&statement, params).await.map_err(store_error)
    }

    async fn each(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&sql::Row<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let statement = self.table_statement(sql, params).await?;
        let rows = self.client.query_raw(&statement, params).await.map_err(store_error)?;
        let rows: Vec<Row> = rows.try_collect().await.map_err(store_error)?;
        for row in &rows {
            if read(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    async fn lock(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.run(sql, params).await.map(drop)
    }

    /// Reads the database's clock: the servers' own clocks may differ, and none of them decides
    /// about a lease.
    async fn clock(&self) -> Result<UnixMillis, StoreError> {
        let now = self.one(concat!("SELECT ", now!()), params![], |row| row.get(0)).await?;
        now.ok_or_else(|| StoreError::Corrupt { message: "the database has no clock".to_owned() })
    }

    async fn insert_events(
        &self,
        chat: i64,
        first: u32,
        events: &[NewEvent],
    ) -> Result<(), StoreError> {
        let insert = self.statement(INSERT_EVENTS).await?;
        let keys = (first..).map(|seq| EventKey::new(chat, seq));
        insert_events(self, &insert, keys.zip(events)).await
    }

    async fn insert_entries(&self, entries: &[Entry]) -> Result<u64, StoreError> {
        let insert = self.statement(INSERT_ENTRIES).await?;
        let events: Vec<i64> = entries.iter().map(|entry| entry.event.0).collect();
        let times: Vec<i64> = entries.iter().map(|entry| entry.at.0).collect();
        let kinds: Vec<i64> = entries.iter().map(|entry| number(&entry.kind)).collect();
        let tools: Vec<&str> = entries.iter().map(|entry| entry.tool.as_str()).collect();
        let words: Vec<String> = entries.iter().map(|entry| vector(&entry.words)).collect();
        self.execute(&insert, &[&events, &times, &kinds, &tools, &words]).await
    }
}

// Errors.

/// How long a caller waits that repeatedly lost to others.
pub(super) const RETRY_BUSY: Duration = Duration::from_millis(50);

/// Converts a failure of PostgreSQL into the error for the caller.
pub(super) fn store_error(error: Error) -> StoreError {
    let Some(state) = error.code().cloned() else {
        return StoreError::Unavailable { message: text_of(&error), source: Some(Arc::new(error)) };
    };
    match state.code() {
        "23505" | "23503" => refusal::id_taken(),
        "22021" => StoreError::invalid("store a text that PostgreSQL cannot hold"),
        // Our own tables are not as we created them.
        "42P01" | "42703" | "42804" | "42883" => StoreError::Corrupt { message: text_of(&error) },
        _ => StoreError::Unavailable { message: text_of(&error), source: Some(Arc::new(error)) },
    }
}

/// Returns the text of an error, which contains neither the URL nor the password.
pub(super) fn text_of(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => format!("the database says: {} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// How to react to an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// The list is refused; the others continue.
    Refusal,
    /// Other transactions interfered: retry the whole transaction.
    Again,
    /// The connection is unusable: retry the whole transaction on another one.
    Lost,
    /// The database cannot write right now.
    Broken,
}

/// Classifies an error by how to react to it.
pub(super) fn classify(error: &StoreError) -> Class {
    let source = match error {
        StoreError::NotFound { .. }
        | StoreError::Conflict { .. }
        | StoreError::Invalid { .. }
        | StoreError::Busy { .. }
        | StoreError::Fenced { .. }
        | StoreError::Newer { .. }
        | StoreError::Foreign { .. }
        | StoreError::Locked { .. } => return Class::Refusal,
        StoreError::Corrupt { .. } | StoreError::Poisoned { .. } | StoreError::Closed => {
            return Class::Broken;
        }
        StoreError::Unavailable { source, .. } => source,
    };
    let Some(error) = source.as_ref().and_then(|source| source.downcast_ref::<Error>()) else {
        return Class::Lost;
    };
    let Some(state) = error.code() else {
        let io =
            std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>());
        // Otherwise it is our own mistake, such as a value of another type than the column: another
        // connection changes nothing.
        return if io || error.is_closed() || error.to_string().starts_with("timeout") {
            Class::Lost
        } else {
            Class::Broken
        };
    };
    match state.code() {
        // Serialization failure, deadlock, a lock that was not free in time, and errors that follow
        // them in the same transaction.
        "40001" | "40P01" | "55P03" | "25P02" => Class::Again,
        // Killed, shut down, starting, or no longer the primary.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25006" => Class::Lost,
        code if code.starts_with("08") => Class::Lost,
        _ if *state == SqlState::TOO_MANY_CONNECTIONS => Class::Lost,
        _ => Class::Broken,
    }
}

// Parameters.

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Param::Int(number) => number.to_sql(kind, out),
            Param::Bool(yes) => yes.to_sql(kind, out),
            Param::Text(text) => text.map(without_nul).to_sql(kind, out),
            Param::Id(id) => id.to_sql(kind, out),
            Param::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    /// The statement was prepared with the types of its parameters.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Returns a text that PostgreSQL accepts: its texts may hold every character but NUL.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

// Rows.

/// Reads a column. Another type than we write means that another program changed the tables.
fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<Option<T>, StoreError> {
    row.try_get(column).map_err(|error| StoreError::Corrupt { message: text_of(&error) })
}

impl Cells for Row {
    fn int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        get(self, column)
    }
    fn bool(&self, column: usize) -> Result<Option<bool>, StoreError> {
        get(self, column)
    }
    fn text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        get(self, column)
    }
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        get(self, column)
    }
    fn id(&self, column: usize) -> Result<Option<Uuid>, StoreError> {
        get(self, column)
    }
}

//! The few ways this engine talks to PostgreSQL, with its errors turned into ours in one place.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use plexus_core::{EventId, NodeId, SessionId};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, Error, Row, Statement};
use uuid::Uuid;

use crate::contract::{JsonText, StoreError, UnixMillis, refusal};

/// What is bound to a statement's parameters.
pub(super) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

/// Makes parameters of our own types: `params![row, id, name]`.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$crate::postgres::sql::Bind::bind(&$value) as &(dyn tokio_postgres::types::ToSql + Sync)),*]
    };
}
pub(super) use params;

/// A connection with its prepared statements.
pub(super) struct Conn {
    client: Client,
    /// The process that serves it, by which its notifications are known,
    pub(super) pid: i32,
    /// and since when it does, by which its remains are known: numbers of processes are used again.
    pub(super) process: String,
    /// By their text. There are as many as this engine has, so it needs no bound.
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

    /// Sends statements without parameters and does not wait: what is sent next comes behind them, and fails when they fail.
    pub(super) fn send(&self, sql: &str) {
        // The first poll sends; the answer to a dropped request is thrown away by the connection.
        let _answer = self.client.batch_execute(sql).now_or_never();
    }

    /// Runs statements without parameters.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.client.batch_execute(sql).await.map_err(store_error)
    }

    /// Returns a statement, prepared at its first use.
    pub(super) async fn statement(&self, sql: &str) -> Result<Statement, StoreError> {
        let known =
            self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await.map_err(store_error)?;
        self.statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs a statement and returns how many rows it changed.
    pub(super) async fn run(&self, sql: &str, params: Params<'_>) -> Result<u64, StoreError> {
        let statement = self.statement(sql).await?;
        self.client.execute(&statement, params).await.map_err(store_error)
    }

    /// The same for a prepared statement: the first poll sends it.
    pub(super) async fn execute(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<u64, StoreError> {
        self.client.execute(statement, params).await.map_err(store_error)
    }

    /// Returns all rows of a prepared statement: the first poll sends it.
    pub(super) async fn query(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.client.query(statement, params).await.map_err(store_error)
    }

    /// Runs an `INSERT … RETURNING id` and returns the new row.
    pub(super) async fn insert(&self, sql: &str, params: Params<'_>) -> Result<i64, StoreError> {
        let row = self.one(sql, params, |row| row.col(0)).await?;
        row.ok_or_else(|| StoreError::Corrupt { message: "a new row has no number".to_owned() })
    }

    /// Returns the first row, if there is one.
    pub(super) async fn one<T>(
        &self,
        sql: &str,
        params: Params<'_>,
        read: impl FnOnce(&Row) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let rows = self.query(&self.statement(sql).await?, params).await?;
        rows.first().map(read).transpose()
    }

    /// Returns all rows.
    pub(super) async fn all<T>(
        &self,
        sql: &str,
        params: Params<'_>,
        read: impl FnMut(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.query(&self.statement(sql).await?, params).await?;
        rows.iter().map(read).collect()
    }
}

// What a failure means.

/// How long a caller waits that lost to others again and again.
pub(super) const RETRY_BUSY: Duration = Duration::from_millis(50);

/// Says what a failure of PostgreSQL means for the caller.
pub(super) fn store_error(error: Error) -> StoreError {
    let Some(state) = error.code().cloned() else {
        return StoreError::Unavailable { message: text_of(&error), source: Some(Arc::new(error)) };
    };
    match state.code() {
        "23505" | "23503" => refusal::id_taken(),
        "22021" => StoreError::invalid("store a text that PostgreSQL cannot hold"),
        // Our own tables are not as we made them.
        "42P01" | "42703" | "42804" | "42883" => StoreError::Corrupt { message: text_of(&error) },
        _ => StoreError::Unavailable { message: text_of(&error), source: Some(Arc::new(error)) },
    }
}

/// The words of an error. Neither the URL nor the password is in them.
pub(super) fn text_of(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => format!("the database says: {} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// What to do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// The list is refused; the others go on.
    Refusal,
    /// Others were in the way: the whole transaction once more.
    Again,
    /// The connection is of no use any more: the whole transaction once more, on another one.
    Lost,
    /// The database cannot write right now.
    Broken,
}

/// Says what to do about an error.
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
        // Otherwise it is our own doing, such as a value of another type than the column: another connection changes nothing.
        return if io || error.is_closed() || error.to_string().starts_with("timeout") {
            Class::Lost
        } else {
            Class::Broken
        };
    };
    match state.code() {
        // Serialization failure, deadlock, a lock that was not free in time, and what follows them in the same transaction.
        "40001" | "40P01" | "55P03" | "25P02" => Class::Again,
        // Killed, shut down, starting, or no longer the one that may write.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25006" => Class::Lost,
        code if code.starts_with("08") => Class::Lost,
        _ if *state == SqlState::TOO_MANY_CONNECTIONS => Class::Lost,
        _ => Class::Broken,
    }
}

// What goes in.

/// A value as it is stored. Numbers are `BIGINT`, ids `UUID`; a text loses the one character that PostgreSQL does not take.
pub(super) trait Bind {
    /// What PostgreSQL gets.
    type Stored<'a>: ToSql + Sync
    where
        Self: 'a;
    /// Makes it.
    fn bind(&self) -> Self::Stored<'_>;
}

macro_rules! bind_copy {
    ($($type:ty => $stored:ty, $how:expr;)*) => { $(
        impl Bind for $type {
            type Stored<'a> = $stored;
            fn bind(&self) -> $stored {
                let how: fn($type) -> $stored = $how;
                how(*self)
            }
        }
    )* };
}

bind_copy! {
    i64 => i64, |it| it;
    u32 => i64, i64::from;
    bool => bool, |it| it;
    Uuid => Uuid, |it| it;
    [u8; 16] => Uuid, Uuid::from_bytes;
    UnixMillis => i64, |it| it.0;
}

impl Bind for [u8; 32] {
    type Stored<'a> = &'a [u8];
    fn bind(&self) -> &[u8] {
        self
    }
}

/// PostgreSQL's text holds every character but NUL.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

impl Bind for str {
    type Stored<'a> = Cow<'a, str>;
    fn bind(&self) -> Cow<'_, str> {
        without_nul(self)
    }
}

impl Bind for String {
    type Stored<'a> = Cow<'a, str>;
    fn bind(&self) -> Cow<'_, str> {
        without_nul(self)
    }
}

impl<T: Bind + ?Sized> Bind for &T {
    type Stored<'a>
        = T::Stored<'a>
    where
        Self: 'a;
    fn bind(&self) -> T::Stored<'_> {
        T::bind(self)
    }
}

impl<T: Bind> Bind for Option<T> {
    type Stored<'a>
        = Option<T::Stored<'a>>
    where
        Self: 'a;
    fn bind(&self) -> Option<T::Stored<'_>> {
        self.as_ref().map(T::bind)
    }
}

impl<T: ToSql + Sync> Bind for Vec<T> {
    type Stored<'a>
        = &'a [T]
    where
        Self: 'a;
    fn bind(&self) -> &[T] {
        self
    }
}

/// Returns an id as it is bound.
pub(super) fn blob(uuid: &Uuid) -> Uuid {
    *uuid
}

/// Stores a number that counts something; beyond what PostgreSQL can hold it stays at the largest.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

// What comes out.

/// A type that a column is read as.
pub(super) trait Column: Sized {
    /// Reads it.
    fn column(row: &Row, column: usize) -> Result<Self, StoreError>;
}

/// A column of another type than we write: somebody else changed the tables.
fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| StoreError::Corrupt { message: text_of(&error) })
}

fn small(number: i64) -> Result<u32, StoreError> {
    u32::try_from(number)
        .map_err(|_| StoreError::Corrupt { message: format!("{number} is no count") })
}

impl Column for i64 {
    fn column(row: &Row, column: usize) -> Result<Self, StoreError> {
        get(row, column)
    }
}
impl Column for u32 {
    fn column(row: &Row, column: usize) -> Result<Self, StoreError> {
        small(get(row, column)?)
    }
}
impl Column for Option<u32> {
    fn column(row: &Row, column: usize) -> Result<Self, StoreError> {
        get::<Option<i64>>(row, column)?.map(small).transpose()
    }
}
impl Column for Option<i64> {
    fn column(row: &Row, column: usize) -> Result<Self, StoreError> {
        get(row, column)
    }
}
impl Column for bool {
    fn column(row: &Row, column: usize) -> Result<Self, StoreError> {
        get(row, column)
    }
}
impl Column for String {
    fn column(row: &Row, column: usize) -> Result<Self, StoreError> {
        get(row, column)
    }
}
impl Column for Option<String> {
    fn column(row: &Row, column: usize) -> Result<Self, StoreError> {
        get(row, column)
    }
}

/// Reads columns in our own types.
pub(super) trait Columns {
    /// Any of them.
    fn col<T: Column>(&self, column: usize) -> Result<T, StoreError>;
    /// An id.
    fn uuid(&self, column: usize) -> Result<Uuid, StoreError>;
    /// An id that may be missing.
    fn maybe_uuid(&self, column: usize) -> Result<Option<Uuid>, StoreError>;
    /// A JSON text, checked when it was written.
    fn json(&self, column: usize) -> Result<JsonText, StoreError>;
    /// A JSON text that may be missing.
    fn maybe_json(&self, column: usize) -> Result<Option<JsonText>, StoreError>;
    /// A moment.
    fn time(&self, column: usize) -> Result<UnixMillis, StoreError> {
        self.col(column).map(UnixMillis)
    }
    /// A moment that may be missing.
    fn maybe_time(&self, column: usize) -> Result<Option<UnixMillis>, StoreError> {
        Ok(self.col::<Option<i64>>(column)?.map(UnixMillis))
    }
    /// A count.
    fn count(&self, column: usize) -> Result<u64, StoreError> {
        Ok(u64::try_from(self.col::<i64>(column)?).unwrap_or(0))
    }
    /// A session's id.
    fn session(&self, column: usize) -> Result<SessionId, StoreError> {
        Ok(SessionId::from_uuid(self.uuid(column)?))
    }
    /// A node's id.
    fn node(&self, column: usize) -> Result<NodeId, StoreError> {
        Ok(NodeId::from_uuid(self.uuid(column)?))
    }
    /// An event's id.
    fn event(&self, column: usize) -> Result<EventId, StoreError> {
        Ok(EventId::from_uuid(self.uuid(column)?))
    }
}

impl Columns for Row {
    fn col<T: Column>(&self, column: usize) -> Result<T, StoreError> {
        T::column(self, column)
    }
    fn uuid(&self, column: usize) -> Result<Uuid, StoreError> {
        get(self, column)
    }
    fn maybe_uuid(&self, column: usize) -> Result<Option<Uuid>, StoreError> {
        get(self, column)
    }
    fn json(&self, column: usize) -> Result<JsonText, StoreError> {
        get::<&str>(self, column).map(JsonText::trusted)
    }
    fn maybe_json(&self, column: usize) -> Result<Option<JsonText>, StoreError> {
        Ok(get::<Option<&str>>(self, column)?.map(JsonText::trusted))
    }
}

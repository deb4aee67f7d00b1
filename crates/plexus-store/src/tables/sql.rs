//! The interface between tables and engines: statements, parameters and rows.
//!
//! Statements are written once, in the SQL that both engines understand, with SQLite's placeholders
//! (`?1`). The remaining differences are resolved where a statement is prepared: PostgreSQL gets
//! its own placeholders there and the type of every parameter, so that no statement needs a cast.
//! The few things that the engines spell differently are the constants of [`Sql`].
//!
//! The futures of SQLite are ready when they are first polled: [`ready`] takes their result without
//! a runtime.

use std::ops::ControlFlow;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use plexus_core::{ApprovalId, DeviceId, EventId, NodeId, RuleId, ServerId, SessionId, TreeId};
use uuid::Uuid;

use crate::contract::{JsonText, NewEvent, Owner, SearchQuery, StoreError, TokenHash, UnixMillis};
use crate::tables::search::index::Entry;

/// A connection to an engine.
pub(crate) trait Sql {
    /// The literal for `false` in a comparison with a column: an index `WHERE retired = 0` serves
    /// only a query that spells it the same way.
    const FALSE: &'static str;
    /// The function that makes a JSON string from a text.
    const JSON_STRING: &'static str;
    /// The query that makes rows of ids: of a JSON array of them, written without hyphens.
    const IDS: &'static str;
    /// The query for the size of the database.
    const SIZE: &'static str;
    /// The query for the entries of search that have the words `?1`, newest first, before `?2`.
    const HAS_WORDS: &'static str;

    /// Writes the words of a search as [`HAS_WORDS`](Sql::HAS_WORDS) takes them.
    fn words_query(query: &SearchQuery) -> Option<String>;

    /// Runs a statement and returns how many rows it changed.
    async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError>;

    /// Passes rows to `read`, in order, until it breaks.
    async fn each(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError>;

    /// Locks rows (`SELECT … FOR UPDATE`) until the transaction ends. Does nothing in an engine
    /// that has one writer.
    async fn lock(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError>;

    /// Reads the clock that decides when leases run out.
    async fn clock(&self) -> Result<UnixMillis, StoreError>;

    /// Inserts events of one chat, the first of them with the seq `first`.
    async fn insert_events(
        &self,
        chat: i64,
        first: u32,
        events: &[NewEvent],
    ) -> Result<(), StoreError>;

    /// Adds entries to the index of search, and returns how many. It leaves out those of chats that
    /// are gone or pruned.
    async fn insert_entries(&self, entries: &[Entry]) -> Result<u64, StoreError>;

    /// Returns the first row, if there is one.
    async fn one<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut found = None;
        let first = |row: &Row<'_>| {
            found = Some(read(row)?);
            Ok(ControlFlow::Break(()))
        };
        self.each(sql, params, first).await?;
        Ok(found)
    }

    /// Returns all rows.
    async fn all<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        let next = |row: &Row<'_>| {
            found.push(read(row)?);
            Ok(ControlFlow::Continue(()))
        };
        self.each(sql, params, next).await?;
        Ok(found)
    }

    /// Returns whether there is a row.
    async fn any(&self, sql: &str, params: &[Param<'_>]) -> Result<bool, StoreError> {
        Ok(self.one(sql, params, |_| Ok(())).await?.is_some())
    }

    /// Runs an `INSERT … RETURNING id` and returns the new row's id.
    async fn insert(&self, sql: &str, params: &[Param<'_>]) -> Result<i64, StoreError> {
        let id = self.one(sql, params, |row| row.get(0)).await?;
        id.ok_or_else(|| StoreError::Corrupt { message: "a new row has no id".to_owned() })
    }
}

/// Returns the result of a future that never waits, as all futures over SQLite are.
///
/// The future is polled in place: that of a change list has thousands of bytes, and every function
/// that takes it by value copies them.
#[inline]
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        #[expect(clippy::unreachable, reason = "nothing in such a future waits for anything")]
        Poll::Pending => unreachable!("SQLite answers before it returns"),
    }
}

// Parameters.

/// A value for a parameter. Even a missing value has a type, because PostgreSQL asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Param<'p> {
    /// A number, a moment, or the number of an enum variant.
    Int(Option<i64>),
    /// A boolean.
    Bool(Option<bool>),
    /// A text, or JSON as text.
    Text(Option<&'p str>),
    /// An id.
    Id(Option<Uuid>),
    /// Bytes.
    Bytes(Option<&'p [u8]>),
}

/// A type that can be a parameter.
pub(crate) trait Bind {
    /// The parameter for a missing value.
    const MISSING: Param<'static>;
    /// Returns the value.
    fn bind(&self) -> Param<'_>;
}

/// Makes the parameters of a statement: `params![row, id, name]`.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::tables::sql::Bind::bind(&$value)),*] };
}
pub(crate) use params;

macro_rules! bind {
    ($($type:ty => $kind:ident, |$it:ident| $how:expr;)*) => { $(
        impl Bind for $type {
            const MISSING: Param<'static> = Param::$kind(None);
            fn bind(&self) -> Param<'_> {
                let $it = self;
                Param::$kind(Some($how))
            }
        }
    )* };
}
pub(crate) use bind;

bind! {
    i64 => Int, |it| *it;
    u32 => Int, |it| i64::from(*it);
    u64 => Int, |it| int(*it);
    usize => Int, |it| int(*it as u64);
    UnixMillis => Int, |it| it.0;
    bool => Bool, |it| *it;
    str => Text, |it| it;
    String => Text, |it| it.as_str();
    JsonText => Text, |it| it.as_str();
    Uuid => Id, |it| *it;
    TokenHash => Bytes, |it| it.0.as_slice();
    Vec<u8> => Bytes, |it| it.as_slice();
}

impl<T: Bind + ?Sized> Bind for &T {
    const MISSING: Param<'static> = T::MISSING;
    fn bind(&self) -> Param<'_> {
        T::bind(self)
    }
}

impl<T: Bind> Bind for Option<T> {
    const MISSING: Param<'static> = T::MISSING;
    fn bind(&self) -> Param<'_> {
        self.as_ref().map_or(T::MISSING, T::bind)
    }
}

impl Bind for Owner {
    const MISSING: Param<'static> = Param::Id(None);
    fn bind(&self) -> Param<'_> {
        match self {
            // The operator has no id.
            Self::Operator => Self::MISSING,
            Self::Session(id) => Param::Id(Some(*id.as_uuid())),
        }
    }
}

/// Converts a count to its stored form; one that does not fit is stored as the largest number.
pub(crate) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

// Rows.

/// A row of an engine. When a column is missing or has another type than in our tables, another
/// program wrote it: the store is corrupt.
pub(crate) trait Cells {
    /// Reads a number.
    fn int(&self, column: usize) -> Result<Option<i64>, StoreError>;
    /// Reads a boolean.
    fn bool(&self, column: usize) -> Result<Option<bool>, StoreError>;
    /// Reads a text.
    fn text(&self, column: usize) -> Result<Option<&str>, StoreError>;
    /// Reads bytes.
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError>;
    /// Reads an id.
    fn id(&self, column: usize) -> Result<Option<Uuid>, StoreError>;
}

/// A row of either engine.
pub(crate) type Row<'r> = dyn Cells + 'r;

impl Row<'_> {
    /// Reads a column.
    pub(crate) fn get<T: Column>(&self, column: usize) -> Result<T, StoreError> {
        self.maybe(column)?.ok_or_else(|| StoreError::Corrupt {
            message: format!("column {column} of a row is empty"),
        })
    }

    /// Reads a column that may be empty.
    pub(crate) fn maybe<T: Column>(&self, column: usize) -> Result<Option<T>, StoreError> {
        T::read(self, column)
    }
}

/// A type that a column is read as.
pub(crate) trait Column: Sized {
    /// Reads it.
    fn read(row: &Row<'_>, column: usize) -> Result<Option<Self>, StoreError>;
}

macro_rules! column {
    ($($type:ty => $kind:ident, $how:expr;)*) => { $(
        impl Column for $type {
            fn read(row: &Row<'_>, column: usize) -> Result<Option<Self>, StoreError> {
                Ok(row.$kind(column)?.map($how))
            }
        }
    )* };
}
pub(crate) use column;

column! {
    i64 => int, |it| it;
    u64 => int, |it| u64::try_from(it).unwrap_or(0);
    UnixMillis => int, UnixMillis;
    bool => bool, |it| it;
    String => text, str::to_owned;
    JsonText => text, JsonText::trusted;
    Uuid => id, |it| it;
    Vec<u8> => bytes, <[u8]>::to_vec;
}

impl Column for u32 {
    fn read(row: &Row<'_>, column: usize) -> Result<Option<Self>, StoreError> {
        let small = |number: i64| {
            Self::try_from(number)
                .map_err(|_| StoreError::Corrupt { message: format!("{number} is not a count") })
        };
        row.int(column)?.map(small).transpose()
    }
}

macro_rules! ids {
    ($($id:ident),*) => { $(
        bind! { $id => Id, |it| *it.as_uuid(); }
        column! { $id => id, $id::from_uuid; }
    )* };
}

ids! { ApprovalId, DeviceId, EventId, NodeId, RuleId, ServerId, SessionId, TreeId }

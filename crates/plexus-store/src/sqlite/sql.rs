//! The few ways this engine talks to SQLite, with its errors turned into ours in one place.

use std::sync::Arc;
use std::time::Duration;

use plexus_core::{EventId, NodeId, SessionId};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row, ffi};
use uuid::Uuid;

use crate::contract::{JsonText, StoreError, UnixMillis, refusal};

/// How long a caller waits when SQLite itself says it is busy; with one writer that is a checkpoint at most.
const RETRY_LOCKED: Duration = Duration::from_millis(50);

/// Prepared statements, cached by their text.
pub(super) trait Sql {
    /// Runs a statement and returns how many rows it changed.
    fn run(&self, sql: &str, params: impl Params) -> Result<usize, StoreError>;
    /// Returns the first row, if there is one.
    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError>;
    /// Returns all rows.
    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError>;
}

impl Sql for Connection {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        self.prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params))
            .map_err(store_error)
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        self.prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(params, read).optional())
            .map_err(store_error)
    }

    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare_cached(sql).map_err(store_error)?;
        let rows = statement.query_map(params, read).map_err(store_error)?;
        rows.collect::<rusqlite::Result<Vec<T>>>().map_err(store_error)
    }
}

/// Makes a connection keep its prepared statements. Without this SQLite looks at bound values while it plans, and so plans every statement anew
/// whenever they change, which costs more than running it.
pub(super) fn keep_plans(conn: &Connection, statements: usize) -> Result<(), StoreError> {
    conn.set_prepared_statement_cache_capacity(statements);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop).map_err(store_error)
}

/// Says what a failure of SQLite means for the caller.
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(failure, _) = &error else {
        // A column of another type than we write: the file was changed by somebody else.
        return StoreError::Corrupt { message: error.to_string() };
    };
    match (failure.code, failure.extended_code) {
        // After a failed flush the kernel may drop the pages and call the next flush a success: nothing later can be trusted.
        (_, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => {
            StoreError::Poisoned { message: error.to_string() }
        }
        (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _) => {
            StoreError::Corrupt { message: error.to_string() }
        }
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
            StoreError::busy(&error, RETRY_LOCKED)
        }
        (ErrorCode::ConstraintViolation, _) => refusal::id_taken(),
        _ => StoreError::Unavailable { message: error.to_string(), source: Some(Arc::new(error)) },
    }
}

/// Says whether an error is about the store and not about one change list: then nothing of the transaction counts.
pub(super) fn ends_transaction(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { .. }
        | StoreError::Corrupt { .. }
        | StoreError::Poisoned { .. }
        | StoreError::Closed => true,
        StoreError::NotFound { .. }
        | StoreError::Conflict { .. }
        | StoreError::Invalid { .. }
        | StoreError::Busy { .. }
        | StoreError::Fenced { .. }
        | StoreError::Newer { .. }
        | StoreError::Foreign { .. }
        | StoreError::Locked { .. } => false,
    }
}

/// Returns an id as it is stored.
pub(super) fn blob(uuid: &Uuid) -> [u8; 16] {
    *uuid.as_bytes()
}

/// Reads columns in our own types.
pub(super) trait Columns {
    /// An id of 16 bytes.
    fn uuid(&self, column: usize) -> rusqlite::Result<Uuid>;
    /// An id that may be missing.
    fn maybe_uuid(&self, column: usize) -> rusqlite::Result<Option<Uuid>>;
    /// A JSON text, checked when it was written.
    fn json(&self, column: usize) -> rusqlite::Result<JsonText>;
    /// A JSON text that may be missing.
    fn maybe_json(&self, column: usize) -> rusqlite::Result<Option<JsonText>>;
    /// A moment.
    fn time(&self, column: usize) -> rusqlite::Result<UnixMillis>;
    /// A moment that may be missing.
    fn maybe_time(&self, column: usize) -> rusqlite::Result<Option<UnixMillis>>;
    /// A count.
    fn count(&self, column: usize) -> rusqlite::Result<u64>;
    /// A session's id.
    fn session(&self, column: usize) -> rusqlite::Result<SessionId> {
        Ok(SessionId::from_uuid(self.uuid(column)?))
    }
    /// A node's id.
    fn node(&self, column: usize) -> rusqlite::Result<NodeId> {
        Ok(NodeId::from_uuid(self.uuid(column)?))
    }
    /// An event's id.
    fn event(&self, column: usize) -> rusqlite::Result<EventId> {
        Ok(EventId::from_uuid(self.uuid(column)?))
    }
}

impl Columns for Row<'_> {
    fn uuid(&self, column: usize) -> rusqlite::Result<Uuid> {
        self.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
    }
    fn maybe_uuid(&self, column: usize) -> rusqlite::Result<Option<Uuid>> {
        Ok(self.get::<_, Option<[u8; 16]>>(column)?.map(Uuid::from_bytes))
    }
    fn json(&self, column: usize) -> rusqlite::Result<JsonText> {
        self.get::<_, Arc<str>>(column).map(JsonText::trusted)
    }
    fn maybe_json(&self, column: usize) -> rusqlite::Result<Option<JsonText>> {
        Ok(self.get::<_, Option<Arc<str>>>(column)?.map(JsonText::trusted))
    }
    fn time(&self, column: usize) -> rusqlite::Result<UnixMillis> {
        self.get(column).map(UnixMillis)
    }
    fn maybe_time(&self, column: usize) -> rusqlite::Result<Option<UnixMillis>> {
        Ok(self.get::<_, Option<i64>>(column)?.map(UnixMillis))
    }
    fn count(&self, column: usize) -> rusqlite::Result<u64> {
        Ok(u64::try_from(self.get::<_, i64>(column)?).unwrap_or(0))
    }
}

/// Stores a number that counts something; beyond what SQLite can hold it stays at the largest.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: std::ffi::c_int) -> StoreError {
        store_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn what_sqlite_says_becomes_what_a_caller_can_do() {
        assert!(matches!(error(ffi::SQLITE_IOERR_FSYNC), StoreError::Poisoned { .. }));
        assert!(matches!(error(ffi::SQLITE_IOERR_DIR_FSYNC), StoreError::Poisoned { .. }));
        assert!(matches!(error(ffi::SQLITE_IOERR_WRITE), StoreError::Unavailable { .. }));
        assert!(matches!(error(ffi::SQLITE_FULL), StoreError::Unavailable { .. }));
        assert!(matches!(error(ffi::SQLITE_CORRUPT), StoreError::Corrupt { .. }));
        assert!(matches!(error(ffi::SQLITE_NOTADB), StoreError::Corrupt { .. }));
        assert!(matches!(error(ffi::SQLITE_BUSY), StoreError::Busy { .. }));
        assert!(matches!(error(ffi::SQLITE_CONSTRAINT_UNIQUE), StoreError::Conflict { .. }));
    }
}

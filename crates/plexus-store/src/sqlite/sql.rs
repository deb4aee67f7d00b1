//! Implements the SQL interface of the tables for SQLite, and maps its errors to ours in one place.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Row, ToSql, ffi, params_from_iter};
use uuid::Uuid;

use crate::contract::{NewEvent, SearchQuery, StoreError, UnixMillis, refusal};
use crate::tables::keys::EventKey;
use crate::tables::search::{self, index::Entry};
use crate::tables::sql::{self, Cells, Param, Sql, params};

/// How long a caller waits when SQLite itself is busy; with one writer that is a checkpoint at
/// most.
const RETRY_LOCKED: Duration = Duration::from_millis(50);

// Statements are prepared once and cached by their text. None of these futures ever waits.
impl Sql for Connection {
    const FALSE: &'static str = "0";
    const JSON_STRING: &'static str = "json_quote";
    const IDS: &'static str = "SELECT unhex(value) FROM json_each(?1)";
    const SIZE: &'static str =
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    const HAS_WORDS: &'static str = "SELECT rowid AS id FROM search_words
        WHERE search_words MATCH ?1 AND rowid < ?2 ORDER BY rowid DESC";

    fn words_query(query: &SearchQuery) -> Option<String> {
        search::for_sqlite(query)
    }

    async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        let mut statement = self.prepare_cached(sql).map_err(store_error)?;
        statement.execute(params_from_iter(params)).map(|rows| rows as u64).map_err(store_error)
    }

    async fn each(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&sql::Row<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut statement = self.prepare_cached(sql).map_err(store_error)?;
        let mut rows = statement.query(params_from_iter(params)).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            if read(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    async fn lock(&self, _sql: &str, _params: &[Param<'_>]) -> Result<(), StoreError> {
        // There is only one writer, so there is nothing to lock.
        Ok(())
    }

    async fn clock(&self) -> Result<UnixMillis, StoreError> {
        // One server at a time has the file open, so its clock is the store's.
        Ok(UnixMillis::now())
    }

    async fn insert_events(
        &self,
        chat: i64,
        first: u32,
        events: &[NewEvent],
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO chat_events (id, uuid, created_at, type, body)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut insert = self.prepare_cached(sql).map_err(store_error)?;
        for (seq, event) in (first..).zip(events) {
            let key = EventKey::new(chat, seq);
            let row = params![key, event.id, event.timestamp, event.event_type, event.body];
            insert.execute(params_from_iter(row)).map_err(store_error)?;
        }
        Ok(())
    }

    async fn insert_entries(&self, entries: &[Entry]) -> Result<u64, StoreError> {
        let mut added = 0;
        for entry in entries {
            let id: Option<i64> = self
                .one(
                    "INSERT INTO search_entries (event, at, kind, tool)
                     SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM chat_streams c
                         JOIN sessions s ON s.id = c.session
                         WHERE c.id = ?5 AND s.deleted_at IS NULL AND (NOT c.pruned OR ?3 = 0))
                     ON CONFLICT (event) DO NOTHING RETURNING id",
                    params![entry.event, entry.at, entry.kind, entry.tool, entry.event.chat()],
                    |row| row.get(0),
                )
                .await?;
            if let Some(id) = id {
                let words = entry.words.join(" ");
                let add = "INSERT INTO search_words (rowid, words) VALUES (?1, ?2)";
                self.run(add, params![id, words]).await?;
                added += 1;
            }
        }
        Ok(added)
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Param::Int(Some(number)) => ValueRef::Integer(*number),
            Param::Bool(Some(yes)) => ValueRef::Integer(i64::from(*yes)),
            Param::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Param::Id(Some(id)) => ValueRef::Blob(id.as_bytes()),
            Param::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
            Param::Int(None)
            | Param::Bool(None)
            | Param::Text(None)
            | Param::Id(None)
            | Param::Bytes(None) => ValueRef::Null,
        }))
    }
}

impl Cells for Row<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.get(column).map_err(store_error)
    }
    fn bool(&self, column: usize) -> Result<Option<bool>, StoreError> {
        self.get(column).map_err(store_error)
    }
    fn text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        let text = self.get_ref(column).map_err(store_error)?.as_str_or_null();
        text.map_err(|error| store_error(error.into()))
    }
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        let bytes = self.get_ref(column).map_err(store_error)?.as_blob_or_null();
        bytes.map_err(|error| store_error(error.into()))
    }
    fn id(&self, column: usize) -> Result<Option<Uuid>, StoreError> {
        let bytes: Option<[u8; 16]> = self.get(column).map_err(store_error)?;
        Ok(bytes.map(Uuid::from_bytes))
    }
}

/// Makes a connection keep its query plans. By default SQLite considers bound values when it plans,
/// so it plans a statement again whenever they change, which costs more than running it.
pub(super) fn keep_plans(conn: &Connection, statements: usize) -> Result<(), StoreError> {
    conn.set_prepared_statement_cache_capacity(statements);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop).map_err(store_error)
}

/// Converts a failure of SQLite into the error for the caller.
pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(failure, _) = &error else {
        // A column of another type than we write: another program changed the file.
        return StoreError::Corrupt { message: error.to_string() };
    };
    match (failure.code, failure.extended_code) {
        // After a failed flush the kernel may drop the pages and report the next flush as a
        // success: nothing later can be trusted.
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

/// Returns whether an error concerns the store and not one change list: then the whole transaction
/// is void.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: std::ffi::c_int) -> StoreError {
        store_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn sqlite_errors_become_errors_that_a_caller_can_act_on() {
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

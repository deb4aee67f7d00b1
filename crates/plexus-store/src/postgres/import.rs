//! Moves a SQLite store into an empty database. The tables are the same, so this is row by row, in
//! one transaction: everything is there, or nothing.

use std::collections::HashMap;
use std::fmt::Write as _;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::mpsc;

use super::connect::{Connector, SCHEMA};
use super::migrate;
use super::sql::Conn;
use super::{PostgresOptions, PostgresStore};
use crate::contract::{Store, StoreError};
use crate::sqlite::{DATABASE_FILE, SqliteOptions, SqliteStore};
use crate::tables::sql::{Sql as _, params};

/// Every table with rows of its own, those that others refer to first. `writers` belongs to open
/// handles.
const TABLES: &[&str] = &[
    "servers",
    "trees",
    "chains",
    "nodes",
    "sessions",
    "session_changes",
    "chat_streams",
    "chat_events",
    "chat_images",
    "parked_transcripts",
    "event_batches",
    "consumers",
    "runs",
    "loopback_approvals",
    "rules",
    "devices",
    "tokens",
    "spend",
    "reservations",
    "audit",
    "outbox",
];

/// The table whose rows are no rows of anybody: the counters go over by themselves.
const META: &str = "store_meta";

/// How large one statement gets before the next row goes into another.
const STATEMENT_BYTES: usize = 256 * 1024;

/// Statements that wait for the database.
const QUEUE: usize = 4;

/// The type of each column, by table and name, as the database names it.
type Types = HashMap<(String, String), String>;

impl PostgresStore {
    /// Copies everything of the SQLite store in `from` into the database, which must hold nothing
    /// of ours. Returns how many rows there were.
    ///
    /// # Errors
    /// `Conflict` when the database is not empty, or agents of the SQLite store are still running;
    /// otherwise what either store says. Nothing was changed then.
    pub async fn import(to: &PostgresOptions, from: &SqliteOptions) -> Result<u64, StoreError> {
        // Opened as a server opens it: its lock is ours until we are done, and its tables are of
        // the newest version.
        let source = SqliteStore::open(from)?;
        let counts = source.counts().await?;
        if counts.chats_running > 0 || counts.runs_open > 0 {
            source.close().await?;
            return Err(StoreError::conflict(
                "move the store: agents are running; end them with `plexus stop --children`",
                &counts,
            ));
        }
        let conn = Connector::new(&to.url)?.connect().await?;
        migrate::migrate(&conn).await?;
        conn.batch(
            "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL standard_conforming_strings = on",
        )
        .await?;
        let copied = copy(&conn, from).await;
        let copied = match copied {
            Ok(rows) => conn.batch("COMMIT").await.map(|()| rows),
            Err(error) => {
                conn.send("ROLLBACK");
                Err(error)
            }
        };
        source.close().await?;
        copied
    }
}

async fn copy(conn: &Conn, from: &SqliteOptions) -> Result<u64, StoreError> {
    for table in TABLES {
        // Also keeps every other server out until we are done.
        conn.batch(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
        if conn.any(&format!("SELECT 1 FROM {table} LIMIT 1"), params![]).await? {
            return Err(StoreError::conflict(
                format_args!("move the store: the database is in use, {table} has rows"),
                table,
            ));
        }
    }
    let columns = "SELECT table_name::text, column_name::text, data_type::text
                   FROM information_schema.columns WHERE table_schema = ?1";
    let types: Types = conn
        .all(columns, params![SCHEMA], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))
        .await?
        .into_iter()
        .collect();
    let (statements, mut queue) = mpsc::channel(QUEUE);
    let path = from.dir.join(DATABASE_FILE);
    let reader = tokio::task::spawn_blocking(move || {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(sqlite_error)?;
        require_known_tables(&db)?;
        let mut counts = Vec::with_capacity(TABLES.len());
        for table in TABLES {
            counts.push((*table, read_table(&db, table, &types, &statements)?));
        }
        read_meta(&db, &statements).map(|()| counts)
    });
    while let Some(statement) = queue.recv().await {
        let statement: String = statement;
        // Dropping the queue ends the reader.
        conn.batch(&statement).await?;
    }
    let gone = |_| StoreError::Unavailable {
        message: "the SQLite file could not be read to its end".to_owned(),
        source: None,
    };
    let counts: Vec<(&str, u64)> = reader.await.map_err(gone)??;
    let mut rows = 0;
    for (table, read) in counts {
        set_next_id(conn, table).await?;
        let arrived =
            conn.one(&format!("SELECT count(*) FROM {table}"), params![], |row| row.get(0)).await?;
        if arrived != Some(read) {
            return Err(StoreError::Corrupt {
                message: format!(
                    "{read} rows of {table} were sent to the database, and it holds {}",
                    arrived.unwrap_or(0)
                ),
            });
        }
        rows += read;
    }
    Ok(rows)
}

/// Refuses a file that has a table which would be left behind.
fn require_known_tables(db: &Connection) -> Result<(), StoreError> {
    let mut tables = db
        .prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table'
                  AND name NOT LIKE 'sqlite^_%' ESCAPE '^'",
        )
        .map_err(sqlite_error)?;
    let names = tables.query_map([], |row| row.get::<_, String>(0)).map_err(sqlite_error)?;
    for name in names {
        let name = name.map_err(sqlite_error)?;
        // The index of search is filled again by whoever opens the database.
        if name != META && !name.starts_with("search_") && !TABLES.contains(&name.as_str()) {
            return Err(StoreError::invalid(format_args!(
                "move the store: the database has no table {name}"
            )));
        }
    }
    Ok(())
}

/// New rows get numbers after those that came.
async fn set_next_id(conn: &Conn, table: &str) -> Result<(), StoreError> {
    let named = conn
        .one(
            "SELECT pg_get_serial_sequence(?1, 'id') FROM information_schema.columns
             WHERE table_schema = ?2 AND table_name = ?3 AND column_name = 'id'
             AND is_identity = 'YES'",
            params![format!("{SCHEMA}.{table}"), SCHEMA, table],
            |row| row.maybe::<String>(0),
        )
        .await?
        .flatten();
    if let Some(sequence) = named {
        conn.batch(&format!(
            "SELECT setval('{sequence}', greatest((SELECT max(id)
             FROM {table}), 1), EXISTS (SELECT 1 FROM {table}))"
        ))
        .await?;
    }
    Ok(())
}

fn read_table(
    db: &Connection,
    table: &str,
    types: &Types,
    to: &mpsc::Sender<String>,
) -> Result<u64, StoreError> {
    // Every table is ordered by its key, and a session's parent is older than it.
    let mut rows =
        db.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).map_err(sqlite_error)?;
    let names: Vec<String> = rows.column_names().map(str::to_owned).collect();
    let types: Vec<&str> = names
        .iter()
        .map(|name| {
            let known = types.get(&(table.to_owned(), name.clone())).map(String::as_str);
            known.ok_or_else(|| {
                StoreError::invalid(format_args!(
                    "move the store: the database has no column {table}.{name}"
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let head = format!("INSERT INTO {table} ({}) VALUES ", quoted.join(", "));
    let (mut statement, mut count) = (String::new(), 0);
    let mut found = rows.query([]).map_err(sqlite_error)?;
    while let Some(row) = found.next().map_err(sqlite_error)? {
        statement.push_str(if statement.is_empty() { &head } else { ", " });
        for (index, kind) in types.iter().enumerate() {
            statement.push(if index == 0 { '(' } else { ',' });
            literal(&mut statement, row.get_ref(index).map_err(sqlite_error)?, kind)?;
        }
        statement.push(')');
        count += 1;
        if statement.len() > STATEMENT_BYTES {
            send(to, std::mem::take(&mut statement))?;
        }
    }
    if !statement.is_empty() {
        send(to, statement)?;
    }
    Ok(count)
}

fn read_meta(db: &Connection, to: &mpsc::Sender<String>) -> Result<(), StoreError> {
    for key in ["commits", "events"] {
        let value: i64 = db
            .query_row(&format!("SELECT value FROM {META} WHERE key = ?1"), [key], |row| row.get(0))
            .map_err(sqlite_error)?;
        send(to, format!("UPDATE {META} SET value = {value} WHERE key = '{key}'"))?;
    }
    Ok(())
}

fn send(to: &mpsc::Sender<String>, statement: String) -> Result<(), StoreError> {
    let gone = |_| StoreError::Unavailable {
        message: "the database refused a row".to_owned(),
        source: None,
    };
    to.blocking_send(statement).map_err(gone)
}

/// Writes a value as SQL. Text cannot leave its quotes: they are doubled, and backslashes mean
/// nothing in them.
fn literal(sql: &mut String, value: ValueRef<'_>, kind: &str) -> Result<(), StoreError> {
    let odd =
        || StoreError::Corrupt { message: format!("a value of the SQLite file is no {kind}") };
    // Writing to a string cannot fail.
    let _ = match (value, kind) {
        (ValueRef::Null, _) => write!(sql, "NULL"),
        (ValueRef::Integer(number), "boolean") => write!(sql, "{}", number != 0),
        (ValueRef::Integer(number), _) => write!(sql, "{number}"),
        (ValueRef::Blob(bytes), "uuid") => {
            write!(sql, "'{}'", uuid::Uuid::from_slice(bytes).map_err(|_| odd())?)
        }
        (ValueRef::Blob(bytes), _) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write!(sql, "'\\x{hex}'")
        }
        (ValueRef::Text(bytes), _) => {
            let text = std::str::from_utf8(bytes).map_err(|_| odd())?;
            // PostgreSQL's text holds every character but NUL.
            write!(sql, "'{}'", text.replace('\'', "''").replace('\0', "\u{FFFD}"))
        }
        (ValueRef::Real(_), _) => return Err(odd()),
    };
    Ok(())
}

fn sqlite_error(error: rusqlite::Error) -> StoreError {
    StoreError::Unavailable {
        message: format!("read the SQLite file: {error}"),
        source: Some(std::sync::Arc::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_within_its_quotes() {
        for (value, kind, sql) in [
            (
                ValueRef::Text(b"it's '); DROP TABLE x; --\\"),
                "text",
                "'it''s ''); DROP TABLE x; --\\'",
            ),
            (ValueRef::Integer(1), "boolean", "true"),
            (ValueRef::Integer(-7), "bigint", "-7"),
            (ValueRef::Blob(&[0xab, 0x01]), "bytea", "'\\xab01'"),
            (ValueRef::Null, "uuid", "NULL"),
        ] {
            let mut written = String::new();
            literal(&mut written, value, kind).unwrap();
            assert_eq!(written, sql);
        }
        assert!(literal(&mut String::new(), ValueRef::Blob(&[1]), "uuid").is_err());
    }
}

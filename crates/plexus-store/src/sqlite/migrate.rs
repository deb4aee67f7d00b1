//! Migrations: forward only, each step in one transaction together with its new version number.

use rusqlite::Connection;

use super::file::{APPLICATION_ID, check_version};
use super::sql::store_error;
use crate::contract::StoreError;
use crate::tables::schema::Dialect;

/// Reads the version of an open database.
pub(super) fn version(conn: &Connection) -> Result<i64, StoreError> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)
}

/// Migrates an open database to the newest version. Returns whether there was anything to do.
pub(super) fn migrate(conn: &Connection) -> Result<bool, StoreError> {
    let found = version(conn)?;
    check_version(found)?;
    if found < 0 {
        return Err(StoreError::Corrupt { message: format!("its version is {found}") });
    }
    for (version, step) in Dialect::Sqlite.steps_after(found) {
        let sql = format!(
            "BEGIN IMMEDIATE; {step}; PRAGMA application_id = {APPLICATION_ID};
             PRAGMA user_version = {version}; COMMIT;"
        );
        if let Err(error) = conn.execute_batch(&sql) {
            if !conn.is_autocommit() {
                conn.execute_batch("ROLLBACK").map_err(store_error)?;
            }
            return Err(store_error(error));
        }
    }
    Ok(found < Dialect::Sqlite.newest())
}

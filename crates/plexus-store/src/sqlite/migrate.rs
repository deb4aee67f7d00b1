//! Migrations: numbered, forward only, each in one transaction together with the version it leads to.

use rusqlite::Connection;

use super::file::{APPLICATION_ID, check_version};
use super::sql::store_error;
use crate::contract::StoreError;

/// Every step, in order. A released step is never edited; the next change is the next step.
const STEPS: &[&str] = &[
    include_str!("migrations/0001_start.sql"),
    include_str!("migrations/0002_outbox_by_target.sql"),
    include_str!("migrations/0003_servers.sql"),
];

/// The version this build leads to.
pub(super) const NEWEST: i64 = STEPS.len() as i64;

/// Reads the version of an open database.
pub(super) fn version(conn: &Connection) -> Result<i64, StoreError> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)
}

/// Takes an open database to the newest version. Returns whether anything was to do.
pub(super) fn migrate(conn: &Connection) -> Result<bool, StoreError> {
    let found = version(conn)?;
    check_version(found)?;
    let done = usize::try_from(found)
        .map_err(|_| StoreError::Corrupt { message: format!("its version is {found}") })?;
    for (number, step) in STEPS.iter().enumerate().skip(done) {
        let sql = format!(
            "BEGIN IMMEDIATE; {step}; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}; COMMIT;",
            number + 1
        );
        if let Err(error) = conn.execute_batch(&sql) {
            if !conn.is_autocommit() {
                conn.execute_batch("ROLLBACK").map_err(store_error)?;
            }
            return Err(store_error(error));
        }
    }
    Ok(done < STEPS.len())
}

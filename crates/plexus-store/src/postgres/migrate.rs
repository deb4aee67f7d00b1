//! Migrations: numbered, forward only, all in one transaction that holds a lock of its own, so that servers that start together wait for each other.

use super::connect::SCHEMA;
use super::sql::{Columns, Conn, params};
use crate::contract::StoreError;

/// Every step, in order. A released step is never edited; the next change is the next step.
const STEPS: &[&str] = &[include_str!("migrations/0001_start.sql")];

/// The version this build leads to.
pub(super) const NEWEST: i64 = STEPS.len() as i64;

/// The advisory lock of whoever migrates: a number that nobody else in this database is likely to use.
const LOCK: i64 = 0x706c_6578_7573; // "plexus"

/// Takes the database to the newest version, making our schema when it is not there.
pub(super) async fn migrate(conn: &Conn) -> Result<(), StoreError> {
    conn.batch("BEGIN").await?;
    match in_transaction(conn).await {
        Ok(()) => conn.batch("COMMIT").await,
        Err(error) => {
            conn.send("ROLLBACK");
            Err(error)
        }
    }
}

async fn in_transaction(conn: &Conn) -> Result<(), StoreError> {
    // Another server may take its time with a large step; whoever waits for it is not in a hurry.
    conn.batch("SET LOCAL lock_timeout = '10min'; SET LOCAL statement_timeout = 0").await?;
    conn.one("SELECT 1 FROM pg_advisory_xact_lock($1)", params![LOCK], |_| Ok(())).await?;
    let found = version(conn).await?;
    if found > NEWEST {
        return Err(StoreError::Newer { found, known: NEWEST });
    }
    let done = usize::try_from(found).unwrap_or(0);
    for (number, step) in STEPS.iter().enumerate().skip(done) {
        conn.batch(step).await?;
        conn.batch(&format!("UPDATE schema_version SET version = {}", number + 1)).await?;
    }
    Ok(())
}

/// Returns the version that stands; 0 for one that was made just now.
async fn version(conn: &Conn) -> Result<i64, StoreError> {
    let known = conn
        .one("SELECT 1 FROM pg_namespace WHERE nspname = $1::text", params![SCHEMA], |_| Ok(()))
        .await?;
    if known.is_none() {
        conn.batch(&format!("CREATE SCHEMA {SCHEMA}")).await?;
    }
    let ours =
        "SELECT 1 FROM pg_tables WHERE schemaname = $1::text AND tablename = 'schema_version'";
    if conn.one(ours, params![SCHEMA], |_| Ok(())).await?.is_none() {
        let foreign = "SELECT 1 FROM pg_tables WHERE schemaname = $1::text LIMIT 1";
        if conn.one(foreign, params![SCHEMA], |_| Ok(())).await?.is_some() {
            return Err(StoreError::Foreign {
                message: format!("the schema {SCHEMA} holds tables of somebody else"),
            });
        }
        conn.batch("CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (0)")
            .await?;
    }
    let found = conn.one("SELECT version FROM schema_version", &[], |row| row.col(0)).await?;
    found.ok_or_else(|| StoreError::Corrupt { message: "it has no version".to_owned() })
}

//! Migrations: forward only, all in one transaction that holds its own lock, so that servers that
//! start together wait for each other.

use super::connect::SCHEMA;
use super::sql::Conn;
use crate::contract::StoreError;
use crate::tables::schema::Dialect;
use crate::tables::sql::{Sql as _, params};

/// The advisory lock for migrating: a number that nothing else in this database is likely to use.
const LOCK: i64 = 0x706c_6578_7573; // "plexus"

/// Migrates the database to the newest version, and creates our schema when it is missing.
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
    // Another server may take long for a large migration; waiting for it is not urgent.
    conn.batch("SET LOCAL lock_timeout = '10min'; SET LOCAL statement_timeout = 0").await?;
    conn.any("SELECT 1 FROM pg_advisory_xact_lock(?1)", params![LOCK]).await?;
    let found = version(conn).await?;
    let known = Dialect::Postgres.newest();
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for (version, step) in Dialect::Postgres.steps_after(found) {
        conn.batch(&step).await?;
        conn.batch(&format!("UPDATE schema_version SET version = {version}")).await?;
    }
    Ok(())
}

/// Returns the current version; 0 for a new schema.
async fn version(conn: &Conn) -> Result<i64, StoreError> {
    if !conn.any("SELECT 1 FROM pg_namespace WHERE nspname = ?1", params![SCHEMA]).await? {
        conn.batch(&format!("CREATE SCHEMA {SCHEMA}")).await?;
    }
    let ours = "SELECT 1 FROM pg_tables WHERE schemaname = ?1 AND tablename = 'schema_version'";
    if !conn.any(ours, params![SCHEMA]).await? {
        let foreign = "SELECT 1 FROM pg_tables WHERE schemaname = ?1 LIMIT 1";
        if conn.any(foreign, params![SCHEMA]).await? {
            return Err(StoreError::Foreign {
                message: format!("the schema {SCHEMA} holds tables of somebody else"),
            });
        }
        conn.batch(
            "CREATE TABLE schema_version (version BIGINT NOT NULL);
             INSERT INTO schema_version VALUES (0)",
        )
        .await?;
    }
    let found = conn.one("SELECT version FROM schema_version", params![], |row| row.get(0)).await?;
    found.ok_or_else(|| StoreError::Corrupt { message: "it has no version".to_owned() })
}

//! Upkeep in SQL: counting, checking, copying, pruning.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, params};

use super::file::io_error;
use super::keys::EventKey;
use super::sql::{Columns, Sql, int, store_error};
use crate::contract::limits::{MAX_FAULTS, PRUNE_EVENTS};
use crate::contract::{Counts, Pruned, StoreError, UnixMillis};

pub(super) fn counts(conn: &Connection) -> Result<Counts, StoreError> {
    let number =
        |sql: &str| Ok::<_, StoreError>(conn.one(sql, [], |row| row.count(0))?.unwrap_or(0));
    let mut counts = Counts {
        sessions: number("SELECT count(*) FROM sessions WHERE deleted_at IS NULL")?,
        events: number("SELECT value FROM store_meta WHERE key = 'events'")?,
        commits: number("SELECT value FROM store_meta WHERE key = 'commits'")?,
        runs_open: number("SELECT count(*) FROM runs WHERE ended_at IS NULL")?,
        bytes_on_disk: number(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        )?,
        ..Counts::default()
    };
    for (status, count) in
        conn.all("SELECT status, count(*) FROM chat_streams GROUP BY status", [], pair)?
    {
        match status {
            0 => counts.chats_running = count,
            1 => counts.chats_complete = count,
            2 => counts.chats_failed = count,
            _ => counts.chats_cancelled = count,
        }
    }
    counts.approvals_pending = number("SELECT count(*) FROM loopback_approvals WHERE status = 0")?;
    let decided =
        "SELECT status, count(*) FROM loopback_approvals WHERE status <> 0 GROUP BY status";
    for (status, count) in conn.all(decided, [], pair)? {
        match status {
            1 => counts.approvals_allowed = count,
            2 => counts.approvals_denied = count,
            3 => counts.approvals_expired = count,
            _ => counts.approvals_cancelled = count,
        }
    }
    Ok(counts)
}

fn pair(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, u64)> {
    Ok((row.get(0)?, row.count(1)?))
}

/// Reads everything and says what is wrong: first what SQLite knows, then what our own promises add.
pub(super) fn integrity(conn: &Connection) -> Result<Vec<String>, StoreError> {
    let mut faults = conn
        .all(&format!("PRAGMA integrity_check({MAX_FAULTS})"), [], |row| row.get::<_, String>(0))?;
    faults.retain(|line| line != "ok");
    if !faults.is_empty() {
        return Ok(faults);
    }
    let mut look = |what: &str, sql: &str| -> Result<(), StoreError> {
        let found =
            conn.all(&format!("{sql} LIMIT {MAX_FAULTS}"), [], |row| row.get::<_, i64>(0))?;
        faults.extend(found.into_iter().map(|row| format!("{what}: row {row}")));
        Ok(())
    };
    look(
        "a chat's seq has a gap",
        "SELECT id >> 32 FROM chat_events GROUP BY id >> 32 HAVING count(*) <> max(id) - min(id) + 1 OR min(id) & 4294967295 <> 0",
    )?;
    look(
        "events of no chat",
        "SELECT DISTINCT id >> 32 FROM chat_events WHERE id >> 32 NOT IN (SELECT id FROM chat_streams)",
    )?;
    look(
        "a chat without its start",
        "SELECT id FROM chat_streams c WHERE NOT EXISTS (SELECT 1 FROM chat_events WHERE id = c.id << 32)",
    )?;
    look(
        "nodes of no chain",
        "SELECT DISTINCT id >> 32 FROM nodes WHERE id >> 32 NOT IN (SELECT id FROM chains)",
    )?;
    look(
        "a decided approval without a decision, or the reverse",
        "SELECT id FROM loopback_approvals WHERE (status = 0) <> (decided_at IS NULL)",
    )?;
    look(
        "two open chats of one session",
        "SELECT session FROM chat_streams WHERE status = 0 GROUP BY session HAVING count(*) > 1",
    )?;
    look("a reference to nothing", "SELECT coalesce(rowid, 0) FROM pragma_foreign_key_check")?;
    Ok(faults)
}

/// Copies the whole store, as of one moment, to a file that must not exist. It appears under its name only when it is complete.
pub(super) fn backup(conn: &Connection, to: &Path) -> Result<(), StoreError> {
    if to.exists() {
        return Err(StoreError::invalid(format_args!(
            "write a backup to {}: there is something already",
            to.display()
        )));
    }
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(partial)
        .map_err(|error| io_error("create", partial, error))?;
    let copied = copy(conn, partial).and_then(|()| {
        std::fs::rename(partial, to).map_err(|error| io_error("rename", partial, error))?;
        sync_dir(to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    });
    if copied.is_err()
        && let Err(error) = std::fs::remove_file(partial)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %partial.display(), "could not remove an unfinished backup");
    }
    copied
}

fn copy(conn: &Connection, partial: &Path) -> Result<(), StoreError> {
    let mut target = Connection::open(partial).map_err(store_error)?;
    {
        // All pages in one step: a snapshot that later commits cannot restart. Readers block nobody, however long they take.
        let backup = Backup::new(conn, &mut target).map_err(store_error)?;
        backup.run_to_completion(i32::MAX, Duration::ZERO, None).map_err(store_error)?;
    }
    target.close().map_err(|(_, error)| store_error(error))?;
    let file = std::fs::File::open(partial).map_err(|error| io_error("open", partial, error))?;
    file.sync_all().map_err(|error| io_error("flush", partial, error))
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| io_error("flush", dir, error))
}

/// Prunes a bounded part of what ended before `before`; nothing left to do is all zeros. Runs in a transaction of its caller's.
pub(super) fn prune_step(conn: &Connection, before: UnixMillis) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned {
        approvals: conn.run(
            "DELETE FROM loopback_approvals WHERE id IN (SELECT id FROM loopback_approvals WHERE status <> 0 AND decided_at < ?1
             AND (delivered_at IS NOT NULL OR void_at IS NOT NULL) LIMIT ?2)",
            params![before.0, PRUNE_EVENTS],
        )? as u64,
        audit: conn.run("DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ?1 LIMIT ?2)", params![before.0, PRUNE_EVENTS])?
            as u64,
        ..Pruned::default()
    };
    let chat = conn.one(
        "SELECT id, chain, first_pos FROM chat_streams WHERE status <> 0 AND pruned = 0 AND ended_at < ?1 LIMIT 1",
        [before.0],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)),
    )?;
    if let Some((chat, chain, first)) = chat {
        let changed = conn.run(
            "UPDATE chat_events SET body = json_object('type', type, 'pruned', json('true')) WHERE id IN (
                 SELECT id FROM chat_events WHERE id >= ?1 AND id < ?2 AND body <> json_object('type', type, 'pruned', json('true')) LIMIT ?3)",
            [EventKey::new(chat, 0).0, EventKey::end(chat), PRUNE_EVENTS],
        )?;
        pruned.events = changed as u64;
        if int(changed as u64) < PRUNE_EVENTS {
            conn.run(
                "UPDATE nodes SET data = '' WHERE id = ?1",
                [super::keys::Place::new(chain, first - 2).0],
            )?;
            conn.run("UPDATE chat_streams SET pruned = 1 WHERE id = ?1", [chat])?;
            pruned.chats = 1;
        }
    }
    conn.run("DELETE FROM servers WHERE state <> 0 AND heartbeat_at < ?1", [before.0])?;
    // The feed's index of sessions that are gone.
    conn.run(
        "DELETE FROM event_batches WHERE (commit_no, chat, first_seq) IN (
             SELECT commit_no, chat, first_seq FROM event_batches WHERE chat NOT IN (SELECT id FROM chat_streams) LIMIT ?1)",
        [PRUNE_EVENTS],
    )?;
    Ok(pruned)
}

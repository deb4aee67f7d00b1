//! Upkeep in SQL: counting, checking, pruning.

use super::keys::EventKey;
use super::search;
use super::sql::{Row, Sql, params};
use crate::contract::limits::{MAX_FAULTS, PRUNE_EVENTS};
use crate::contract::{Counts, Prompts, Pruned, SearchKind, StoreError, UnixMillis};

async fn number(conn: &impl Sql, sql: &str) -> Result<u64, StoreError> {
    Ok(conn.one(sql, &[], |row| row.get(0)).await?.unwrap_or(0))
}

pub(crate) async fn counts<C: Sql>(conn: &C) -> Result<Counts, StoreError> {
    let mut counts = Counts {
        sessions: number(conn, "SELECT count(*) FROM sessions WHERE deleted_at IS NULL").await?,
        events: number(conn, "SELECT value FROM store_meta WHERE key = 'events'").await?,
        commits: number(conn, "SELECT value FROM store_meta WHERE key = 'commits'").await?,
        runs_open: number(conn, "SELECT count(*) FROM runs WHERE ended_at IS NULL").await?,
        bytes_on_disk: number(conn, C::SIZE).await?,
        approvals_pending: number(conn, "SELECT count(*) FROM loopback_approvals WHERE status = 0")
            .await?,
        ..Counts::default()
    };
    for (status, count) in
        conn.all("SELECT status, count(*) FROM chat_streams GROUP BY status", &[], pair).await?
    {
        match status {
            0 => counts.chats_running = count,
            1 => counts.chats_complete = count,
            2 => counts.chats_failed = count,
            _ => counts.chats_cancelled = count,
        }
    }
    let decided =
        "SELECT status, count(*) FROM loopback_approvals WHERE status <> 0 GROUP BY status";
    for (status, count) in conn.all(decided, &[], pair).await? {
        match status {
            1 => counts.approvals_allowed = count,
            2 => counts.approvals_denied = count,
            3 => counts.approvals_expired = count,
            _ => counts.approvals_cancelled = count,
        }
    }
    Ok(counts)
}

fn pair(row: &Row<'_>) -> Result<(i64, u64), StoreError> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Checks of what we promise beyond the constraints that the database enforces: what is wrong, and
/// the query that finds it.
const CHECKS: &[(&str, &str)] = &[
    (
        "a chat's seq has a gap",
        "SELECT id >> 32 FROM chat_events GROUP BY id >> 32
         HAVING count(*) <> max(id) - min(id) + 1 OR min(id) & 4294967295 <> 0",
    ),
    (
        "events of no chat",
        "SELECT DISTINCT e.id >> 32 FROM chat_events e
         WHERE NOT EXISTS (SELECT 1 FROM chat_streams c WHERE c.id = e.id >> 32)",
    ),
    (
        "a chat without its start",
        "SELECT id FROM chat_streams c
         WHERE NOT EXISTS (SELECT 1 FROM chat_events e WHERE e.id = c.id << 32)",
    ),
    (
        "nodes of no chain",
        "SELECT DISTINCT n.id >> 32 FROM nodes n
         WHERE NOT EXISTS (SELECT 1 FROM chains c WHERE c.id = n.id >> 32)",
    ),
    (
        "a decided approval without a decision, or the reverse",
        "SELECT id FROM loopback_approvals WHERE (status = 0) <> (decided_at IS NULL)",
    ),
    (
        "two open chats of one session",
        "SELECT session FROM chat_streams WHERE status = 0 GROUP BY session HAVING count(*) > 1",
    ),
    (
        "a commit that is not counted",
        "SELECT commit_no FROM event_batches
         WHERE commit_no > (SELECT value FROM store_meta WHERE key = 'commits')",
    ),
];

/// Reads everything and says what is wrong, within the snapshot of its caller.
pub(crate) async fn integrity(conn: &impl Sql) -> Result<Vec<String>, StoreError> {
    let mut faults = Vec::new();
    for (what, sql) in CHECKS {
        let found =
            conn.all(&format!("{sql} LIMIT {MAX_FAULTS}"), &[], |row| row.get::<i64>(0)).await?;
        faults.extend(found.into_iter().map(|row| format!("{what}: row {row}")));
    }
    Ok(faults)
}

/// Prunes a bounded part of what ended before `before`; nothing left to do is all zeros. Runs in a
/// transaction of its caller's.
pub(crate) async fn prune_step<C: Sql>(
    conn: &C,
    before: UnixMillis,
    prompts: Prompts,
) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned {
        approvals: conn
            .run(
                "DELETE FROM loopback_approvals
                 WHERE id IN (SELECT id FROM loopback_approvals WHERE status <> 0
                     AND decided_at < ?1 AND (delivered_at IS NOT NULL OR void_at IS NOT NULL)
                     LIMIT ?2)",
                params![before, PRUNE_EVENTS],
            )
            .await?,
        audit: conn
            .run(
                "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ?1 LIMIT ?2)",
                params![before, PRUNE_EVENTS],
            )
            .await?,
        ..Pruned::default()
    };
    conn.run(
        "DELETE FROM devices WHERE id IN (SELECT id FROM devices WHERE revoked_at < ?1 LIMIT ?2)",
        params![before, PRUNE_EVENTS],
    )
    .await?;
    let chat = conn
        .one(
            "SELECT id FROM chat_streams
             WHERE status <> 0 AND NOT pruned AND ended_at < ?1 LIMIT 1",
            params![before],
            |row| row.get::<i64>(0),
        )
        .await?;
    if let Some(chat) = chat {
        let empty = format!("'{{\"type\":\"pruned\",\"was\":' || {}(type) || '}}'", C::JSON_STRING);
        let changed = conn
            .run(
                &format!(
                    "UPDATE chat_events SET body = {empty}
                     WHERE id IN (SELECT id FROM chat_events WHERE id >= ?1 AND id < ?2
                         AND body <> {empty} LIMIT ?3)"
                ),
                params![EventKey::new(chat, 0), EventKey::end(chat), PRUNE_EVENTS],
            )
            .await?;
        pruned.events = changed;
        if changed < PRUNE_EVENTS {
            conn.run("UPDATE chat_streams SET pruned = TRUE WHERE id = ?1", params![chat]).await?;
            search::forget_events(conn, chat).await?;
            pruned.chats = 1;
        }
    }
    if prompts == Prompts::Remove {
        pruned.prompts = conn
            .run(
                "UPDATE nodes SET data = ''
                 WHERE id IN (SELECT n.id FROM chat_streams c
                     JOIN nodes n ON n.id = (c.chain << 32 | c.first_pos) - 2
                     WHERE c.status <> 0 AND c.ended_at < ?1 AND n.data <> '' LIMIT ?2)",
                params![before, PRUNE_EVENTS],
            )
            .await?;
        search::forget_prompts(conn, before, PRUNE_EVENTS).await?;
        conn.run(
            "DELETE FROM chat_images WHERE chat IN (SELECT c.id FROM chat_streams c
                 WHERE c.status <> 0 AND c.ended_at < ?1
                     AND EXISTS (SELECT 1 FROM chat_images i WHERE i.chat = c.id) LIMIT ?2)",
            params![before, PRUNE_EVENTS],
        )
        .await?;
    }
    // Entries of search that were written while their chat was deleted or pruned elsewhere.
    conn.run(
        "DELETE FROM search_entries WHERE id IN (SELECT w.id FROM search_entries w
             LEFT JOIN chat_streams c ON c.id = w.event >> 32
             WHERE c.id IS NULL OR c.pruned AND w.kind <> ?1 LIMIT ?2)",
        params![SearchKind::Prompt, PRUNE_EVENTS],
    )
    .await?;
    conn.run("DELETE FROM servers WHERE state <> 0 AND heartbeat_at < ?1", params![before]).await?;
    // The feed's index of sessions that are gone.
    conn.run(
        "DELETE FROM event_batches
         WHERE (commit_no, chat, first_seq) IN (SELECT commit_no, chat, first_seq
             FROM event_batches WHERE NOT EXISTS (SELECT 1 FROM chat_streams c WHERE c.id = chat)
             LIMIT ?1)",
        params![PRUNE_EVENTS],
    )
    .await?;
    Ok(pruned)
}

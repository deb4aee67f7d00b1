//! What was spent, in SQL.

use plexus_core::SessionId;
use rusqlite::{Connection, Row, params};

use super::codes::{MAX_AMOUNT, spend_columns};
use super::sessions;
use super::sql::{Columns, Sql};
use super::tx::Tx;
use crate::contract::{Outcome, Reservation, Spend, SpendTotals, StoreError};

fn read(row: &Row<'_>) -> rusqlite::Result<Spend> {
    Ok(Spend {
        cost_micros: row.count(0)?,
        turns: row.count(1)?,
        input_tokens: row.count(2)?,
        output_tokens: row.count(3)?,
        wall_ms: row.count(4)?,
    })
}

pub(super) fn totals(conn: &Connection, session: SessionId) -> Result<SpendTotals, StoreError> {
    let row = sessions::row_of(conn, session)?;
    let own = conn.one(
        "SELECT cost_micros, turns, input_tokens, output_tokens, wall_ms FROM spend WHERE session = ?1",
        [row],
        read,
    )?;
    // SQLite's total() is a double; sum() of integers is exact and fails on overflow, which saturating additions keep away.
    let sum = |table: &str| {
        let sql = format!(
            "WITH RECURSIVE part (id) AS (SELECT ?1 UNION ALL SELECT s.id FROM sessions s JOIN part p ON s.parent = p.id)
             SELECT coalesce(sum(cost_micros), 0), coalesce(sum(turns), 0), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
                    coalesce(sum(wall_ms), 0) FROM {table} WHERE session IN (SELECT id FROM part)"
        );
        conn.one(&sql, [row], read).map(Option::unwrap_or_default)
    };
    let largest = conn.one(
        "WITH RECURSIVE part (id) AS (SELECT ?1 UNION ALL SELECT s.id FROM sessions s JOIN part p ON s.parent = p.id)
         SELECT coalesce(max(largest_cost_micros), 0), coalesce(max(largest_turns), 0) FROM spend WHERE session IN (SELECT id FROM part)",
        [row],
        |row| Ok(Spend { cost_micros: row.count(0)?, turns: row.count(1)?, ..Spend::default() }),
    )?;
    Ok(SpendTotals {
        own: own.unwrap_or_default(),
        subtree: sum("spend")?,
        reserved: sum("reservations")?,
        largest: largest.unwrap_or_default(),
        descendants: sessions::descendants(conn, session)?.len() as u64,
    })
}

pub(super) fn add(
    tx: &mut Tx<'_>,
    session: SessionId,
    amount: Spend,
) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, session)?;
    let [cost, turns, input, output, wall] = spend_columns(amount);
    tx.conn.run(
        "INSERT INTO spend (session, cost_micros, turns, input_tokens, output_tokens, wall_ms, largest_cost_micros, largest_turns)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?2, ?3) ON CONFLICT (session) DO UPDATE SET
             cost_micros = min(cost_micros + ?2, ?7), turns = min(turns + ?3, ?7), input_tokens = min(input_tokens + ?4, ?7),
             output_tokens = min(output_tokens + ?5, ?7), wall_ms = min(wall_ms + ?6, ?7),
             largest_cost_micros = max(largest_cost_micros, ?2), largest_turns = max(largest_turns, ?3)",
        [row, cost, turns, input, output, wall, MAX_AMOUNT],
    )?;
    Ok(Outcome::Done)
}

/// Sets an amount aside for a chat that starts, if every limit has room.
pub(super) fn reserve(
    tx: &mut Tx<'_>,
    session_row: i64,
    chat: u32,
    reservation: &Reservation,
) -> Result<(), StoreError> {
    for limit in &reservation.within {
        limit.check(&totals(tx.conn, limit.holder)?)?;
    }
    let [cost, turns, input, output, wall] = spend_columns(reservation.amount);
    tx.conn.run(
        "INSERT INTO reservations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![session_row, chat, cost, turns, input, output, wall],
    )?;
    Ok(())
}

/// Ends what a chat had set aside, if it had.
pub(super) fn release(tx: &Tx<'_>, session_row: i64, chat: u32) -> Result<(), StoreError> {
    tx.conn.run(
        "DELETE FROM reservations WHERE session = ?1 AND chat = ?2",
        params![session_row, chat],
    )?;
    Ok(())
}

/// Adds what a session that goes has spent to what its parent has, so that a budget above forgets nothing.
pub(super) fn bequeath(conn: &Connection, row: i64) -> Result<(), StoreError> {
    conn.run(
        "INSERT INTO spend (session, cost_micros, turns, input_tokens, output_tokens, wall_ms, largest_cost_micros, largest_turns)
         SELECT s.parent, x.cost_micros, x.turns, x.input_tokens, x.output_tokens, x.wall_ms, x.largest_cost_micros, x.largest_turns
         FROM spend x JOIN sessions s ON s.id = x.session WHERE x.session = ?1 AND s.parent IS NOT NULL
         ON CONFLICT (session) DO UPDATE SET
             cost_micros = min(cost_micros + excluded.cost_micros, ?2), turns = min(turns + excluded.turns, ?2),
             input_tokens = min(input_tokens + excluded.input_tokens, ?2),
             output_tokens = min(output_tokens + excluded.output_tokens, ?2), wall_ms = min(wall_ms + excluded.wall_ms, ?2),
             largest_cost_micros = max(largest_cost_micros, excluded.largest_cost_micros),
             largest_turns = max(largest_turns, excluded.largest_turns)",
        [row, MAX_AMOUNT],
    )?;
    Ok(())
}

//! What was spent, in SQL.

use plexus_core::SessionId;
use tokio_postgres::Row;

use super::codes::{MAX_AMOUNT, spend_columns};
use super::sessions;
use super::sql::{Columns, Conn, params};
use super::tx::Tx;
use crate::contract::{Outcome, Reservation, Spend, SpendTotals, StoreError};

fn read(row: &Row) -> Result<Spend, StoreError> {
    Ok(Spend {
        cost_micros: row.count(0)?,
        turns: row.count(1)?,
        input_tokens: row.count(2)?,
        output_tokens: row.count(3)?,
        wall_ms: row.count(4)?,
    })
}

pub(super) async fn totals(conn: &Conn, session: SessionId) -> Result<SpendTotals, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    let own = conn
        .one(
            "SELECT cost_micros, turns, input_tokens, output_tokens, wall_ms FROM spend WHERE session = $1",
            params![row],
            read,
        )
        .await?;
    let largest = conn.one(
        "WITH RECURSIVE part (id) AS (SELECT $1::int8 UNION ALL SELECT s.id FROM sessions s JOIN part p ON s.parent = p.id)
         SELECT coalesce(max(largest_cost_micros), 0), coalesce(max(largest_turns), 0) FROM spend WHERE session IN (SELECT id FROM part)",
        params![row],
        |row| Ok(Spend { cost_micros: row.count(0)?, turns: row.count(1)?, ..Spend::default() }),
    ).await?;
    Ok(SpendTotals {
        own: own.unwrap_or_default(),
        subtree: sum(conn, "spend", row).await?,
        reserved: sum(conn, "reservations", row).await?,
        largest: largest.unwrap_or_default(),
        descendants: sessions::descendants(conn, session).await?.len() as u64,
    })
}

/// Adds up one of the two tables over a session and everything below it.
async fn sum(conn: &Conn, table: &str, row: i64) -> Result<Spend, StoreError> {
    // The sum of integers is a number of any length; amounts are bounded so that it fits.
    let sql = format!(
        "WITH RECURSIVE part (id) AS (SELECT $1::int8 UNION ALL SELECT s.id FROM sessions s JOIN part p ON s.parent = p.id)
         SELECT coalesce(sum(cost_micros), 0)::int8, coalesce(sum(turns), 0)::int8, coalesce(sum(input_tokens), 0)::int8,
                coalesce(sum(output_tokens), 0)::int8, coalesce(sum(wall_ms), 0)::int8 FROM {table} WHERE session IN (SELECT id FROM part)"
    );
    conn.one(&sql, params![row], read).await.map(Option::unwrap_or_default)
}

pub(super) async fn add(
    tx: &mut Tx<'_>,
    session: SessionId,
    amount: Spend,
) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, session).await?;
    let [cost, turns, input, output, wall] = spend_columns(amount);
    tx.conn.run(
        "INSERT INTO spend (session, cost_micros, turns, input_tokens, output_tokens, wall_ms, largest_cost_micros, largest_turns)
         VALUES ($1, $2, $3, $4, $5, $6, $2, $3) ON CONFLICT (session) DO UPDATE SET
             cost_micros = least(spend.cost_micros + $2, $7), turns = least(spend.turns + $3, $7),
             input_tokens = least(spend.input_tokens + $4, $7), output_tokens = least(spend.output_tokens + $5, $7),
             wall_ms = least(spend.wall_ms + $6, $7), largest_cost_micros = greatest(spend.largest_cost_micros, $2),
             largest_turns = greatest(spend.largest_turns, $3)",
        params![row, cost, turns, input, output, wall, MAX_AMOUNT],
    ).await?;
    Ok(Outcome::Done)
}

/// Sets an amount aside for a chat that starts, if every limit has room.
pub(super) async fn reserve(
    tx: &mut Tx<'_>,
    session_row: i64,
    chat: u32,
    reservation: &Reservation,
) -> Result<(), StoreError> {
    for limit in &reservation.within {
        limit.check(&totals(tx.conn, limit.holder).await?)?;
    }
    let [cost, turns, input, output, wall] = spend_columns(reservation.amount);
    tx.conn
        .run(
            "INSERT INTO reservations VALUES ($1, $2, $3, $4, $5, $6, $7)",
            params![session_row, chat, cost, turns, input, output, wall],
        )
        .await?;
    Ok(())
}

/// Ends what a chat had set aside, if it had.
pub(super) async fn release(tx: &Tx<'_>, session_row: i64, chat: u32) -> Result<(), StoreError> {
    tx.conn
        .run(
            "DELETE FROM reservations WHERE session = $1 AND chat = $2",
            params![session_row, chat],
        )
        .await?;
    Ok(())
}

/// Adds what a session that goes has spent to what its parent has, so that a budget above forgets nothing.
pub(super) async fn bequeath(conn: &Conn, row: i64) -> Result<(), StoreError> {
    conn.run(
        "INSERT INTO spend (session, cost_micros, turns, input_tokens, output_tokens, wall_ms, largest_cost_micros, largest_turns)
         SELECT s.parent, x.cost_micros, x.turns, x.input_tokens, x.output_tokens, x.wall_ms, x.largest_cost_micros, x.largest_turns
         FROM spend x JOIN sessions s ON s.id = x.session WHERE x.session = $1 AND s.parent IS NOT NULL
         ON CONFLICT (session) DO UPDATE SET
             cost_micros = least(spend.cost_micros + excluded.cost_micros, $2), turns = least(spend.turns + excluded.turns, $2),
             input_tokens = least(spend.input_tokens + excluded.input_tokens, $2),
             output_tokens = least(spend.output_tokens + excluded.output_tokens, $2),
             wall_ms = least(spend.wall_ms + excluded.wall_ms, $2),
             largest_cost_micros = greatest(spend.largest_cost_micros, excluded.largest_cost_micros),
             largest_turns = greatest(spend.largest_turns, excluded.largest_turns)",
        params![row, MAX_AMOUNT],
    )
    .await?;
    Ok(())
}

//! Spending and reservations in SQL.

use std::collections::HashMap;

use plexus_core::SessionId;

use super::codes::{MAX_AMOUNT, spend_columns};
use super::sessions;
use super::sql::{Row, Sql, params};
use super::tx::Tx;
use crate::contract::{
    JsonText, Outcome, Reservation, Spend, SpendTotals, StoreError, SubtreeSpend,
};

/// Selects a session and all its descendants.
macro_rules! part {
    () => {
        "WITH RECURSIVE part (id) AS (
             SELECT ?1 UNION ALL SELECT s.id FROM sessions s JOIN part p ON s.parent = p.id) "
    };
}

fn read(row: &Row<'_>) -> Result<Spend, StoreError> {
    Ok(Spend {
        cost_micros: row.get(0)?,
        turns: row.get(1)?,
        input_tokens: row.get(2)?,
        output_tokens: row.get(3)?,
        wall_ms: row.get(4)?,
    })
}

pub(crate) async fn totals(conn: &impl Sql, session: SessionId) -> Result<SpendTotals, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    let own = conn
        .one(
            "SELECT cost_micros, turns, input_tokens, output_tokens, wall_ms FROM spend
             WHERE session = ?1",
            params![row],
            read,
        )
        .await?;
    let largest = conn
        .one(
            concat!(
                part!(),
                "SELECT coalesce(max(largest_cost_micros), 0), coalesce(max(largest_turns), 0)
                 FROM spend WHERE session IN (SELECT id FROM part)"
            ),
            params![row],
            |row| Ok(Spend { cost_micros: row.get(0)?, turns: row.get(1)?, ..Spend::default() }),
        )
        .await?;
    let reserved_own = conn
        .one(
            "SELECT cost_micros, turns, input_tokens, output_tokens, wall_ms FROM reservations
             WHERE session = ?1 ORDER BY chat DESC LIMIT 1",
            params![row],
            read,
        )
        .await?;
    Ok(SpendTotals {
        own: own.unwrap_or_default(),
        subtree: sum(conn, "spend", row).await?,
        reserved: sum(conn, "reservations", row).await?,
        reserved_own: reserved_own.unwrap_or_default(),
        largest: largest.unwrap_or_default(),
        descendants: sessions::descendants(conn, session).await?.len() as u64,
    })
}

/// Adds up one of the two tables over a session and all its descendants.
async fn sum(conn: &impl Sql, table: &str, row: i64) -> Result<Spend, StoreError> {
    let sql = format!(
        "{} SELECT {} FROM {table} WHERE session IN (SELECT id FROM part)",
        part!(),
        sums()
    );
    conn.one(&sql, params![row], read).await.map(Option::unwrap_or_default)
}

/// The sum of each column of an amount.
fn sums() -> String {
    // A sum of integers may have any length in SQL; amounts are bounded so that it fits.
    ["cost_micros", "turns", "input_tokens", "output_tokens", "wall_ms"]
        .map(|it| format!("CAST(coalesce(sum({it}), 0) AS BIGINT)"))
        .join(", ")
}

/// Adds up both tables over several sessions and all descendants of each, in two statements however
/// many sessions there are.
pub(crate) async fn subtrees<C: Sql>(
    conn: &C,
    sessions: &[SessionId],
) -> Result<HashMap<SessionId, SubtreeSpend>, StoreError> {
    let ids: Vec<String> = sessions.iter().map(|id| id.as_uuid().simple().to_string()).collect();
    let ids = JsonText::of(&ids)?;
    let mut found: HashMap<SessionId, SubtreeSpend> = HashMap::new();
    for (table, is_spent) in [("spend", true), ("reservations", false)] {
        let sql = format!(
            "WITH RECURSIVE part (root, id) AS (
                 SELECT s.uuid, s.id FROM sessions s WHERE s.uuid IN ({})
                 UNION ALL SELECT p.root, s.id FROM sessions s JOIN part p ON s.parent = p.id)
             SELECT {}, p.root FROM part p JOIN {table} x ON x.session = p.id GROUP BY p.root",
            C::IDS,
            sums()
        );
        for (id, amount) in
            conn.all(&sql, params![ids], |row| Ok((row.get(5)?, read(row)?))).await?
        {
            let of: &mut SubtreeSpend = found.entry(id).or_default();
            if is_spent {
                of.spent = amount;
            } else {
                of.reserved = amount;
            }
        }
    }
    Ok(found)
}

pub(super) async fn add(
    tx: &mut Tx<'_, impl Sql>,
    session: SessionId,
    amount: Spend,
) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, session).await?;
    let [cost, turns, input, output, wall] = spend_columns(amount);
    let sql = format!(
        "INSERT INTO spend ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?2, ?3) {}",
        or_add_up()
    );
    tx.conn.run(&sql, params![row, cost, turns, input, output, wall]).await?;
    Ok(Outcome::Done)
}

const COLUMNS: &str = "session, cost_micros, turns, input_tokens, output_tokens, wall_ms,
     largest_cost_micros, largest_turns";

/// Returns the end of an `INSERT` that adds to the spending of a session.
fn or_add_up() -> String {
    let sums = ["cost_micros", "turns", "input_tokens", "output_tokens", "wall_ms"].map(|it| {
        let sum = format!("spend.{it} + excluded.{it}");
        format!("{it} = CASE WHEN {sum} < {MAX_AMOUNT} THEN {sum} ELSE {MAX_AMOUNT} END")
    });
    let largest = ["largest_cost_micros", "largest_turns"].map(|it| {
        let (old, new) = (format!("spend.{it}"), format!("excluded.{it}"));
        format!("{it} = CASE WHEN {old} < {new} THEN {new} ELSE {old} END")
    });
    format!("ON CONFLICT (session) DO UPDATE SET {}, {}", sums.join(", "), largest.join(", "))
}

/// Reserves an amount for a chat that starts, if every limit has room.
pub(super) async fn reserve(
    tx: &mut Tx<'_, impl Sql>,
    session_row: i64,
    chat: u32,
    reservation: &Reservation,
) -> Result<(), StoreError> {
    for limit in &reservation.within {
        let mut held = totals(tx.conn, limit.holder).await?;
        for id in &limit.above {
            held.reserved -= totals(tx.conn, *id).await?.reserved_own;
        }
        limit.check(&held)?;
    }
    let [cost, turns, input, output, wall] = spend_columns(reservation.amount);
    tx.conn
        .run(
            "INSERT INTO reservations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![session_row, chat, cost, turns, input, output, wall],
        )
        .await?;
    Ok(())
}

/// Ends the reservation of a chat, if it had one.
pub(super) async fn release(
    tx: &Tx<'_, impl Sql>,
    session_row: i64,
    chat: u32,
) -> Result<(), StoreError> {
    tx.conn
        .run(
            "DELETE FROM reservations WHERE session = ?1 AND chat = ?2",
            params![session_row, chat],
        )
        .await?;
    Ok(())
}

/// Adds the spending of a session that is deleted to its parent's, so that no budget above it gets
/// the amount back.
pub(super) async fn bequeath(conn: &impl Sql, row: i64) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO spend ({COLUMNS})
         SELECT s.parent, x.cost_micros, x.turns, x.input_tokens, x.output_tokens, x.wall_ms,
             x.largest_cost_micros, x.largest_turns FROM spend x
         JOIN sessions s ON s.id = x.session WHERE x.session = ?1 AND s.parent IS NOT NULL {}",
        or_add_up()
    );
    conn.run(&sql, params![row]).await?;
    Ok(())
}

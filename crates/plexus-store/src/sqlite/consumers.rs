//! Readers' positions in SQL. They wake nobody: a reader that moves is no news to the others.

use plexus_core::SessionId;
use rusqlite::{Connection, Row, params};

use super::sql::{Columns, Sql};
use super::tx::Tx;
use super::{chats, events, sessions};
use crate::contract::{
    Consumer, Cursor, Outcome, SetCursor, SetReadPosition, StoreError, Thing, refusal,
};

fn read(session: SessionId) -> impl FnMut(&Row<'_>) -> rusqlite::Result<Consumer> {
    move |row| {
        Ok(Consumer {
            name: row.get(0)?,
            cursor: Cursor { session, chat: row.get(1)?, next: row.get(2)? },
            updated_at: row.time(3)?,
        })
    }
}

pub(super) fn get(
    conn: &Connection,
    session: SessionId,
    name: &str,
) -> Result<Option<Consumer>, StoreError> {
    let row = sessions::row_of(conn, session)?;
    conn.one(
        "SELECT name, chat, next, updated_at FROM consumers WHERE session = ?1 AND name = ?2",
        params![row, name],
        read(session),
    )
}

pub(super) fn list(conn: &Connection, session: SessionId) -> Result<Vec<Consumer>, StoreError> {
    let row = sessions::row_of(conn, session)?;
    conn.all(
        "SELECT name, chat, next, updated_at FROM consumers WHERE session = ?1 ORDER BY name",
        [row],
        read(session),
    )
}

/// Refuses a position that no event has reached: whoever stood there would miss what comes before it.
fn require_reached(conn: &Connection, cursor: Cursor) -> Result<(), StoreError> {
    if cursor.chat == 0 && cursor.next == 0 {
        return Ok(());
    }
    let reached = match chats::row_of(conn, cursor.session, cursor.chat) {
        Ok(chat) => cursor.next <= events::total(conn, chat.id)?,
        Err(StoreError::NotFound { what: Thing::Chat, .. }) => false,
        Err(error) => return Err(error),
    };
    if reached { Ok(()) } else { Err(refusal::cursor_ahead()) }
}

pub(super) fn set(tx: &mut Tx<'_>, set: &SetCursor) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, set.cursor.session)?;
    require_reached(tx.conn, set.cursor)?;
    if get(tx.conn, set.cursor.session, &set.consumer)?.is_none() {
        let count =
            tx.conn.one("SELECT count(*) FROM consumers WHERE session = ?1", [row], |row| {
                row.count(0)
            })?;
        refusal::one_more_consumer(count.unwrap_or(0))?;
    }
    tx.conn.run(
        "INSERT INTO consumers VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (session, name) DO UPDATE SET chat = ?3, next = ?4, updated_at = ?5",
        params![row, set.consumer, set.cursor.chat, set.cursor.next, tx.now.0],
    )?;
    Ok(Outcome::Done)
}

pub(super) fn delete(
    tx: &mut Tx<'_>,
    session: SessionId,
    name: &str,
) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, session)?;
    match tx
        .conn
        .run("DELETE FROM consumers WHERE session = ?1 AND name = ?2", params![row, name])?
    {
        0 => Err(refusal::no_consumer(session, name)),
        _ => Ok(Outcome::Done),
    }
}

pub(super) fn set_read_position(
    tx: &mut Tx<'_>,
    set: SetReadPosition,
) -> Result<Outcome, StoreError> {
    let chat = chats::row_of(tx.conn, set.session, set.chat)?;
    refusal::read_position(&set, events::total(tx.conn, chat.id)?)?;
    tx.conn.run(
        "UPDATE chat_streams SET read_position = ?2 WHERE id = ?1 AND read_position < ?2",
        params![chat.id, set.next],
    )?;
    Ok(Outcome::Done)
}

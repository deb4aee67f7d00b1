//! Readers' positions in SQL. They wake nobody, because a reader's move does not concern the
//! others.

use plexus_core::SessionId;

use super::sql::{Row, Sql, params};
use super::tx::Tx;
use super::{chats, events, sessions};
use crate::contract::{
    Consumer, Cursor, Outcome, SetCursor, SetReadPosition, StoreError, Thing, refusal,
};

fn read(session: SessionId) -> impl FnMut(&Row<'_>) -> Result<Consumer, StoreError> {
    move |row| {
        Ok(Consumer {
            name: row.get(0)?,
            cursor: Cursor { session, chat: row.get(1)?, next: row.get(2)? },
            updated_at: row.get(3)?,
        })
    }
}

pub(crate) async fn get(
    conn: &impl Sql,
    session: SessionId,
    name: &str,
) -> Result<Option<Consumer>, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    conn.one(
        "SELECT name, chat, next, updated_at FROM consumers WHERE session = ?1 AND name = ?2",
        params![row, name],
        read(session),
    )
    .await
}

pub(crate) async fn list(conn: &impl Sql, session: SessionId) -> Result<Vec<Consumer>, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    conn.all(
        "SELECT name, chat, next, updated_at FROM consumers WHERE session = ?1 ORDER BY name",
        params![row],
        read(session),
    )
    .await
}

/// Refuses a position that no event has reached: a reader there would miss the events before it.
async fn require_reached(conn: &impl Sql, cursor: Cursor) -> Result<(), StoreError> {
    if cursor.chat == 0 && cursor.next == 0 {
        return Ok(());
    }
    let reached = match chats::row_of(conn, cursor.session, cursor.chat).await {
        Ok(chat) => cursor.next <= events::total(conn, chat.id).await?,
        Err(StoreError::NotFound { what: Thing::Chat, .. }) => false,
        Err(error) => return Err(error),
    };
    if reached { Ok(()) } else { Err(refusal::cursor_ahead()) }
}

pub(super) async fn set(tx: &mut Tx<'_, impl Sql>, set: &SetCursor) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, set.cursor.session).await?;
    require_reached(tx.conn, set.cursor).await?;
    if get(tx.conn, set.cursor.session, &set.consumer).await?.is_none() {
        let count = tx
            .conn
            .one("SELECT count(*) FROM consumers WHERE session = ?1", params![row], |row| {
                row.get(0)
            })
            .await?;
        refusal::one_more_consumer(count.unwrap_or(0))?;
    }
    tx.conn
        .run(
            "INSERT INTO consumers VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (session, name)
             DO UPDATE SET chat = ?3, next = ?4, updated_at = ?5",
            params![row, set.consumer, set.cursor.chat, set.cursor.next, tx.now],
        )
        .await?;
    Ok(Outcome::Done)
}

pub(super) async fn delete(
    tx: &mut Tx<'_, impl Sql>,
    session: SessionId,
    name: &str,
) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, session).await?;
    match tx
        .conn
        .run("DELETE FROM consumers WHERE session = ?1 AND name = ?2", params![row, name])
        .await?
    {
        0 => Err(refusal::no_consumer(session, name)),
        _ => Ok(Outcome::Done),
    }
}

pub(super) async fn set_read_position(
    tx: &mut Tx<'_, impl Sql>,
    set: SetReadPosition,
) -> Result<Outcome, StoreError> {
    let chat = chats::row_of(tx.conn, set.session, set.chat).await?;
    refusal::read_position(&set, events::total(tx.conn, chat.id).await?)?;
    tx.conn
        .run(
            "UPDATE chat_streams SET read_position = ?2 WHERE id = ?1 AND read_position < ?2",
            params![chat.id, set.next],
        )
        .await?;
    Ok(Outcome::Done)
}

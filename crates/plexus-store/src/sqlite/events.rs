//! Events in SQL: appended in order, read by seq, by cursor and by commit.

use plexus_core::{EventId, SessionId};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::codes::chat_status;
use super::keys::EventKey;
use super::sql::{Columns, Sql, blob, int, store_error};
use super::tx::Tx;
use super::{chats, sessions};
use crate::contract::{
    AppendEvents, ChatStatus, Cursor, Event, EventPage, FeedEvent, FeedPage, NewEvent, Outcome,
    ReadLimit, StoreError, Thing, refusal,
};

pub(super) fn append(tx: &mut Tx<'_>, append: &AppendEvents) -> Result<Outcome, StoreError> {
    let chat = chats::require_open(tx, append.session, append.chat)?;
    let first_seq = append_rows(tx, chat.id, &append.events)?;
    tx.touch(chat.session, append.session);
    Ok(Outcome::Events { first_seq, count: u32::try_from(append.events.len()).unwrap_or(u32::MAX) })
}

/// Appends events to a chat that the caller knows to be open, and returns the first seq.
pub(super) fn append_rows(
    tx: &mut Tx<'_>,
    chat: i64,
    events: &[NewEvent],
) -> Result<u32, StoreError> {
    let first = total(tx.conn, chat)?;
    let mut insert = tx
        .conn
        .prepare_cached("INSERT INTO chat_events (id, uuid, created_at, type, body) VALUES (?1, ?2, ?3, ?4, ?5)")
        .map_err(store_error)?;
    let mut seq = first;
    for event in events {
        if seq == u32::MAX {
            return Err(refusal::chat_full());
        }
        insert
            .execute(params![
                EventKey::new(chat, seq).0,
                blob(event.id.as_uuid()),
                event.timestamp.0,
                event.event_type,
                event.body.as_str(),
            ])
            .map_err(store_error)?;
        seq += 1;
    }
    let count = seq - first;
    tx.conn.run(
        "INSERT INTO event_batches VALUES (?1, ?2, ?3, ?4)",
        params![int(tx.commit), chat, first, count],
    )?;
    tx.events += u64::from(count);
    Ok(first)
}

/// Returns how many events a chat has, which is the next seq. Read from the end of its rows: there is no counter that could disagree.
pub(super) fn total(conn: &Connection, chat: i64) -> Result<u32, StoreError> {
    let newest = conn.one(
        "SELECT max(id) FROM chat_events WHERE id >= ?1 AND id < ?2",
        [EventKey::new(chat, 0).0, EventKey::end(chat)],
        |row| row.get::<_, Option<i64>>(0),
    )?;
    Ok(newest.flatten().map_or(0, |key| EventKey(key).seq() + 1))
}

/// Events as they are collected into a page.
struct Collector {
    events: Vec<Event>,
    bytes: usize,
    limit: ReadLimit,
}

impl Collector {
    fn new(limit: ReadLimit) -> Self {
        Self { events: Vec::new(), bytes: 0, limit: limit.bounded() }
    }

    fn is_full(&self) -> bool {
        self.events.len() >= self.limit.events || self.bytes >= self.limit.bytes
    }

    /// Reads events of one chat from `from` on until the page is full; returns the next seq to read.
    fn read(
        &mut self,
        conn: &Connection,
        chat: i64,
        session: SessionId,
        number: u32,
        from: u32,
    ) -> Result<u32, StoreError> {
        let mut statement = conn
            .prepare_cached("SELECT id, uuid, created_at, type, body FROM chat_events WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3")
            .map_err(store_error)?;
        let room = i64::try_from(self.limit.events - self.events.len()).unwrap_or(i64::MAX);
        let mut rows = statement
            .query(params![EventKey::new(chat, from).0, EventKey::end(chat), room])
            .map_err(store_error)?;
        let mut next = from;
        while let Some(row) = rows.next().map_err(store_error)? {
            let event = event_of(row, session, number).map_err(store_error)?;
            // The first event of a page comes whatever its size: a reader must be able to go on.
            if !self.events.is_empty() && self.bytes + event.body.len() > self.limit.bytes {
                self.bytes = self.limit.bytes;
                break;
            }
            self.bytes += event.body.len();
            next = event.seq + 1;
            self.events.push(event);
        }
        Ok(next)
    }
}

fn event_of(row: &rusqlite::Row<'_>, session: SessionId, chat: u32) -> rusqlite::Result<Event> {
    Ok(Event {
        session,
        chat,
        seq: EventKey(row.get(0)?).seq(),
        id: row.event(1)?,
        timestamp: row.time(2)?,
        event_type: row.get(3)?,
        body: row.json(4)?,
    })
}

pub(super) fn read(
    conn: &Connection,
    session: SessionId,
    chat: u32,
    from: u32,
    limit: ReadLimit,
) -> Result<EventPage, StoreError> {
    let row = chats::row_of(conn, session, chat)?;
    let mut page = Collector::new(limit);
    let next = page.read(conn, row.id, session, chat, from)?;
    let total_events = total(conn, row.id)?;
    Ok(EventPage {
        events: page.events,
        next: Cursor { session, chat, next },
        has_more: next < total_events,
        status: Some(row.status),
        total_events,
        read_position: row.read_position,
    })
}

pub(super) fn read_from(
    conn: &Connection,
    cursor: Cursor,
    limit: ReadLimit,
) -> Result<EventPage, StoreError> {
    let session_row = sessions::row_of(conn, cursor.session)?;
    let chat_at = |number: u32| -> Result<Option<(i64, ChatStatus, u32)>, StoreError> {
        conn.one(
            "SELECT id, status, read_position FROM chat_streams WHERE session = ?1 AND number = ?2",
            params![session_row, number],
            |row| Ok((row.get(0)?, chat_status(1, row.get(1)?)?, row.get(2)?)),
        )
    };
    let mut page = Collector::new(limit);
    let mut at = cursor;
    let Some(mut chat) = chat_at(at.chat)? else {
        return Ok(EventPage::before_any_chat(at));
    };
    loop {
        at.next = page.read(conn, chat.0, at.session, at.chat, at.next)?;
        let total_events = total(conn, chat.0)?;
        let at_end = at.next >= total_events;
        // The next chat exists only when this one has ended, so nothing can still come before it.
        let following = if at_end { chat_at(at.chat + 1)? } else { None };
        match following {
            Some(next) if !page.is_full() => {
                at = Cursor { chat: at.chat + 1, next: 0, ..at };
                chat = next;
            }
            _ => {
                let has_more = !at_end || following.is_some();
                let (_, status, read_position) = chat;
                return Ok(EventPage {
                    events: page.events,
                    next: at,
                    has_more,
                    status: Some(status),
                    total_events,
                    read_position,
                });
            }
        }
    }
}

pub(super) fn read_commits(
    conn: &Connection,
    after: u64,
    limit: ReadLimit,
) -> Result<FeedPage, StoreError> {
    let limit = limit.bounded();
    let newest = sessions::newest_commit(conn)?;
    let mut statement = conn
        .prepare_cached(
            "SELECT b.commit_no, b.chat, b.first_seq, b.count, s.uuid, c.number FROM event_batches b
             JOIN chat_streams c ON c.id = b.chat JOIN sessions s ON s.id = c.session
             WHERE b.commit_no > ?1 AND s.deleted_at IS NULL ORDER BY b.commit_no, b.chat, b.first_seq",
        )
        .map_err(store_error)?;
    let mut rows = statement.query([int(after)]).map_err(store_error)?;
    let (mut events, mut bytes, mut last) = (Vec::new(), 0, after);
    while let Some(row) = rows.next().map_err(store_error)? {
        let commit = row.count(0).map_err(store_error)?;
        let count: u32 = row.get(3).map_err(store_error)?;
        // A page ends only between two commits, since `after` cannot name a place inside one.
        let full = events.len() + count as usize > limit.events || bytes >= limit.bytes;
        if commit != last && full && !events.is_empty() {
            return Ok(FeedPage { events, after: last, has_more: true });
        }
        last = commit;
        let (chat, first): (i64, u32) =
            (row.get(1).map_err(store_error)?, row.get(2).map_err(store_error)?);
        let (session, number) =
            (row.session(4).map_err(store_error)?, row.get(5).map_err(store_error)?);
        let batch = conn.all(
            "SELECT id, uuid, created_at, type, body FROM chat_events WHERE id >= ?1 AND id < ?2 ORDER BY id",
            [EventKey::new(chat, first).0, EventKey::new(chat, first).0 + i64::from(count)],
            |row| event_of(row, session, number),
        )?;
        bytes += batch.iter().map(|event| event.body.len()).sum::<usize>();
        events.extend(batch.into_iter().map(|event| FeedEvent { commit, event }));
    }
    Ok(FeedPage { events, after: newest.max(after), has_more: false })
}

/// Where an event is: its key, and its session and chat as others know them.
pub(super) struct Found {
    pub(super) key: EventKey,
    pub(super) session: SessionId,
    pub(super) number: u32,
}

/// Finds an event by its id, which is also its node's.
pub(super) fn find(conn: &Connection, id: &Uuid) -> Result<Option<Found>, StoreError> {
    conn.one(
        "SELECT e.id, s.uuid, c.number FROM chat_events e JOIN chat_streams c ON c.id = e.id >> 32 JOIN sessions s ON s.id = c.session
         WHERE e.uuid = ?1",
        [blob(id)],
        |row| Ok(Found { key: EventKey(row.get(0)?), session: row.session(1)?, number: row.get(2)? }),
    )
}

pub(super) fn get(conn: &Connection, id: EventId) -> Result<Event, StoreError> {
    let missing = || StoreError::not_found(Thing::Event, id);
    let found = find(conn, id.as_uuid())?.ok_or_else(missing)?;
    conn.one(
        "SELECT id, uuid, created_at, type, body FROM chat_events WHERE id = ?1",
        [found.key.0],
        |row| event_of(row, found.session, found.number),
    )?
    .ok_or_else(missing)
}

pub(super) fn resolve_cursor(
    conn: &Connection,
    session: SessionId,
    text: &str,
) -> Result<Cursor, StoreError> {
    sessions::row_of(conn, session)?;
    let Ok(node) = text.parse::<plexus_core::NodeId>() else {
        return text.parse::<Cursor>()?.check_session(session);
    };
    let found =
        find(conn, node.as_uuid())?.ok_or_else(|| StoreError::not_found(Thing::Event, node))?;
    Cursor { session: found.session, chat: found.number, next: found.key.seq() + 1 }
        .check_session(session)
}

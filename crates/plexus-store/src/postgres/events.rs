//! Events in SQL: appended in order, read by seq, by cursor and by commit.

use plexus_core::{EventId, SessionId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::codes::chat_status;
use super::sql::{Columns, Conn, blob, int, params};
use super::tx::Tx;
use super::{chats, sessions};
use crate::contract::{
    AppendEvents, ChatStatus, Cursor, Event, EventPage, FeedEvent, FeedPage, NewEvent, Outcome,
    ReadLimit, StoreError, Thing, refusal,
};
use crate::sqlite::keys::EventKey;

pub(super) async fn append(tx: &mut Tx<'_>, append: &AppendEvents) -> Result<Outcome, StoreError> {
    let chat = chats::require_open(tx, append.session, append.chat).await?;
    let first_seq = append_rows(tx, chat.id, &append.events).await?;
    tx.touch(chat.session, append.session);
    Ok(Outcome::Events { first_seq, count: u32::try_from(append.events.len()).unwrap_or(u32::MAX) })
}

/// Appends events to a chat that the caller knows to be open, and returns the first seq.
pub(super) async fn append_rows(
    tx: &mut Tx<'_>,
    chat: i64,
    events: &[NewEvent],
) -> Result<u32, StoreError> {
    let first = total(tx.conn, chat).await?;
    let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
    if first.checked_add(count).is_none_or(|next| next == u32::MAX) {
        return Err(refusal::chat_full());
    }
    let keys: Vec<i64> = (first..first + count).map(|seq| EventKey::new(chat, seq).0).collect();
    let ids: Vec<Uuid> = events.iter().map(|event| *event.id.as_uuid()).collect();
    let times: Vec<i64> = events.iter().map(|event| event.timestamp.0).collect();
    let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
    let bodies: Vec<&str> = events.iter().map(|event| event.body.as_str()).collect();
    tx.conn
        .run(
            "INSERT INTO chat_events (id, uuid, created_at, type, body)
             SELECT * FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::text[], $5::text[])",
            params![keys, ids, times, types, bodies],
        )
        .await?;
    tx.batches.push((chat, first, count));
    tx.events += u64::from(count);
    Ok(first)
}

/// Returns how many events a chat has, which is the next seq. Read from the end of its rows: there is no counter that could disagree.
pub(super) async fn total(conn: &Conn, chat: i64) -> Result<u32, StoreError> {
    let newest = conn
        .one(
            "SELECT max(id) FROM chat_events WHERE id >= $1 AND id < $2",
            params![EventKey::new(chat, 0).0, EventKey::end(chat)],
            |row| row.col::<Option<i64>>(0),
        )
        .await?;
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
    async fn read(
        &mut self,
        conn: &Conn,
        chat: i64,
        session: SessionId,
        number: u32,
        from: u32,
    ) -> Result<u32, StoreError> {
        let mut next = from;
        // In steps, so that a page of large events does not first bring a thousand of them here.
        loop {
            let room = (self.limit.events - self.events.len()).min(READ_STEP);
            if room == 0 || self.bytes >= self.limit.bytes {
                return Ok(next);
            }
            let found = conn
                .all(
                    "SELECT id, uuid, created_at, type, body FROM chat_events WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3",
                    params![EventKey::new(chat, next).0, EventKey::end(chat), int(room as u64)],
                    |row| event_of(row, session, number),
                )
                .await?;
            let ended = found.len() < room;
            for event in found {
                // The first event of a page comes whatever its size: a reader must be able to go on.
                if !self.events.is_empty() && self.bytes + event.body.len() > self.limit.bytes {
                    self.bytes = self.limit.bytes;
                    return Ok(next);
                }
                self.bytes += event.body.len();
                next = event.seq + 1;
                self.events.push(event);
            }
            if ended {
                return Ok(next);
            }
        }
    }
}

/// How many events one statement brings.
const READ_STEP: usize = 200;

fn event_of(row: &Row, session: SessionId, chat: u32) -> Result<Event, StoreError> {
    Ok(Event {
        session,
        chat,
        seq: EventKey(row.col(0)?).seq(),
        id: row.event(1)?,
        timestamp: row.time(2)?,
        event_type: row.col(3)?,
        body: row.json(4)?,
    })
}

pub(super) async fn read(
    conn: &Conn,
    session: SessionId,
    chat: u32,
    from: u32,
    limit: ReadLimit,
) -> Result<EventPage, StoreError> {
    let row = chats::row_of(conn, session, chat).await?;
    let mut page = Collector::new(limit);
    let next = page.read(conn, row.id, session, chat, from).await?;
    let total_events = total(conn, row.id).await?;
    Ok(EventPage {
        events: page.events,
        next: Cursor { session, chat, next },
        has_more: next < total_events,
        status: Some(row.status),
        total_events,
        read_position: row.read_position,
    })
}

async fn chat_at(
    conn: &Conn,
    session_row: i64,
    number: u32,
) -> Result<Option<(i64, ChatStatus, u32)>, StoreError> {
    conn.one(
        "SELECT id, status, read_position FROM chat_streams WHERE session = $1 AND number = $2",
        params![session_row, number],
        |row| Ok((row.col(0)?, chat_status(1, row.col(1)?)?, row.col(2)?)),
    )
    .await
}

pub(super) async fn read_from(
    conn: &Conn,
    cursor: Cursor,
    limit: ReadLimit,
) -> Result<EventPage, StoreError> {
    let session_row = sessions::row_of(conn, cursor.session).await?;
    let mut page = Collector::new(limit);
    let mut at = cursor;
    let Some(mut chat) = chat_at(conn, session_row, at.chat).await? else {
        return Ok(EventPage::before_any_chat(at));
    };
    loop {
        at.next = page.read(conn, chat.0, at.session, at.chat, at.next).await?;
        let total_events = total(conn, chat.0).await?;
        let at_end = at.next >= total_events;
        // The next chat exists only when this one has ended, so nothing can still come before it.
        let following = if at_end { chat_at(conn, session_row, at.chat + 1).await? } else { None };
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

/// Some events of one commit.
struct Batch {
    commit: u64,
    chat: i64,
    first: u32,
    count: u32,
    session: SessionId,
    number: u32,
}

/// Returns at most `limit` batches of the commits after `after` and up to `last`.
async fn batches(
    conn: &Conn,
    after: u64,
    last: u64,
    limit: usize,
) -> Result<Vec<Batch>, StoreError> {
    conn.all(
        "SELECT b.commit_no, b.chat, b.first_seq, b.count, s.uuid, c.number FROM event_batches b
         JOIN chat_streams c ON c.id = b.chat JOIN sessions s ON s.id = c.session
         WHERE b.commit_no > $1 AND b.commit_no <= $2 AND s.deleted_at IS NULL ORDER BY b.commit_no, b.chat, b.first_seq LIMIT $3",
        params![int(after), int(last), int(limit as u64)],
        |row| {
            Ok(Batch {
                commit: row.count(0)?,
                chat: row.col(1)?,
                first: row.col(2)?,
                count: row.col(3)?,
                session: row.session(4)?,
                number: row.col(5)?,
            })
        },
    )
    .await
}

pub(super) async fn read_commits(
    conn: &Conn,
    after: u64,
    limit: ReadLimit,
) -> Result<FeedPage, StoreError> {
    let limit = limit.bounded();
    let newest = sessions::newest_commit(conn).await?;
    let cap = limit.events + 1;
    let mut found = batches(conn, after, newest, cap).await?;
    let cut = found.len() == cap;
    if cut && let Some(last) = found.last().map(|batch| batch.commit) {
        // The last commit may be there in part; it comes whole or not at all.
        found.retain(|batch| batch.commit < last);
        if found.is_empty() {
            found = batches(conn, last - 1, last, usize::MAX).await?;
        }
    }
    let (mut events, mut bytes, mut last) = (Vec::new(), 0, after);
    for batch in found {
        // A page ends only between two commits, since `after` cannot name a place inside one.
        let full = events.len() + batch.count as usize > limit.events || bytes >= limit.bytes;
        if batch.commit != last && full && !events.is_empty() {
            return Ok(FeedPage { events, after: last, has_more: true });
        }
        last = batch.commit;
        let first = EventKey::new(batch.chat, batch.first).0;
        let read = conn
            .all(
                "SELECT id, uuid, created_at, type, body FROM chat_events WHERE id >= $1 AND id < $2 ORDER BY id",
                params![first, first + i64::from(batch.count)],
                |row| event_of(row, batch.session, batch.number),
            )
            .await?;
        bytes += read.iter().map(|event| event.body.len()).sum::<usize>();
        events.extend(read.into_iter().map(|event| FeedEvent { commit: batch.commit, event }));
    }
    if cut {
        return Ok(FeedPage { events, after: last, has_more: true });
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
pub(super) async fn find(conn: &Conn, id: &Uuid) -> Result<Option<Found>, StoreError> {
    conn.one(
        "SELECT e.id, s.uuid, c.number FROM chat_events e JOIN chat_streams c ON c.id = e.id >> 32 JOIN sessions s ON s.id = c.session
         WHERE e.uuid = $1",
        params![blob(id)],
        |row| Ok(Found { key: EventKey(row.col(0)?), session: row.session(1)?, number: row.col(2)? }),
    ).await
}

pub(super) async fn get(conn: &Conn, id: EventId) -> Result<Event, StoreError> {
    let missing = || StoreError::not_found(Thing::Event, id);
    let found = find(conn, id.as_uuid()).await?.ok_or_else(missing)?;
    conn.one(
        "SELECT id, uuid, created_at, type, body FROM chat_events WHERE id = $1",
        params![found.key.0],
        |row| event_of(row, found.session, found.number),
    )
    .await?
    .ok_or_else(missing)
}

pub(super) async fn resolve_cursor(
    conn: &Conn,
    session: SessionId,
    text: &str,
) -> Result<Cursor, StoreError> {
    sessions::row_of(conn, session).await?;
    let Ok(node) = text.parse::<plexus_core::NodeId>() else {
        return text.parse::<Cursor>()?.check_session(session);
    };
    let found = find(conn, node.as_uuid())
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Event, node))?;
    Cursor { session: found.session, chat: found.number, next: found.key.seq() + 1 }
        .check_session(session)
}

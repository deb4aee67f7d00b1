//! Events in SQL: appended in order, read by seq, by cursor and by commit.

use std::ops::ControlFlow;

use plexus_core::{EventId, PluginId, SessionId};
use serde_json::json;
use uuid::Uuid;

use super::keys::EventKey;
use super::sql::{Row, Sql, params};
use super::tx::{EventBatch, Tx};
use super::{chats, sessions};
use crate::contract::{
    AppendEvents, ChatStatus, Cursor, Event, EventPage, FeedEvent, FeedPage, JsonText, NewEvent,
    Outcome, ReadLimit, StoreError, Thing, refusal,
};

pub(super) async fn append(
    tx: &mut Tx<'_, impl Sql>,
    append: &AppendEvents,
) -> Result<Outcome, StoreError> {
    let chat = chats::require_open(tx, append.session, append.chat).await?;
    let first_seq = append_rows(tx, chat.id, &append.events).await?;
    tx.touch(chat.session, append.session);
    Ok(Outcome::Events { first_seq, count: u32::try_from(append.events.len()).unwrap_or(u32::MAX) })
}

/// Appends events to a chat that the caller knows to be open, and returns the first seq.
pub(super) async fn append_rows(
    tx: &mut Tx<'_, impl Sql>,
    chat: i64,
    events: &[NewEvent],
) -> Result<u32, StoreError> {
    let first = total(tx.conn, chat).await?;
    let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
    if first.checked_add(count).is_none() {
        return Err(refusal::chat_full());
    }
    tx.conn.insert_events(chat, first, events).await?;
    tx.batches.push(EventBatch { chat, first, count });
    Ok(first)
}

/// Returns how many events a chat has, which is the next seq. It is read from the last row, because
/// a counter could disagree with the rows.
pub(super) async fn total(conn: &impl Sql, chat: i64) -> Result<u32, StoreError> {
    let newest = conn
        .one(
            "SELECT max(id) FROM chat_events WHERE id >= ?1 AND id < ?2",
            params![EventKey::new(chat, 0), EventKey::end(chat)],
            |row| row.maybe(0),
        )
        .await?;
    Ok(newest.flatten().map_or(0, EventKey::next_seq))
}

/// Collects events into a page.
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

    /// Reads events of one chat from `from` on until the page is full; returns the next seq to
    /// read.
    async fn read(
        &mut self,
        conn: &impl Sql,
        chat: i64,
        of: Whose,
        from: u32,
    ) -> Result<u32, StoreError> {
        let mut next = from;
        // In steps, so that a page of large events does not load a thousand of them first.
        while !self.is_full() {
            let step = (self.limit.events - self.events.len()).min(READ_STEP);
            let mut read = 0;
            conn.each(
                "SELECT id, uuid, created_at, type, body FROM chat_events
                 WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3",
                params![EventKey::new(chat, next), EventKey::end(chat), step],
                |row| {
                    let event = event_of(row, of)?;
                    // The first event of a page is returned whatever its size: a reader must make
                    // progress.
                    if !self.events.is_empty() && self.bytes + event.body.len() > self.limit.bytes {
                        self.bytes = self.limit.bytes;
                        return Ok(ControlFlow::Break(()));
                    }
                    read += 1;
                    self.bytes += event.body.len();
                    next = event.seq + 1;
                    self.events.push(event);
                    Ok(ControlFlow::Continue(()))
                },
            )
            .await?;
            if read < step {
                break;
            }
        }
        Ok(next)
    }
}

/// How many events one statement reads.
const READ_STEP: usize = 200;

/// The session, chat and owner of events that are read.
#[derive(Clone, Copy)]
pub(super) struct Whose {
    pub(super) session: SessionId,
    pub(super) number: u32,
    pub(super) owner: PluginId,
}

fn event_of(row: &Row<'_>, of: Whose) -> Result<Event, StoreError> {
    let event_type: String = row.get(3)?;
    let body = pruned_as_now(&event_type, row.get(4)?);
    Ok(Event {
        session: of.session,
        chat: of.number,
        owner: of.owner,
        seq: row.get::<EventKey>(0)?.seq(),
        id: row.get(1)?,
        timestamp: row.get(2)?,
        event_type,
        body,
    })
}

/// Translates the mark that the first version left on a pruned event, `{"type":…,"pruned":true}`.
/// No event was ever written that way, so the text always means that it was pruned.
fn pruned_as_now(event_type: &str, body: JsonText) -> JsonText {
    if !body.as_str().ends_with(r#","pruned":true}"#) {
        return body;
    }
    if body.to_value() == json!({"type": event_type, "pruned": true}) {
        json!({"type": "pruned", "was": event_type}).into()
    } else {
        body
    }
}

pub(crate) async fn read(
    conn: &impl Sql,
    session: SessionId,
    chat: u32,
    from: u32,
    limit: ReadLimit,
) -> Result<EventPage, StoreError> {
    let row = chats::row_of(conn, session, chat).await?;
    let mut page = Collector::new(limit);
    let of = Whose { session, number: chat, owner: row.owner };
    let next = page.read(conn, row.id, of, from).await?;
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
    conn: &impl Sql,
    session_row: i64,
    number: u32,
) -> Result<Option<(i64, PluginId, ChatStatus, u32)>, StoreError> {
    conn.one(
        "SELECT id, (SELECT data FROM nodes WHERE id = (chain << 32 | first_pos) - 1),
             status, read_position FROM chat_streams WHERE session = ?1 AND number = ?2",
        params![session_row, number],
        |row| Ok((row.get(0)?, chats::owner_of(row, 1)?, row.get(2)?, row.get(3)?)),
    )
    .await
}

pub(crate) async fn read_from(
    conn: &impl Sql,
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
        let of = Whose { session: at.session, number: at.chat, owner: chat.1 };
        at.next = page.read(conn, chat.0, of, at.next).await?;
        let total_events = total(conn, chat.0).await?;
        let at_end = at.next >= total_events;
        // The next chat exists only after this one has ended, so nothing more can come before it.
        let following = if at_end { chat_at(conn, session_row, at.chat + 1).await? } else { None };
        match following {
            Some(next) if !page.is_full() => {
                at = Cursor { chat: at.chat + 1, next: 0, ..at };
                chat = next;
            }
            _ => {
                let has_more = !at_end || following.is_some();
                let (.., status, read_position) = chat;
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
    of: Whose,
}

/// Returns at most `limit` batches of the commits after `after` and up to `last`.
async fn batches(
    conn: &impl Sql,
    after: u64,
    last: u64,
    limit: usize,
) -> Result<Vec<Batch>, StoreError> {
    conn.all(
        "SELECT b.commit_no, b.chat, b.first_seq, b.count, s.uuid, c.number,
             (SELECT data FROM nodes WHERE id = (c.chain << 32 | c.first_pos) - 1)
         FROM event_batches b
         JOIN chat_streams c ON c.id = b.chat JOIN sessions s ON s.id = c.session
         WHERE b.commit_no > ?1 AND b.commit_no <= ?2 AND s.deleted_at IS NULL
         ORDER BY b.commit_no, b.chat, b.first_seq LIMIT ?3",
        params![after, last, limit],
        |row| {
            Ok(Batch {
                commit: row.get(0)?,
                chat: row.get(1)?,
                first: row.get(2)?,
                count: row.get(3)?,
                of: whose(row, 4)?,
            })
        },
    )
    .await
}

pub(crate) async fn read_commits(
    conn: &impl Sql,
    after: u64,
    limit: ReadLimit,
) -> Result<FeedPage, StoreError> {
    let limit = limit.bounded();
    let newest = sessions::newest_commit(conn).await?;
    let cap = limit.events + 1;
    let mut found = batches(conn, after, newest, cap).await?;
    let cut = found.len() == cap;
    if cut && let Some(last) = found.last().map(|batch| batch.commit) {
        // The last commit may be read in part only; it is returned whole or not at all.
        found.retain(|batch| batch.commit < last);
        if found.is_empty() {
            found = batches(conn, last - 1, last, usize::MAX).await?;
        }
    }
    let (mut events, mut bytes, mut last) = (Vec::new(), 0, after);
    for batch in found {
        // A page ends only between two commits, because `after` cannot name a place inside one.
        let full = events.len() + batch.count as usize > limit.events || bytes >= limit.bytes;
        if batch.commit != last && full && !events.is_empty() {
            return Ok(FeedPage { events, after: last, has_more: true });
        }
        last = batch.commit;
        let first = EventKey::new(batch.chat, batch.first);
        let end = EventKey(first.0 + i64::from(batch.count));
        let read = conn
            .all(
                "SELECT id, uuid, created_at, type, body FROM chat_events
                 WHERE id >= ?1 AND id < ?2 ORDER BY id",
                params![first, end],
                |row| event_of(row, batch.of),
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

/// Reads session, chat and owner of an event from three columns: session, number and the handle of
/// the stream.
fn whose(row: &Row<'_>, first: usize) -> Result<Whose, StoreError> {
    let owner = chats::owner_of(row, first + 2)?;
    Ok(Whose { session: row.get(first)?, number: row.get(first + 1)?, owner })
}

/// The place of an event: its key, and its session and chat as callers know them.
pub(super) struct Found {
    pub(super) key: EventKey,
    pub(super) of: Whose,
}

/// Finds an event by its id, which is also its node's.
pub(super) async fn find(conn: &impl Sql, id: &Uuid) -> Result<Option<Found>, StoreError> {
    conn.one(
        "SELECT e.id, s.uuid, c.number,
             (SELECT data FROM nodes WHERE id = (c.chain << 32 | c.first_pos) - 1)
         FROM chat_events e
         JOIN chat_streams c ON c.id = e.id >> 32 JOIN sessions s ON s.id = c.session
         WHERE e.uuid = ?1",
        params![id],
        |row| Ok(Found { key: row.get(0)?, of: whose(row, 1)? }),
    )
    .await
}

pub(crate) async fn get(conn: &impl Sql, id: EventId) -> Result<Event, StoreError> {
    let missing = || StoreError::not_found(Thing::Event, id);
    let found = find(conn, id.as_uuid()).await?.ok_or_else(missing)?;
    conn.one(
        "SELECT id, uuid, created_at, type, body FROM chat_events WHERE id = ?1",
        params![found.key],
        |row| event_of(row, found.of),
    )
    .await?
    .ok_or_else(missing)
}

pub(crate) async fn resolve_cursor(
    conn: &impl Sql,
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
    Cursor { session: found.of.session, chat: found.of.number, next: found.key.seq() + 1 }
        .after_event(node, session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_the_first_version_pruned_has_the_shape_of_today() {
        let read = |body: &str| {
            pruned_as_now("content", JsonText::parse(body).unwrap()).as_str().to_owned()
        };
        let now: serde_json::Value =
            serde_json::from_str(&read(r#"{"type":"content","pruned":true}"#)).unwrap();
        assert_eq!(now, json!({"type": "pruned", "was": "content"}));
        for other in [
            r#"{"type":"content","text":",\"pruned\":true}"}"#,
            r#"{"type":"passthrough","event_type":"x","data":{"a":1,"pruned":true}}"#,
            r#"{"type":"content","text":"x","pruned":true}"#,
        ] {
            assert_eq!(read(other), other);
        }
    }
}

//! Events over maps.

use plexus_core::{EventId, NodeId, SessionId};

use super::state::{Batch, State};
use super::{arbor, chats, sessions};
use crate::contract::{
    AppendEvents, ChatStatus, Cursor, Event, EventPage, FeedEvent, FeedPage, NewEvent, Outcome,
    ReadLimit, StoreError, Thing, refusal,
};

pub(super) fn append(state: &mut State, append: AppendEvents) -> Result<Outcome, StoreError> {
    let key = chats::require_open(state, append.session, append.chat)?;
    let count = u32::try_from(append.events.len()).unwrap_or(u32::MAX);
    let first_seq = append_to(state, key, append.events)?;
    sessions::touch(state, append.session)?;
    Ok(Outcome::Events { first_seq, count })
}

/// Appends events to a chat that is known to be open, and returns the first seq.
pub(super) fn append_to(
    state: &mut State,
    key: u64,
    events: Vec<NewEvent>,
) -> Result<u32, StoreError> {
    let chat = chats::view(chats::record_mut(state, key)?);
    let (first, mut head) = (chat.total_events, chat.head_node);
    let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
    for (new, seq) in events.into_iter().zip(first..) {
        if state.knows_node(new.id.as_uuid()) {
            return Err(refusal::id_taken());
        }
        let (session, chat) = (chat.session, chat.number);
        let event = Event {
            session,
            chat,
            seq,
            id: new.id,
            event_type: new.event_type,
            body: new.body,
            timestamp: new.timestamp,
        };
        arbor::append_event(state, head, &event)?;
        head = event.node_id();
        chats::record_mut(state, key)?.events.push(event);
    }
    state.events_ever += u64::from(count);
    state.batches.push(Batch { commit: state.commits, chat: key, first, count });
    Ok(first)
}

/// Takes events into `page` until it is full; returns how many.
fn fill(page: &mut Vec<Event>, events: &[Event], limit: ReadLimit) -> usize {
    let mut bytes: usize = page.iter().map(|event| event.body.len()).sum();
    let before = page.len();
    for event in events {
        if page.len() >= limit.events || !page.is_empty() && bytes + event.body.len() > limit.bytes
        {
            break;
        }
        bytes += event.body.len();
        page.push(event.clone());
    }
    page.len() - before
}

pub(super) fn read(
    state: &State,
    session: SessionId,
    chat: u32,
    from: u32,
    limit: ReadLimit,
) -> Result<EventPage, StoreError> {
    let (_, record) = chats::find(state, session, chat)?;
    let total_events = chats::view(record).total_events;
    let mut events = Vec::new();
    fill(&mut events, record.events.get(from as usize..).unwrap_or_default(), limit.bounded());
    let next = events.last().map_or(from, |event: &Event| event.seq + 1);
    Ok(EventPage {
        events,
        next: Cursor { session, chat, next },
        has_more: next < total_events,
        status: Some(record.chat.status),
        total_events,
        read_position: record.chat.read_position,
    })
}

pub(super) fn read_from(
    state: &State,
    cursor: Cursor,
    limit: ReadLimit,
) -> Result<EventPage, StoreError> {
    sessions::require(state, cursor.session)?;
    let (mut events, mut at) = (Vec::new(), cursor);
    loop {
        let Ok((_, record)) = chats::find(state, at.session, at.chat) else {
            return Ok(EventPage { events, ..EventPage::before_any_chat(at) });
        };
        let left = record.events.get(at.next as usize..).unwrap_or_default();
        let taken = fill(&mut events, left, limit.bounded());
        at.next += u32::try_from(taken).unwrap_or(u32::MAX);
        let following = chats::find(state, at.session, at.chat + 1).is_ok();
        let full = taken < left.len() || events.len() >= limit.bounded().events;
        if full || !following {
            let has_more = taken < left.len() || following;
            let (status, total_events) =
                (Some(record.chat.status), chats::view(record).total_events);
            let read_position = record.chat.read_position;
            return Ok(EventPage {
                events,
                next: at,
                has_more,
                status,
                total_events,
                read_position,
            });
        }
        at = Cursor { chat: at.chat + 1, next: 0, ..at };
    }
}

pub(super) fn read_commits(
    state: &State,
    after: u64,
    limit: ReadLimit,
) -> Result<FeedPage, StoreError> {
    let limit = limit.bounded();
    let (mut events, mut bytes, mut last) = (Vec::new(), 0, after);
    let mut batches: Vec<_> = state.batches.iter().filter(|batch| batch.commit > after).collect();
    batches.sort_by_key(|batch| (batch.commit, batch.chat, batch.first));
    for batch in batches {
        let Some(record) = state.chats.get(&batch.chat) else { continue };
        if sessions::require(state, record.chat.session).is_err() {
            continue;
        }
        let full = events.len() + batch.count as usize > limit.events || bytes >= limit.bytes;
        if batch.commit != last && full && !events.is_empty() {
            return Ok(FeedPage { events, after: last, has_more: true });
        }
        last = batch.commit;
        for event in record.events.iter().skip(batch.first as usize).take(batch.count as usize) {
            bytes += event.body.len();
            events.push(FeedEvent { commit: batch.commit, event: event.clone() });
        }
    }
    Ok(FeedPage { events, after: state.commits.max(after), has_more: false })
}

pub(super) fn get(state: &State, id: EventId) -> Result<Event, StoreError> {
    let mut events = state.chats.values().flat_map(|record| &record.events);
    events
        .find(|event| event.id == id)
        .cloned()
        .ok_or_else(|| StoreError::not_found(Thing::Event, id))
}

pub(super) fn resolve_cursor(
    state: &State,
    session: SessionId,
    text: &str,
) -> Result<Cursor, StoreError> {
    sessions::require(state, session)?;
    match text.parse::<NodeId>() {
        Ok(node) => {
            get(state, EventId::from_uuid(*node.as_uuid()))?.cursor_after().check_session(session)
        }
        Err(_) => text.parse::<Cursor>()?.check_session(session),
    }
}

/// Appends an event to a chat if that is open.
pub(super) fn append_if_open(
    state: &mut State,
    session: SessionId,
    chat: Option<u32>,
    event: Option<NewEvent>,
) -> Result<(), StoreError> {
    let (Some(chat), Some(event)) = (chat, event) else { return Ok(()) };
    let (key, record) = chats::find(state, session, chat)?;
    if record.chat.status == ChatStatus::Running {
        append_to(state, key, vec![event])?;
        sessions::touch(state, session)?;
    }
    Ok(())
}

//! Chats over maps.

use plexus_core::{NodeId, SessionId};
use serde_json::json;

use super::state::{ChatRecord, State, ascending};
use super::{arbor, events, runs, servers, sessions};
use crate::contract::{
    AssignRun, Chat, ChatStatus, EndChat, Fresh, JsonText, NewEvent, NodeData, Outcome, Page,
    PageRequest, Position, RunKey, StartChat, StartedChat, StoreError, Thing, Trace, refusal,
    stream_handle,
};

pub(super) fn of_session(
    state: &State,
    session: SessionId,
) -> impl Iterator<Item = (u64, &ChatRecord)> {
    state
        .chats
        .iter()
        .filter(move |(_, record)| record.chat.session == session)
        .map(|(key, record)| (*key, record))
}

/// Fills in what is computed.
pub(super) fn view(record: &ChatRecord) -> Chat {
    Chat {
        head_node: record.events.last().map_or(record.chat.root_node, |event| event.node_id()),
        total_events: u32::try_from(record.events.len()).unwrap_or(u32::MAX),
        ..record.chat.clone()
    }
}

pub(super) fn find(
    state: &State,
    session: SessionId,
    number: u32,
) -> Result<(u64, &ChatRecord), StoreError> {
    sessions::require(state, session)?;
    of_session(state, session)
        .find(|(_, record)| record.chat.number == number)
        .ok_or_else(|| refusal::no_chat(session, Some(number)))
}

/// Returns the key of a chat that must be open.
pub(super) fn require_open(
    state: &State,
    session: SessionId,
    number: u32,
) -> Result<u64, StoreError> {
    let (key, record) = find(state, session, number)?;
    if record.chat.status == ChatStatus::Running {
        servers::fence(state, record.chat.server)?;
        return Ok(key);
    }
    Err(refusal::chat_ended(&view(record)))
}

pub(super) fn record_mut(state: &mut State, key: u64) -> Result<&mut ChatRecord, StoreError> {
    state.chats.get_mut(&key).ok_or_else(|| StoreError::not_found(Thing::Chat, key))
}

pub(super) fn get(
    state: &State,
    session: SessionId,
    number: Option<u32>,
) -> Result<Chat, StoreError> {
    if let Some(number) = number {
        return find(state, session, number).map(|(_, record)| view(record));
    }
    sessions::require(state, session)?;
    of_session(state, session)
        .map(|(_, record)| view(record))
        .max_by_key(|chat| chat.number)
        .ok_or_else(|| refusal::no_chat(session, None))
}

pub(super) fn by_key(
    state: &State,
    session: SessionId,
    key: &str,
) -> Result<Option<Chat>, StoreError> {
    sessions::require(state, session)?;
    let mut chats = of_session(state, session).map(|(_, record)| record);
    Ok(chats.find(|record| record.chat.idempotency_key.as_deref() == Some(key)).map(view))
}

pub(super) fn list(
    state: &State,
    session: Option<SessionId>,
    under: Option<SessionId>,
    page: PageRequest,
) -> Result<Page<Chat>, StoreError> {
    session.map_or(Ok(()), |id| sessions::require(state, id))?;
    let under = under.map(|id| sessions::descendants(state, id)).transpose()?;
    Ok(ascending(&state.chats, page, |record| {
        let of = record.chat.session;
        let fits = session.is_none_or(|id| id == of)
            && under.as_ref().is_none_or(|ids| session.is_some() || ids.contains(&of))
            && sessions::require(state, of).is_ok();
        fits.then(|| view(record))
    }))
}

pub(super) fn start(state: &mut State, start: StartChat) -> Result<Outcome, StoreError> {
    if let Some(key) = &start.idempotency_key
        && let Some(chat) = by_key(state, start.session, key)?
    {
        let (_, record) = find(state, start.session, chat.number)?;
        return Ok(Outcome::Chat(StartedChat {
            chat: chat.number,
            fresh: Fresh::Found,
            user_position: Position { tree_id: chat.tree, node_id: chat.user_node },
            start_event: record.events[0].id,
            prompt_uuid: chat.prompt_uuid,
        }));
    }
    let session = sessions::get(state, start.session)?;
    if session.open_chat().is_some() {
        return Err(refusal::chat_running(&get(state, start.session, None)?));
    }
    servers::require_not_elsewhere(state, start.session)?;
    let server = servers::begins(state)?;
    if let Some(n) = start.run {
        runs::get(state, RunKey { session: start.session, n })?;
    }
    let number = session.newest_chat.map_or(0, |chat| chat.number + 1);
    let (user_node, root_node) = (NodeId::generate(), NodeId::generate());
    let metadata =
        JsonText::from(json!({ "role": "user", "session_id": start.session, "chat": number }));
    arbor::append(
        state,
        session.head,
        user_node,
        NodeData::Text { content: start.prompt },
        metadata,
        start.at,
    )?;
    let stream = NodeData::External { handle: stream_handle(start.session, number) };
    arbor::append(state, user_node, root_node, stream, JsonText::empty_object(), start.at)?;
    let chat = Chat {
        session: start.session,
        number,
        status: ChatStatus::Running,
        prompt_uuid: start.prompt_uuid,
        idempotency_key: start.idempotency_key,
        trace: start.trace,
        origin: start.origin,
        run: start.run,
        server,
        tree: session.tree,
        user_node,
        root_node,
        head_node: root_node,
        started_at: start.at,
        ended_at: None,
        error: None,
        usage: None,
        total_events: 0,
        read_position: 0,
        pruned: false,
    };
    let key = state.next_key();
    state.chats.insert(key, ChatRecord { chat, events: Vec::new() });
    if let Some(reservation) = &start.reserve {
        super::budget::reserve(state, start.session, number, reservation)?;
    }
    let user_position = Position { tree_id: session.tree, node_id: user_node };
    let body = json!({ "type": "start", "id": start.session, "user_position": user_position });
    let event = NewEvent { timestamp: start.at, ..NewEvent::now("start", JsonText::from(body)) };
    let start_event = event.id;
    events::append_to(state, key, vec![event])?;
    sessions::touch(state, start.session)?;
    let prompt_uuid = start.prompt_uuid;
    Ok(Outcome::Chat(StartedChat {
        chat: number,
        fresh: Fresh::Made,
        user_position,
        start_event,
        prompt_uuid,
    }))
}

pub(super) fn assign_run(state: &mut State, assign: AssignRun) -> Result<Outcome, StoreError> {
    let key = require_open(state, assign.session, assign.chat)?;
    runs::get(state, RunKey { session: assign.session, n: assign.run })?;
    record_mut(state, key)?.chat.run = Some(assign.run);
    Ok(Outcome::Done)
}

pub(super) fn end(state: &mut State, end: EndChat) -> Result<Outcome, StoreError> {
    let key = require_open(state, end.session, end.chat)?;
    let (head, at) = (end.event.node_id(), end.event.timestamp);
    let first_seq = events::append_to(state, key, vec![end.event])?;
    let record = record_mut(state, key)?;
    record.chat.status = end.ending.status();
    record.chat.ended_at = Some(at);
    record.chat.error = end.ending.reason().map(str::to_owned);
    record.chat.usage = end.usage;
    if record.chat.trace == Trace::Kept {
        sessions::find_mut(state, end.session)?.head = head;
    }
    state.reservations.remove(&(end.session, end.chat));
    sessions::touch(state, end.session)?;
    Ok(Outcome::Events { first_seq, count: 1 })
}

//! Readers' positions over maps.

use plexus_core::SessionId;

use super::state::State;
use super::{chats, sessions};
use crate::contract::{
    Consumer, Outcome, SetCursor, SetReadPosition, StoreError, UnixMillis, refusal,
};

pub(super) fn get(
    state: &State,
    session: SessionId,
    name: &str,
) -> Result<Option<Consumer>, StoreError> {
    sessions::require(state, session)?;
    Ok(state.consumers.get(&(session, name.to_owned())).cloned())
}

pub(super) fn list(state: &State, session: SessionId) -> Result<Vec<Consumer>, StoreError> {
    sessions::require(state, session)?;
    Ok(state
        .consumers
        .iter()
        .filter(|((of, _), _)| *of == session)
        .map(|(_, consumer)| consumer.clone())
        .collect())
}

pub(super) fn set(state: &mut State, set: SetCursor) -> Result<Outcome, StoreError> {
    let cursor = set.cursor;
    sessions::require(state, cursor.session)?;
    let start = cursor.chat == 0 && cursor.next == 0;
    let reached = chats::find(state, cursor.session, cursor.chat)
        .is_ok_and(|(_, record)| cursor.next as usize <= record.events.len());
    if !start && !reached {
        return Err(refusal::cursor_ahead());
    }
    let key = (cursor.session, set.consumer.clone());
    if !state.consumers.contains_key(&key) {
        refusal::one_more_consumer(list(state, cursor.session)?.len() as u64)?;
    }
    state
        .consumers
        .insert(key, Consumer { name: set.consumer, cursor, updated_at: UnixMillis::now() });
    Ok(Outcome::Done)
}

pub(super) fn delete(
    state: &mut State,
    session: SessionId,
    name: String,
) -> Result<Outcome, StoreError> {
    sessions::require(state, session)?;
    let missing = refusal::no_consumer(session, &name);
    state.consumers.remove(&(session, name)).map(|_| Outcome::Done).ok_or(missing)
}

pub(super) fn set_read_position(
    state: &mut State,
    set: SetReadPosition,
) -> Result<Outcome, StoreError> {
    let (key, record) = chats::find(state, set.session, set.chat)?;
    refusal::read_position(&set, u32::try_from(record.events.len()).unwrap_or(u32::MAX))?;
    let chat = &mut chats::record_mut(state, key)?.chat;
    chat.read_position = chat.read_position.max(set.next);
    Ok(Outcome::Done)
}

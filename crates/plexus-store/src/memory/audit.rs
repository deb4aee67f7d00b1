//! The audit and the outbox over maps.

use super::state::State;
use crate::contract::{
    AuditLine, MarkOutbox, OutboxEntry, Outcome, PageRequest, Sending, StoreError, Thing, UnixMillis,
};

pub(super) fn append(state: &mut State, line: AuditLine) -> Result<Outcome, StoreError> {
    let key = state.next_key();
    state.audit.insert(key, line);
    Ok(Outcome::Done)
}

pub(super) fn enqueue(state: &mut State, entry: OutboxEntry) -> Result<Outcome, StoreError> {
    if !state.outbox.values().any(|known| known.id == entry.id) {
        let key = state.next_key();
        state.outbox.insert(key, entry);
    }
    Ok(Outcome::Done)
}

pub(super) fn due(state: &State, now: UnixMillis, limit: usize) -> Vec<OutboxEntry> {
    let mut due: Vec<_> = state.outbox.values().filter(|entry| entry.due_at <= now).cloned().collect();
    due.sort_by_key(|entry| entry.due_at);
    due.truncate(PageRequest::first(limit).bounded());
    due
}

pub(super) fn mark(state: &mut State, mark: MarkOutbox) -> Result<Outcome, StoreError> {
    let found = state.outbox.iter().find(|(_, entry)| entry.id == mark.id).map(|(key, _)| *key);
    let key = found.ok_or_else(|| StoreError::not_found(Thing::Outbox, mark.id))?;
    match mark.result {
        Sending::Sent | Sending::GivenUp => {
            state.outbox.remove(&key);
        }
        Sending::Failed { retry_at, error } => {
            if let Some(entry) = state.outbox.get_mut(&key) {
                entry.due_at = retry_at;
                entry.attempts += 1;
                entry.last_error = Some(error);
            }
        }
    }
    Ok(Outcome::Done)
}

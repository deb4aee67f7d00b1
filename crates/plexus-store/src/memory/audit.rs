//! The audit and the outbox over maps.

use std::collections::BTreeMap;

use super::state::State;
use crate::contract::{
    AuditLine, MarkOutbox, OutboxDue, OutboxEntry, Outcome, PageRequest, Sending, StoreError,
    Thing, Topic, UnixMillis, Waiting,
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
    state.topics.push(Topic::Outbox);
    Ok(Outcome::Done)
}

pub(super) fn due(state: &State, target: &str, now: UnixMillis, limit: usize) -> OutboxDue {
    let mut entries: Vec<_> =
        state.outbox.values().filter(|entry| entry.target == target).cloned().collect();
    entries.sort_by_key(|entry| entry.due_at);
    let due = entries
        .iter()
        .filter(|entry| entry.due_at <= now)
        .count()
        .min(PageRequest::first(limit).bounded());
    let next = entries.get(due).map(|entry| entry.due_at);
    entries.truncate(due);
    OutboxDue { entries, next }
}

pub(super) fn waiting(state: &State) -> Vec<Waiting> {
    let mut waiting: BTreeMap<&str, Waiting> = BTreeMap::new();
    for entry in state.outbox.values() {
        let of = waiting.entry(&entry.target).or_insert_with(|| Waiting {
            target: entry.target.clone(),
            entries: 0,
            oldest: entry.created_at,
        });
        of.entries += 1;
        of.oldest = of.oldest.min(entry.created_at);
    }
    waiting.into_values().collect()
}

pub(super) fn mark(state: &mut State, mark: MarkOutbox) -> Result<Outcome, StoreError> {
    let found = state.outbox.iter().find(|(_, entry)| entry.id == mark.id).map(|(key, _)| *key);
    let key = found.ok_or_else(|| StoreError::not_found(Thing::Outbox, mark.id))?;
    match mark.result {
        Sending::Begun { due_at, until } => {
            let entry = state.outbox.get_mut(&key).filter(|entry| entry.due_at == due_at);
            entry.ok_or_else(|| StoreError::not_found(Thing::Outbox, mark.id))?.due_at = until;
        }
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

//! What was spent, over maps.

use plexus_core::SessionId;

use super::state::State;
use super::{chats, sessions};
use crate::contract::{Outcome, ReserveSpend, SettleSpend, Spend, SpendTotals, StoreError, Thing};

pub(super) fn totals(state: &State, session: SessionId) -> Result<SpendTotals, StoreError> {
    let below = sessions::descendants(state, session)?;
    let of = |id: &SessionId| state.spend.get(id).copied().unwrap_or_default();
    let mut totals = SpendTotals { own: of(&session), descendants: below.len() as u64, ..SpendTotals::default() };
    for id in below.iter().chain([&session]) {
        totals.subtree += of(id);
    }
    for ((id, _), amount) in &state.reservations {
        if *id == session || below.contains(id) {
            totals.reserved += *amount;
        }
    }
    Ok(totals)
}

pub(super) fn add(state: &mut State, session: SessionId, amount: Spend) -> Result<Outcome, StoreError> {
    sessions::require(state, session)?;
    *state.spend.entry(session).or_default() += amount;
    Ok(Outcome::Done)
}

pub(super) fn reserve(state: &mut State, reserve: ReserveSpend) -> Result<Outcome, StoreError> {
    chats::find(state, reserve.session, reserve.chat)?;
    state.reservations.insert((reserve.session, reserve.chat), reserve.amount);
    Ok(Outcome::Done)
}

pub(super) fn settle(state: &mut State, settle: SettleSpend) -> Result<Outcome, StoreError> {
    sessions::require(state, settle.session)?;
    if state.reservations.remove(&(settle.session, settle.chat)).is_none() {
        let id = format!("of chat {} of session {}", settle.chat, settle.session);
        return Err(StoreError::not_found(Thing::Reservation, id));
    }
    add(state, settle.session, settle.amount)
}

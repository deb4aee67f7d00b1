//! What was spent, over maps.

use plexus_core::SessionId;

use super::sessions;
use super::state::State;
use crate::contract::{Outcome, Reservation, Spend, SpendTotals, StoreError};

pub(super) fn totals(state: &State, session: SessionId) -> Result<SpendTotals, StoreError> {
    let below = sessions::descendants(state, session)?;
    let of = |id: &SessionId| state.spend.get(id).copied().unwrap_or_default();
    let mut totals = SpendTotals {
        own: of(&session),
        descendants: below.len() as u64,
        ..SpendTotals::default()
    };
    for id in below.iter().chain([&session]) {
        totals.subtree += of(id);
        let largest = state.largest.get(id).copied().unwrap_or_default();
        totals.largest.cost_micros = totals.largest.cost_micros.max(largest.cost_micros);
        totals.largest.turns = totals.largest.turns.max(largest.turns);
    }
    for ((id, _), amount) in &state.reservations {
        if *id == session || below.contains(id) {
            totals.reserved += *amount;
        }
    }
    Ok(totals)
}

pub(super) fn add(
    state: &mut State,
    session: SessionId,
    amount: Spend,
) -> Result<Outcome, StoreError> {
    sessions::require(state, session)?;
    *state.spend.entry(session).or_default() += amount;
    let largest = state.largest.entry(session).or_default();
    largest.cost_micros = largest.cost_micros.max(amount.cost_micros);
    largest.turns = largest.turns.max(amount.turns);
    Ok(Outcome::Done)
}

pub(super) fn reserve(
    state: &mut State,
    session: SessionId,
    chat: u32,
    reservation: &Reservation,
) -> Result<(), StoreError> {
    for limit in &reservation.within {
        limit.check(&totals(state, limit.holder)?)?;
    }
    state.reservations.insert((session, chat), reservation.amount);
    Ok(())
}

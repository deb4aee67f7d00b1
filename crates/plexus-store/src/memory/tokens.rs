//! Tokens over maps.

use super::state::State;
use super::{runs, servers, sessions};
use crate::contract::{Outcome, RevokeTokens, StoreError, Token};

pub(super) fn add(state: &mut State, token: Token) -> Result<Outcome, StoreError> {
    token.caller.session().map_or(Ok(()), |id| sessions::require(state, id))?;
    token.run.map(|run| runs::get(state, run)).transpose()?;
    servers::fence_run(state, token.run)?;
    if state.tokens.contains_key(&token.hash) {
        return Err(StoreError::conflict("add the token: it is there already", &()));
    }
    state.tokens.insert(token.hash, token);
    Ok(Outcome::Done)
}

pub(super) fn revoke(state: &mut State, revoke: RevokeTokens) -> Result<Outcome, StoreError> {
    let before = state.tokens.len();
    state.tokens.retain(|_, token| match revoke {
        RevokeTokens::One(hash) => token.hash != hash,
        RevokeTokens::Run(run) => token.run != Some(run),
        RevokeTokens::Session(id) => token.caller.session() != Some(id),
        RevokeTokens::Expired { now } => token.expires_at.is_none_or(|at| at > now),
    });
    Ok(Outcome::Count((before - state.tokens.len()) as u64))
}

//! Rules over maps.

use plexus_core::RuleId;

use super::state::State;
use super::{runs, sessions};
use crate::contract::{
    NewRule, Outcome, Owner, RemoveRules, StoreError, StoredRule, Thing, UnixMillis, UseRule,
    refusal,
};

pub(super) fn get(state: &State, id: RuleId) -> Result<StoredRule, StoreError> {
    let found = state.rules.values().find(|it| it.rule.id == id);
    found.cloned().ok_or_else(|| StoreError::not_found(Thing::Rule, id))
}

pub(super) fn add(state: &mut State, new: NewRule) -> Result<Outcome, StoreError> {
    let author = match new.author {
        Owner::Operator => None,
        Owner::Session(id) => Some(id),
    };
    for session in [new.scope.session(), author].into_iter().flatten() {
        sessions::require(state, session)?;
    }
    if let Some(run) = new.ends_with {
        let run = runs::get(state, run)?;
        refusal::rule_ends_with(&run)?;
    }
    if get(state, new.id).is_ok() {
        return Err(StoreError::conflict("add the rule: its id is there already", &new.id));
    }
    let key = state.next_key();
    state.rules.insert(key, StoredRule { rule: new, used: 0, created_at: UnixMillis::now() });
    Ok(Outcome::Done)
}

pub(super) fn remove(state: &mut State, remove: RemoveRules) -> Result<Outcome, StoreError> {
    let before = state.rules.len();
    match remove {
        RemoveRules::One(id) => {
            get(state, id)?;
            state.rules.retain(|_, it| it.rule.id != id);
        }
        RemoveRules::EndingWith(run) => state.rules.retain(|_, it| it.rule.ends_with != Some(run)),
        RemoveRules::Spent { now } => state.rules.retain(|_, it| is_usable(it, now)),
    }
    Ok(Outcome::Count((before - state.rules.len()) as u64))
}

fn is_usable(it: &StoredRule, now: UnixMillis) -> bool {
    it.uses_left() != Some(0) && it.rule.expires_at.is_none_or(|at| at > now)
}

pub(super) fn use_once(state: &mut State, it: UseRule) -> Result<Outcome, StoreError> {
    let found = state.rules.values_mut().find(|rule| rule.rule.id == it.id);
    let rule = found.ok_or_else(|| StoreError::not_found(Thing::Rule, it.id))?;
    if !is_usable(rule, it.now) {
        return Err(refusal::rule_used_up(rule));
    }
    rule.used += 1;
    Ok(Outcome::Rule(rule.clone()))
}

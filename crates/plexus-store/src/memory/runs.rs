//! Runs over maps.

use super::state::State;
use super::{servers, sessions};
use crate::contract::{
    CreateRun, EndRun, JournalPosition, Outcome, Run, RunKey, SetJournalPosition, StoreError,
    Thing, UnixMillis, UpdateRun, refusal,
};

pub(super) fn get(state: &State, key: RunKey) -> Result<Run, StoreError> {
    let found = state.runs.values().find(|run| run.key == key);
    found.cloned().ok_or_else(|| StoreError::not_found(Thing::Run, key))
}

fn open_mut(state: &mut State, key: RunKey) -> Result<&mut Run, StoreError> {
    servers::fence_run(state, Some(key))?;
    let found = state.runs.values_mut().find(|run| run.key == key);
    let run = found.ok_or_else(|| StoreError::not_found(Thing::Run, key))?;
    refusal::run_goes_on(run)?;
    Ok(run)
}

pub(super) fn create(state: &mut State, new: CreateRun) -> Result<Outcome, StoreError> {
    let key = RunKey { session: new.session, n: sessions::get(state, new.session)?.next_run };
    refusal::run_number(&new, key)?;
    servers::require_not_elsewhere(state, new.session)?;
    let run = Run {
        key,
        server: servers::begins(state)?,
        channel: new.channel,
        launch: new.launch,
        process: None,
        translation: None,
        journal: JournalPosition::default(),
        idle_since: None,
        started_at: UnixMillis::now(),
        ended_at: None,
        exit: None,
    };
    let row = state.next_key();
    state.runs.insert(row, run);
    sessions::touch(state, new.session)?;
    Ok(Outcome::Run(key))
}

pub(super) fn update(state: &mut State, update: UpdateRun) -> Result<Outcome, StoreError> {
    let run = open_mut(state, update.run)?;
    run.process = update.process.apply(run.process.take());
    run.translation = update.translation.apply(run.translation.take());
    run.idle_since = update.idle_since.apply(run.idle_since);
    Ok(Outcome::Done)
}

pub(super) fn set_journal(
    state: &mut State,
    set: SetJournalPosition,
) -> Result<Outcome, StoreError> {
    refusal::journal_goes_on(&set)?;
    servers::fence_run(state, Some(set.run))?;
    let found = state.runs.values_mut().find(|run| run.key == set.run);
    let run = found.ok_or_else(|| StoreError::not_found(Thing::Run, set.run))?;
    if run.journal != set.expects {
        return Err(refusal::journal_elsewhere(run.journal));
    }
    run.journal = set.to;
    Ok(Outcome::Done)
}

pub(super) fn end(state: &mut State, end: EndRun) -> Result<Outcome, StoreError> {
    let run = open_mut(state, end.run)?;
    run.ended_at = Some(UnixMillis::now());
    run.exit = Some(end.exit);
    run.idle_since = None;
    sessions::touch(state, end.run.session)?;
    Ok(Outcome::Done)
}

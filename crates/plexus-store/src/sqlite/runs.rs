//! Runs and their journal positions in SQL.

use plexus_core::{ServerId, SessionId};
use rusqlite::{Connection, Row, params};

use super::sql::{Columns, Sql, blob, int};
use super::tx::Tx;
use super::{servers, sessions};
use crate::contract::{
    CreateRun, EndRun, JournalPosition, JsonText, Outcome, Run, RunKey, SetJournalPosition,
    StoreError, Thing, UpdateRun, refusal,
};

macro_rules! select_run {
    ($rest:literal) => {
        concat!(
            "SELECT s.uuid, r.n, r.channel, r.launch, r.process, r.translation, r.segment, r.offset, r.idle_since, r.started_at, r.ended_at, r.exit,
                    r.server
             FROM runs r JOIN sessions s ON s.id = r.session WHERE s.deleted_at IS NULL ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        key: RunKey { session: row.session(0)?, n: row.get(1)? },
        server: row.maybe_uuid(12)?.map(ServerId::from_uuid),
        channel: row.get(2)?,
        launch: row.json(3)?,
        process: row.maybe_json(4)?,
        translation: row.maybe_json(5)?,
        journal: JournalPosition { segment: row.get(6)?, offset: row.count(7)? },
        idle_since: row.maybe_time(8)?,
        started_at: row.time(9)?,
        ended_at: row.maybe_time(10)?,
        exit: row.maybe_json(11)?,
    })
}

pub(super) fn get(conn: &Connection, run: RunKey) -> Result<Run, StoreError> {
    conn.one(
        select_run!("AND s.uuid = ?1 AND r.n = ?2"),
        params![blob(run.session.as_uuid()), run.n],
        read,
    )?
    .ok_or_else(|| StoreError::not_found(Thing::Run, run))
}

pub(super) fn open(conn: &Connection) -> Result<Vec<Run>, StoreError> {
    conn.all(select_run!("AND r.ended_at IS NULL ORDER BY r.id"), [], read)
}

pub(super) fn of_session(conn: &Connection, session: SessionId) -> Result<Vec<Run>, StoreError> {
    let row = sessions::row_of(conn, session)?;
    conn.all(select_run!("AND r.session = ?1 ORDER BY r.n"), [row], read)
}

/// Refuses a run that is not there.
pub(super) fn require(
    conn: &Connection,
    session_row: i64,
    session: SessionId,
    n: u32,
) -> Result<(), StoreError> {
    conn.one("SELECT 1 FROM runs WHERE session = ?1 AND n = ?2", params![session_row, n], |_| {
        Ok(())
    })?
    .ok_or_else(|| StoreError::not_found(Thing::Run, RunKey { session, n }))
}

pub(super) fn create(tx: &mut Tx<'_>, new: &CreateRun) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, new.session)?;
    let next: u32 = tx
        .conn
        .one("SELECT coalesce(max(n) + 1, 0) FROM runs WHERE session = ?1", [row], |row| {
            row.get(0)
        })?
        .unwrap_or(0);
    let key = RunKey { session: new.session, n: next };
    refusal::run_number(new, key)?;
    servers::require_not_elsewhere(tx, row, new.session)?;
    let server = servers::begins(tx)?.map(|id| blob(id.as_uuid()));
    tx.conn.run(
        "INSERT INTO runs (session, n, channel, launch, started_at, server) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![row, next, new.channel, new.launch.as_str(), tx.now.0, server],
    )?;
    tx.touch(row, new.session);
    Ok(Outcome::Run(key))
}

/// Returns a run that must not have ended, and must be this server's to change.
fn require_open(tx: &Tx<'_>, key: RunKey) -> Result<Run, StoreError> {
    let run = get(tx.conn, key)?;
    servers::fence(tx, run.server)?;
    refusal::run_goes_on(&run)?;
    Ok(run)
}

const THIS_RUN: &str = "session = (SELECT id FROM sessions WHERE uuid = ?1) AND n = ?2";

pub(super) fn update(tx: &mut Tx<'_>, update: UpdateRun) -> Result<Outcome, StoreError> {
    let run = require_open(tx, update.run)?;
    let (process, translation) =
        (update.process.apply(run.process), update.translation.apply(run.translation));
    tx.conn.run(
        &format!(
            "UPDATE runs SET process = ?3, translation = ?4, idle_since = ?5 WHERE {THIS_RUN}"
        ),
        params![
            blob(update.run.session.as_uuid()),
            update.run.n,
            process.as_ref().map(JsonText::as_str),
            translation.as_ref().map(JsonText::as_str),
            update.idle_since.apply(run.idle_since).map(|time| time.0),
        ],
    )?;
    Ok(Outcome::Done)
}

pub(super) fn set_journal(tx: &mut Tx<'_>, set: SetJournalPosition) -> Result<Outcome, StoreError> {
    refusal::journal_goes_on(&set)?;
    servers::fence_run(tx, Some(set.run))?;
    let changed = tx.conn.run(
        &format!("UPDATE runs SET segment = ?3, offset = ?4 WHERE {THIS_RUN} AND segment = ?5 AND offset = ?6"),
        params![
            blob(set.run.session.as_uuid()),
            set.run.n,
            set.to.segment,
            int(set.to.offset),
            set.expects.segment,
            int(set.expects.offset),
        ],
    )?;
    if changed == 1 {
        return Ok(Outcome::Done);
    }
    Err(refusal::journal_elsewhere(get(tx.conn, set.run)?.journal))
}

pub(super) fn end(tx: &mut Tx<'_>, end: &EndRun) -> Result<Outcome, StoreError> {
    require_open(tx, end.run)?;
    tx.conn.run(
        &format!("UPDATE runs SET ended_at = ?3, exit = ?4, idle_since = NULL WHERE {THIS_RUN}"),
        params![blob(end.run.session.as_uuid()), end.run.n, tx.now.0, end.exit.as_str()],
    )?;
    let row = sessions::row_of(tx.conn, end.run.session)?;
    tx.touch(row, end.run.session);
    Ok(Outcome::Done)
}

//! Runs and their journal positions in SQL.

use plexus_core::SessionId;

use super::sql::{Row, Sql, params};
use super::tx::Tx;
use super::{servers, sessions};
use crate::contract::{
    CreateRun, EndRun, JournalPosition, Outcome, RunKey, RunRecord, SetJournalPosition, StoreError,
    Thing, UpdateRun, refusal,
};

macro_rules! select_run {
    ($rest:literal) => {
        concat!(
            "SELECT s.uuid, r.n, r.channel, r.launch, r.process, r.translation, r.segment,
                 r.\"offset\", r.idle_since, r.started_at, r.ended_at, r.exit, r.server
             FROM runs r JOIN sessions s ON s.id = r.session WHERE s.deleted_at IS NULL ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<RunRecord, StoreError> {
    Ok(RunRecord {
        key: RunKey { session: row.get(0)?, n: row.get(1)? },
        server: row.maybe(12)?,
        channel: row.get(2)?,
        launch: row.get(3)?,
        process: row.maybe(4)?,
        translation: row.maybe(5)?,
        journal: JournalPosition { segment: row.get(6)?, offset: row.get(7)? },
        idle_since: row.maybe(8)?,
        started_at: row.get(9)?,
        ended_at: row.maybe(10)?,
        exit: row.maybe(11)?,
    })
}

pub(crate) async fn get(conn: &impl Sql, run: RunKey) -> Result<RunRecord, StoreError> {
    conn.one(select_run!("AND s.uuid = ?1 AND r.n = ?2"), params![run.session, run.n], read)
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Run, run))
}

pub(crate) async fn open(conn: &impl Sql) -> Result<Vec<RunRecord>, StoreError> {
    conn.all(select_run!("AND r.ended_at IS NULL ORDER BY r.id"), &[], read).await
}

pub(crate) async fn of_session(
    conn: &impl Sql,
    session: SessionId,
) -> Result<Vec<RunRecord>, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    conn.all(select_run!("AND r.session = ?1 ORDER BY r.n"), params![row], read).await
}

/// Refuses a run that does not exist.
pub(super) async fn require(
    conn: &impl Sql,
    session_row: i64,
    session: SessionId,
    n: u32,
) -> Result<(), StoreError> {
    conn.one(
        "SELECT 1 FROM runs WHERE session = ?1 AND n = ?2",
        params![session_row, n],
        |_| Ok(()),
    )
    .await?
    .ok_or_else(|| StoreError::not_found(Thing::Run, RunKey { session, n }))
}

pub(super) async fn create(
    tx: &mut Tx<'_, impl Sql>,
    new: &CreateRun,
) -> Result<Outcome, StoreError> {
    let row = sessions::row_of(tx.conn, new.session).await?;
    let next: u32 = tx
        .conn
        .one("SELECT coalesce(max(n) + 1, 0) FROM runs WHERE session = ?1", params![row], |row| {
            row.get(0)
        })
        .await?
        .unwrap_or(0);
    let key = RunKey { session: new.session, n: next };
    refusal::run_number(new, key)?;
    servers::require_not_elsewhere(tx, row, new.session).await?;
    let server = servers::begins(tx)?;
    tx.conn
        .run(
            "INSERT INTO runs (session, n, channel, launch, started_at, server)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![row, next, new.channel, new.launch, tx.now, server],
        )
        .await?;
    tx.touch(row, new.session);
    Ok(Outcome::Run(key))
}

/// Returns a run, which must not have ended and which this server may change.
async fn require_open(tx: &Tx<'_, impl Sql>, key: RunKey) -> Result<RunRecord, StoreError> {
    let run = get(tx.conn, key).await?;
    servers::fence(tx, run.server)?;
    refusal::run_goes_on(&run)?;
    Ok(run)
}

const THIS_RUN: &str = "session = (SELECT id FROM sessions WHERE uuid = ?1) AND n = ?2";

pub(super) async fn update(
    tx: &mut Tx<'_, impl Sql>,
    update: UpdateRun,
) -> Result<Outcome, StoreError> {
    let run = require_open(tx, update.run).await?;
    let (process, translation) =
        (update.process.apply(run.process), update.translation.apply(run.translation));
    tx.conn
        .run(
            &format!(
                "UPDATE runs SET process = ?3, translation = ?4, idle_since = ?5 WHERE {THIS_RUN}"
            ),
            params![
                update.run.session,
                update.run.n,
                process,
                translation,
                update.idle_since.apply(run.idle_since),
            ],
        )
        .await?;
    Ok(Outcome::Done)
}

pub(super) async fn set_journal(
    tx: &mut Tx<'_, impl Sql>,
    set: SetJournalPosition,
) -> Result<Outcome, StoreError> {
    refusal::journal_goes_on(&set)?;
    servers::fence_run(tx, Some(set.run)).await?;
    let changed = tx
        .conn
        .run(
            &format!(
                "UPDATE runs SET segment = ?3, \"offset\" = ?4
                 WHERE {THIS_RUN} AND segment = ?5 AND \"offset\" = ?6"
            ),
            params![
                set.run.session,
                set.run.n,
                set.to.segment,
                set.to.offset,
                set.expects.segment,
                set.expects.offset,
            ],
        )
        .await?;
    if changed == 1 {
        return Ok(Outcome::Done);
    }
    Err(refusal::journal_elsewhere(get(tx.conn, set.run).await?.journal))
}

pub(super) async fn end(tx: &mut Tx<'_, impl Sql>, end: &EndRun) -> Result<Outcome, StoreError> {
    require_open(tx, end.run).await?;
    tx.conn
        .run(
            &format!(
                "UPDATE runs SET ended_at = ?3, exit = ?4, idle_since = NULL WHERE {THIS_RUN}"
            ),
            params![end.run.session, end.run.n, tx.now, end.exit],
        )
        .await?;
    let row = sessions::row_of(tx.conn, end.run.session).await?;
    tx.touch(row, end.run.session);
    Ok(Outcome::Done)
}

//! Servers in SQL. One server at a time has this file open, so the store's clock is this process's.

use std::time::Duration;

use plexus_core::{ApprovalId, ServerId, SessionId};
use rusqlite::{Connection, Row, params};

use super::codes::{server_state, server_state_code};
use super::sql::{Columns, Sql, blob, int};
use super::tx::Tx;
use super::{approvals, chats, runs};
use crate::contract::{
    ApprovalStatus, Lease, Outcome, RegisterServer, RemoveRules, RenewLease, RevokeTokens, RunKey,
    Server, ServerState, StoreError, TakeOver, TakenOver, Thing, UnixMillis, refusal,
};

macro_rules! select_server {
    ($rest:literal) => {
        concat!(
            "SELECT v.uuid, v.epoch, v.name, v.url, v.state, v.lease_until, v.heartbeat_at,
                    (SELECT count(*) FROM runs WHERE server = v.uuid AND ended_at IS NULL),
                    (SELECT count(*) FROM chat_streams c JOIN sessions s ON s.id = c.session
                     WHERE c.server = v.uuid AND c.status = 0 AND s.deleted_at IS NULL)
             FROM servers v ",
            $rest
        )
    };
}

fn read(now: UnixMillis) -> impl FnMut(&Row<'_>) -> rusqlite::Result<Server> {
    move |row| {
        let (lease_left, stored) = (row.time(5)?.after(now), server_state(4, row.get(4)?)?);
        Ok(Server {
            lease: Lease { server: ServerId::from_uuid(row.uuid(0)?), epoch: row.count(1)? },
            name: row.get(2)?,
            url: row.get(3)?,
            state: if stored == ServerState::Alive && lease_left == Duration::ZERO {
                ServerState::Expired
            } else {
                stored
            },
            lease_left,
            heartbeat_age: now.after(row.time(6)?),
            open_runs: row.count(7)?,
            open_chats: row.count(8)?,
        })
    }
}

pub(super) fn list(conn: &Connection) -> Result<Vec<Server>, StoreError> {
    conn.all(select_server!("ORDER BY v.id"), [], read(UnixMillis::now()))
}

fn get(conn: &Connection, id: ServerId) -> Result<Server, StoreError> {
    conn.one(select_server!("WHERE v.uuid = ?1"), [blob(id.as_uuid())], read(UnixMillis::now()))?
        .ok_or_else(|| StoreError::not_found(Thing::Server, id))
}

// The fence.

/// Refuses a lease that does not stand, or has run out.
fn require_valid(conn: &Connection, lease: Lease) -> Result<(), StoreError> {
    let stands = conn.one(
        "SELECT 1 FROM servers WHERE uuid = ?1 AND epoch = ?2 AND state = 0 AND lease_until > ?3",
        params![blob(lease.server.as_uuid()), int(lease.epoch), UnixMillis::now().0],
        |_| Ok(()),
    )?;
    stands.ok_or_else(|| refusal::lease_over(lease))
}

/// Returns whose a new run or chat is: the server's this handle writes as, whose lease must stand.
pub(super) fn begins(tx: &Tx<'_>) -> Result<Option<ServerId>, StoreError> {
    tx.lease.map_or(Ok(None), |lease| require_valid(tx.conn, lease).map(|()| Some(lease.server)))
}

/// Refuses to write to what belongs to another server, or under a lease that is over.
pub(super) fn fence(tx: &Tx<'_>, owner: Option<ServerId>) -> Result<(), StoreError> {
    let Some(owner) = owner.filter(|owner| tx.taking != Some(*owner)) else { return Ok(()) };
    match tx.lease {
        Some(lease) if lease.server == owner => require_valid(tx.conn, lease),
        _ => Err(refusal::of_another(owner)),
    }
}

/// The same, for what belongs to a run. One that is not there is refused by whoever needs it, in words of its own.
pub(super) fn fence_run(tx: &Tx<'_>, run: Option<RunKey>) -> Result<(), StoreError> {
    let Some(run) = run else { return Ok(()) };
    let owner = tx.conn.one(
        "SELECT r.server FROM runs r JOIN sessions s ON s.id = r.session WHERE s.uuid = ?1 AND r.n = ?2",
        params![blob(run.session.as_uuid()), run.n],
        |row| row.maybe_uuid(0),
    )?;
    fence(tx, owner.flatten().map(ServerId::from_uuid))
}

/// Refuses a session in which another server has a run open.
pub(super) fn require_not_elsewhere(
    tx: &Tx<'_>,
    session_row: i64,
    session: SessionId,
) -> Result<(), StoreError> {
    let me = tx.lease.map(|lease| blob(lease.server.as_uuid()));
    let elsewhere = tx.conn.one(
        "SELECT n FROM runs WHERE session = ?1 AND ended_at IS NULL AND server IS NOT NULL AND server IS NOT ?2 LIMIT 1",
        params![session_row, me],
        |row| row.get(0),
    )?;
    match elsewhere {
        Some(n) => Err(refusal::runs_elsewhere(&runs::get(tx.conn, RunKey { session, n })?)),
        None => Ok(()),
    }
}

// Leases.

pub(super) fn register(tx: &mut Tx<'_>, new: &RegisterServer) -> Result<Outcome, StoreError> {
    let epoch = tx.conn.one(
        "INSERT INTO servers (uuid, name, url, epoch, state, heartbeat_at, lease_until) VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6)
         ON CONFLICT (uuid) DO UPDATE SET name = ?2, url = ?3, epoch = epoch + 1, state = ?4, heartbeat_at = ?5, lease_until = ?6
         RETURNING epoch",
        params![
            blob(new.id.as_uuid()),
            new.name,
            new.url,
            server_state_code(ServerState::Alive),
            tx.now.0,
            tx.now.plus(new.lease).0
        ],
        |row| row.count(0),
    )?;
    let lease = Lease { server: new.id, epoch: epoch.unwrap_or(1) };
    tx.lease = Some(lease);
    Ok(Outcome::Lease(lease))
}

pub(super) fn renew(tx: &mut Tx<'_>, renew: RenewLease) -> Result<Outcome, StoreError> {
    require_valid(tx.conn, renew.lease)?;
    let now = UnixMillis::now();
    tx.conn.run(
        "UPDATE servers SET heartbeat_at = ?2, lease_until = ?3 WHERE uuid = ?1",
        params![blob(renew.lease.server.as_uuid()), now.0, now.plus(renew.lasts).0],
    )?;
    Ok(Outcome::Done)
}

pub(super) fn retire(tx: &mut Tx<'_>, lease: Lease) -> Result<Outcome, StoreError> {
    let standing = get(tx.conn, lease.server)?;
    refusal::retirement(lease, &standing)?;
    tx.conn.run(
        "UPDATE servers SET state = ?2 WHERE uuid = ?1",
        params![blob(lease.server.as_uuid()), server_state_code(ServerState::Retired)],
    )?;
    tx.lease = tx.lease.filter(|mine| *mine != lease);
    Ok(Outcome::Done)
}

pub(super) fn take_over(tx: &mut Tx<'_>, over: &TakeOver) -> Result<Outcome, StoreError> {
    let server = over.lease.server;
    let standing = get(tx.conn, server)?;
    refusal::takeover(over, &standing)?;
    let uuid = blob(server.as_uuid());
    tx.conn.run(
        "UPDATE servers SET state = ?2, epoch = epoch + 1 WHERE uuid = ?1",
        params![uuid, server_state_code(ServerState::TakenOver)],
    )?;
    tx.taking = Some(server);
    let mut taken = TakenOver {
        runs: tx.conn.all(
            "SELECT s.uuid, r.n FROM runs r JOIN sessions s ON s.id = r.session WHERE r.server = ?1 AND r.ended_at IS NULL ORDER BY r.id",
            [uuid],
            |row| Ok(RunKey { session: row.session(0)?, n: row.get(1)? }),
        )?,
        chats: tx.conn.all(
            "SELECT s.uuid, c.number FROM chat_streams c JOIN sessions s ON s.id = c.session
             WHERE c.server = ?1 AND c.status = 0 AND s.deleted_at IS NULL ORDER BY c.id",
            [uuid],
            |row| Ok((row.session(0)?, row.get(1)?)),
        )?,
        ..TakenOver::default()
    };
    for id in open_approvals(tx.conn, &uuid)? {
        let record = approvals::get(tx.conn, id)?;
        if record.status == ApprovalStatus::Pending {
            approvals::decide(tx, over.cancel(&record))?;
            taken.cancelled.push(id);
        } else {
            taken.voided.push(id);
        }
        approvals::settle(tx, over.void(id))?;
    }
    for (session, chat) in &taken.chats {
        chats::end(tx, over.end_chat(*session, *chat))?;
    }
    for run in &taken.runs {
        runs::end(tx, &over.end_run(*run))?;
        super::tokens::revoke(tx, RevokeTokens::Run(*run))?;
        super::rules::remove(tx, RemoveRules::EndingWith(*run))?;
    }
    tx.taking = None;
    Ok(Outcome::TakenOver(taken))
}

/// Returns the approvals of a server's open runs and chats that are pending, or whose answer has not arrived.
fn open_approvals(conn: &Connection, server: &[u8; 16]) -> Result<Vec<ApprovalId>, StoreError> {
    conn.all(
        "SELECT a.uuid FROM loopback_approvals a WHERE a.delivered_at IS NULL AND a.void_at IS NULL AND (
             EXISTS (SELECT 1 FROM runs r WHERE r.session = a.session AND r.n = a.run AND r.server = ?1 AND r.ended_at IS NULL)
             OR EXISTS (SELECT 1 FROM chat_streams c WHERE c.session = a.session AND c.number = a.chat AND c.server = ?1 AND c.status = 0))
         ORDER BY a.id",
        [server],
        |row| row.uuid(0).map(ApprovalId::from_uuid),
    )
}

//! Servers in SQL. Leases run out by the clock of the engine, which none of the servers can set
//! back.

use std::time::Duration;

use plexus_core::{ApprovalId, ServerId, SessionId};

use super::sql::{Row, Sql, params};
use super::tx::{Standing, Tx};
use super::{approvals, chats, parking, runs};
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

fn read(now: UnixMillis) -> impl FnMut(&Row<'_>) -> Result<Server, StoreError> {
    move |row| {
        let lease_left = row.get::<UnixMillis>(5)?.after(now);
        let state = match row.get(4)? {
            ServerState::Alive if lease_left == Duration::ZERO => ServerState::Expired,
            stored => stored,
        };
        Ok(Server {
            lease: Lease { server: row.get(0)?, epoch: row.get(1)? },
            name: row.get(2)?,
            url: row.get(3)?,
            state,
            lease_left,
            heartbeat_age: now.after(row.get(6)?),
            open_runs: row.get(7)?,
            open_chats: row.get(8)?,
        })
    }
}

pub(crate) async fn list(conn: &impl Sql) -> Result<Vec<Server>, StoreError> {
    let now = conn.clock().await?;
    conn.all(select_server!("ORDER BY v.id"), params![], read(now)).await
}

async fn get(conn: &impl Sql, id: ServerId) -> Result<Server, StoreError> {
    let now = conn.clock().await?;
    conn.one(select_server!("WHERE v.uuid = ?1"), params![id], read(now))
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Server, id))
}

// Fencing.

/// Returns whether a lease is valid by the store's clock.
pub(crate) async fn stands(conn: &impl Sql, lease: Lease) -> Result<bool, StoreError> {
    let now = conn.clock().await?;
    conn.any(
        "SELECT 1 FROM servers WHERE uuid = ?1 AND epoch = ?2 AND state = 0 AND lease_until > ?3",
        params![lease.server, lease.epoch, now],
    )
    .await
}

/// Refuses a lease that is not current, or had run out when the transaction began.
fn require_valid(tx: &Tx<'_, impl Sql>, lease: Lease) -> Result<(), StoreError> {
    if tx.standing.valid { Ok(()) } else { Err(refusal::lease_over(lease)) }
}

/// Returns the owner of a new run or chat: the server that this handle writes as, whose lease must
/// be valid.
pub(super) fn begins(tx: &Tx<'_, impl Sql>) -> Result<Option<ServerId>, StoreError> {
    tx.standing
        .lease
        .map_or(Ok(None), |lease| require_valid(tx, lease).map(|()| Some(lease.server)))
}

/// Refuses to write to a record of another server, or under a lease that is over.
pub(super) fn fence(tx: &Tx<'_, impl Sql>, owner: Option<ServerId>) -> Result<(), StoreError> {
    let Some(owner) = owner.filter(|owner| tx.taking != Some(*owner)) else { return Ok(()) };
    match tx.standing.lease {
        Some(lease) if lease.server == owner => require_valid(tx, lease),
        _ => Err(refusal::of_another(owner)),
    }
}

/// Does the same for records of a run. A run that does not exist passes: the code that needs it
/// refuses it with its own message.
pub(super) async fn fence_run(
    tx: &Tx<'_, impl Sql>,
    run: Option<RunKey>,
) -> Result<(), StoreError> {
    let Some(run) = run else { return Ok(()) };
    let owner = tx
        .conn
        .one(
            "SELECT r.server FROM runs r JOIN sessions s ON s.id = r.session
             WHERE s.uuid = ?1 AND r.n = ?2",
            params![run.session, run.n],
            |row| row.maybe(0),
        )
        .await?;
    fence(tx, owner.flatten())
}

/// Refuses a session in which another server has a run open.
pub(super) async fn require_not_elsewhere(
    tx: &Tx<'_, impl Sql>,
    session_row: i64,
    session: SessionId,
) -> Result<(), StoreError> {
    let me = tx.standing.lease.map(|lease| lease.server);
    let elsewhere = tx
        .conn
        .one(
            "SELECT n FROM runs
             WHERE session = ?1 AND ended_at IS NULL AND server IS NOT NULL
                 AND server IS DISTINCT FROM ?2 LIMIT 1",
            params![session_row, me],
            |row| row.get(0),
        )
        .await?;
    match elsewhere {
        Some(n) => Err(refusal::runs_elsewhere(&runs::get(tx.conn, RunKey { session, n }).await?)),
        None => Ok(()),
    }
}

// Leases.

/// The longest lease, so that its end always fits into a column.
const MAX_LEASE: Duration = Duration::from_millis(1 << 45);

pub(super) async fn register(
    tx: &mut Tx<'_, impl Sql>,
    new: &RegisterServer,
) -> Result<Outcome, StoreError> {
    lock(tx.conn, new.id).await?;
    let now = tx.conn.clock().await?;
    let until = now.plus(new.lease.min(MAX_LEASE));
    let epoch = tx
        .conn
        .one(
            "INSERT INTO servers (uuid, name, url, epoch, state, heartbeat_at, lease_until)
             VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6) ON CONFLICT (uuid) DO UPDATE
             SET name = excluded.name, url = excluded.url, epoch = servers.epoch + 1,
                 state = excluded.state, heartbeat_at = excluded.heartbeat_at,
                 lease_until = excluded.lease_until RETURNING epoch",
            params![new.id, new.name, new.url, ServerState::Alive, now, until],
            |row| row.get(0),
        )
        .await?;
    let lease = Lease { server: new.id, epoch: epoch.unwrap_or(1) };
    tx.standing = Standing { lease: Some(lease), valid: true };
    Ok(Outcome::Lease(lease))
}

pub(super) async fn renew(
    tx: &mut Tx<'_, impl Sql>,
    renew: RenewLease,
) -> Result<Outcome, StoreError> {
    let lease = renew.lease;
    // The clock is read after the lock: a lease that ran out while this waited is over.
    lock(tx.conn, lease.server).await?;
    let now = tx.conn.clock().await?;
    let changed = tx
        .conn
        .run(
            "UPDATE servers SET heartbeat_at = ?3, lease_until = ?4
             WHERE uuid = ?1 AND epoch = ?2 AND state = 0 AND lease_until > ?3",
            params![lease.server, lease.epoch, now, now.plus(renew.lasts.min(MAX_LEASE))],
        )
        .await?;
    if changed == 0 { Err(refusal::lease_over(lease)) } else { Ok(Outcome::Done) }
}

pub(super) async fn retire(tx: &mut Tx<'_, impl Sql>, lease: Lease) -> Result<Outcome, StoreError> {
    lock(tx.conn, lease.server).await?;
    let standing = get(tx.conn, lease.server).await?;
    refusal::retirement(lease, &standing)?;
    tx.conn
        .run(
            "UPDATE servers SET state = ?2 WHERE uuid = ?1",
            params![lease.server, ServerState::Retired],
        )
        .await?;
    tx.standing.lease = tx.standing.lease.filter(|mine| *mine != lease);
    Ok(Outcome::Done)
}

pub(super) async fn take_over(
    tx: &mut Tx<'_, impl Sql>,
    over: &TakeOver,
) -> Result<Outcome, StoreError> {
    let server = over.lease.server;
    // Waits for transactions under that lease; from here on there are none.
    lock(tx.conn, server).await?;
    let standing = get(tx.conn, server).await?;
    refusal::takeover(over, &standing)?;
    tx.conn
        .run(
            "UPDATE servers SET state = ?2, epoch = epoch + 1 WHERE uuid = ?1",
            params![server, ServerState::TakenOver],
        )
        .await?;
    tx.taking = Some(server);
    tx.conn
        .lock(
            "SELECT id FROM sessions
             WHERE id IN (SELECT session FROM runs WHERE server = ?1 AND ended_at IS NULL)
                 OR id IN (SELECT session FROM chat_streams WHERE server = ?1 AND status = 0)
             ORDER BY id FOR NO KEY UPDATE",
            params![server],
        )
        .await?;
    let mut taken = TakenOver {
        runs: tx
            .conn
            .all(
                "SELECT s.uuid, r.n FROM runs r JOIN sessions s ON s.id = r.session
                 WHERE r.server = ?1 AND r.ended_at IS NULL ORDER BY r.id",
                params![server],
                |row| Ok(RunKey { session: row.get(0)?, n: row.get(1)? }),
            )
            .await?,
        chats: tx
            .conn
            .all(
                "SELECT s.uuid, c.number FROM chat_streams c JOIN sessions s ON s.id = c.session
                 WHERE c.server = ?1 AND c.status = 0 AND s.deleted_at IS NULL ORDER BY c.id",
                params![server],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .await?,
        ..TakenOver::default()
    };
    for id in open_approvals(tx.conn, server).await? {
        let record = approvals::get(tx.conn, id).await?;
        if let Some(chat) = parking::let_go(tx, &record, over).await? {
            taken.chats.retain(|it| *it != (record.session, chat));
            taken.parked.push(id);
            continue;
        }
        if record.status == ApprovalStatus::Pending {
            approvals::decide(tx, over.cancel(&record)?).await?;
            taken.cancelled.push(id);
        } else {
            taken.voided.push(id);
        }
        approvals::settle(tx, over.void(id)).await?;
    }
    for (session, chat) in &taken.chats {
        chats::end(tx, over.end_chat(*session, *chat)?).await?;
    }
    for run in &taken.runs {
        runs::end(tx, &over.end_run(*run)).await?;
        super::tokens::revoke(tx, RevokeTokens::Run(*run)).await?;
        super::rules::remove(tx, RemoveRules::EndingWith(*run)).await?;
    }
    tx.taking = None;
    Ok(Outcome::TakenOver(taken))
}

/// Locks a server's row against every transaction under its lease.
async fn lock(conn: &impl Sql, server: ServerId) -> Result<(), StoreError> {
    conn.lock("SELECT id FROM servers WHERE uuid = ?1 FOR UPDATE", params![server]).await
}

/// Returns the approvals of a server's open runs and chats that are pending, or whose answer has
/// not arrived.
async fn open_approvals(conn: &impl Sql, server: ServerId) -> Result<Vec<ApprovalId>, StoreError> {
    conn.all(
        "SELECT a.uuid FROM loopback_approvals a
         WHERE a.delivered_at IS NULL AND a.void_at IS NULL
                     AND (EXISTS (SELECT 1 FROM runs r
                         WHERE r.session = a.session AND r.n = a.run AND r.server = ?1
                             AND r.ended_at IS NULL)
                     OR EXISTS (SELECT 1 FROM chat_streams c
                         WHERE c.session = a.session AND c.number = a.chat
                             AND c.server = ?1 AND c.status = 0)) ORDER BY a.id",
        params![server],
        |row| row.get(0),
    )
    .await
}

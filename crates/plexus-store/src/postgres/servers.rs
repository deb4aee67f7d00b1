//! Servers in SQL. Leases are counted by the database's clock, and locked by every transaction that writes under them.

use std::time::Duration;

use plexus_core::{ApprovalId, ServerId, SessionId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::codes::{server_state, server_state_code};
use super::sql::{Columns, Conn, blob, int, params};
use super::tx::Tx;
use super::{approvals, chats, runs};
use crate::contract::{
    ApprovalStatus, Lease, Outcome, RegisterServer, RemoveRules, RenewLease, RevokeTokens, RunKey,
    Server, ServerState, StoreError, TakeOver, TakenOver, Thing, refusal,
};

/// The database's clock, in milliseconds since 1970. The servers' own clocks may differ, and none of them decides about a lease.
macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::int8"
    };
}

macro_rules! select_server {
    ($rest:literal) => {
        concat!(
            "SELECT v.uuid, v.epoch, v.name, v.url, v.state, greatest(v.lease_until - ",
            now!(),
            ", 0), greatest(",
            now!(),
            " - v.heartbeat_at, 0),
                    (SELECT count(*) FROM runs WHERE server = v.uuid AND ended_at IS NULL),
                    (SELECT count(*) FROM chat_streams c JOIN sessions s ON s.id = c.session
                     WHERE c.server = v.uuid AND c.status = 0 AND s.deleted_at IS NULL)
             FROM servers v ",
            $rest
        )
    };
}

fn read(row: &Row) -> Result<Server, StoreError> {
    let (lease_left, stored) =
        (Duration::from_millis(row.count(5)?), server_state(4, row.col(4)?)?);
    Ok(Server {
        lease: Lease { server: ServerId::from_uuid(row.uuid(0)?), epoch: row.count(1)? },
        name: row.col(2)?,
        url: row.col(3)?,
        state: if stored == ServerState::Alive && lease_left == Duration::ZERO {
            ServerState::Expired
        } else {
            stored
        },
        lease_left,
        heartbeat_age: Duration::from_millis(row.count(6)?),
        open_runs: row.count(7)?,
        open_chats: row.count(8)?,
    })
}

pub(super) async fn list(conn: &Conn) -> Result<Vec<Server>, StoreError> {
    conn.all(select_server!("ORDER BY v.id"), &[], read).await
}

async fn get(conn: &Conn, id: ServerId) -> Result<Server, StoreError> {
    conn.one(select_server!("WHERE v.uuid = $1"), params![blob(id.as_uuid())], read)
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Server, id))
}

// The fence.

/// The statement that locks a lease which stands by the database's clock.
pub(super) const LOCK_LEASE: &str = concat!(
    "SELECT 1 FROM servers WHERE uuid = $1 AND epoch = $2 AND state = 0 AND lease_until > ",
    now!(),
    " FOR SHARE"
);

/// Locks a lease, so that nobody ends it before this transaction does. Returns whether it stands by the database's clock.
pub(super) async fn lock_lease(conn: &Conn, lease: Lease) -> Result<bool, StoreError> {
    let (server, epoch) = (blob(lease.server.as_uuid()), int(lease.epoch));
    Ok(conn.one(LOCK_LEASE, params![server, epoch], |_| Ok(())).await?.is_some())
}

/// Refuses a lease that does not stand, or had run out when the transaction began.
fn require_valid(tx: &Tx<'_>, lease: Lease) -> Result<(), StoreError> {
    if tx.valid { Ok(()) } else { Err(refusal::lease_over(lease)) }
}

/// Returns whose a new run or chat is: the server's this handle writes as, whose lease must stand.
pub(super) fn begins(tx: &Tx<'_>) -> Result<Option<ServerId>, StoreError> {
    tx.lease.map_or(Ok(None), |lease| require_valid(tx, lease).map(|()| Some(lease.server)))
}

/// Refuses to write to what belongs to another server, or under a lease that is over.
pub(super) fn fence(tx: &Tx<'_>, owner: Option<ServerId>) -> Result<(), StoreError> {
    let Some(owner) = owner.filter(|owner| tx.taking != Some(*owner)) else { return Ok(()) };
    match tx.lease {
        Some(lease) if lease.server == owner => require_valid(tx, lease),
        _ => Err(refusal::of_another(owner)),
    }
}

/// The same, for what belongs to a run. One that is not there is refused by whoever needs it, in words of its own.
pub(super) async fn fence_run(tx: &Tx<'_>, run: Option<RunKey>) -> Result<(), StoreError> {
    let Some(run) = run else { return Ok(()) };
    let owner = tx
        .conn
        .one(
            "SELECT r.server FROM runs r JOIN sessions s ON s.id = r.session WHERE s.uuid = $1 AND r.n = $2",
            params![blob(run.session.as_uuid()), run.n],
            |row| row.maybe_uuid(0),
        )
        .await?;
    fence(tx, owner.flatten().map(ServerId::from_uuid))
}

/// Refuses a session in which another server has a run open.
pub(super) async fn require_not_elsewhere(
    tx: &Tx<'_>,
    session_row: i64,
    session: SessionId,
) -> Result<(), StoreError> {
    let me = tx.lease.map(|lease| blob(lease.server.as_uuid()));
    let elsewhere = tx.conn.one(
        "SELECT n FROM runs WHERE session = $1 AND ended_at IS NULL AND server IS NOT NULL AND server IS DISTINCT FROM $2 LIMIT 1",
        params![session_row, me],
        |row| row.col(0),
    ).await?;
    match elsewhere {
        Some(n) => Err(refusal::runs_elsewhere(&runs::get(tx.conn, RunKey { session, n }).await?)),
        None => Ok(()),
    }
}

// Leases.

/// A length of time as it is added to the database's clock.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).min(1 << 45)
}

pub(super) async fn register(tx: &mut Tx<'_>, new: &RegisterServer) -> Result<Outcome, StoreError> {
    let epoch = tx
        .conn
        .one(
            concat!(
                "INSERT INTO servers (uuid, name, url, epoch, state, heartbeat_at, lease_until) VALUES ($1, $2, $3, 1, $4, ",
                now!(),
                ", ",
                now!(),
                " + $5) ON CONFLICT (uuid) DO UPDATE SET name = EXCLUDED.name, url = EXCLUDED.url, epoch = servers.epoch + 1,
                     state = EXCLUDED.state, heartbeat_at = EXCLUDED.heartbeat_at, lease_until = EXCLUDED.lease_until
                 RETURNING epoch"
            ),
            params![
                blob(new.id.as_uuid()),
                new.name,
                new.url,
                server_state_code(ServerState::Alive),
                millis(new.lease)
            ],
            |row| row.count(0),
        )
        .await?;
    let lease = Lease { server: new.id, epoch: epoch.unwrap_or(1) };
    (tx.lease, tx.valid) = (Some(lease), true);
    Ok(Outcome::Lease(lease))
}

pub(super) async fn renew(tx: &mut Tx<'_>, renew: RenewLease) -> Result<Outcome, StoreError> {
    let lease = renew.lease;
    let changed = tx
        .conn
        .run(
            concat!(
                "UPDATE servers SET heartbeat_at = ",
                now!(),
                ", lease_until = ",
                now!(),
                " + $3 WHERE uuid = $1 AND epoch = $2 AND state = 0 AND lease_until > ",
                now!()
            ),
            params![blob(lease.server.as_uuid()), int(lease.epoch), millis(renew.lasts)],
        )
        .await?;
    if changed == 0 { Err(refusal::lease_over(lease)) } else { Ok(Outcome::Done) }
}

pub(super) async fn retire(tx: &mut Tx<'_>, lease: Lease) -> Result<Outcome, StoreError> {
    lock(tx.conn, lease.server).await?;
    let standing = get(tx.conn, lease.server).await?;
    refusal::retirement(lease, &standing)?;
    tx.conn
        .run(
            "UPDATE servers SET state = $2 WHERE uuid = $1",
            params![blob(lease.server.as_uuid()), server_state_code(ServerState::Retired)],
        )
        .await?;
    tx.lease = tx.lease.filter(|mine| *mine != lease);
    Ok(Outcome::Done)
}

pub(super) async fn take_over(tx: &mut Tx<'_>, over: &TakeOver) -> Result<Outcome, StoreError> {
    let server = over.lease.server;
    // Waits for whoever writes under that lease; from here on nobody does.
    lock(tx.conn, server).await?;
    let standing = get(tx.conn, server).await?;
    refusal::takeover(over, &standing)?;
    let uuid = blob(server.as_uuid());
    tx.conn
        .run(
            "UPDATE servers SET state = $2, epoch = epoch + 1 WHERE uuid = $1",
            params![uuid, server_state_code(ServerState::TakenOver)],
        )
        .await?;
    tx.taking = Some(server);
    tx.conn
        .run(
            "SELECT id FROM sessions WHERE id IN (SELECT session FROM runs WHERE server = $1 AND ended_at IS NULL)
             OR id IN (SELECT session FROM chat_streams WHERE server = $1 AND status = 0) ORDER BY id FOR NO KEY UPDATE",
            params![uuid],
        )
        .await?;
    let mut taken = TakenOver {
        runs: tx.conn.all(
            "SELECT s.uuid, r.n FROM runs r JOIN sessions s ON s.id = r.session WHERE r.server = $1 AND r.ended_at IS NULL ORDER BY r.id",
            params![uuid],
            |row| Ok(RunKey { session: row.session(0)?, n: row.col(1)? }),
        ).await?,
        chats: tx.conn.all(
            "SELECT s.uuid, c.number FROM chat_streams c JOIN sessions s ON s.id = c.session
             WHERE c.server = $1 AND c.status = 0 AND s.deleted_at IS NULL ORDER BY c.id",
            params![uuid],
            |row| Ok((row.session(0)?, row.col(1)?)),
        ).await?,
        ..TakenOver::default()
    };
    for id in open_approvals(tx.conn, &uuid).await? {
        let record = approvals::get(tx.conn, id).await?;
        if record.status == ApprovalStatus::Pending {
            approvals::decide(tx, over.cancel(&record)).await?;
            taken.cancelled.push(id);
        } else {
            taken.voided.push(id);
        }
        approvals::settle(tx, over.void(id)).await?;
    }
    for (session, chat) in &taken.chats {
        chats::end(tx, over.end_chat(*session, *chat)).await?;
    }
    for run in &taken.runs {
        runs::end(tx, &over.end_run(*run)).await?;
        super::tokens::revoke(tx, RevokeTokens::Run(*run)).await?;
        super::rules::remove(tx, RemoveRules::EndingWith(*run)).await?;
    }
    tx.taking = None;
    Ok(Outcome::TakenOver(taken))
}

/// Locks a server's row against everybody who writes under its lease.
async fn lock(conn: &Conn, server: ServerId) -> Result<(), StoreError> {
    conn.run("SELECT id FROM servers WHERE uuid = $1 FOR UPDATE", params![blob(server.as_uuid())])
        .await
        .map(drop)
}

/// Returns the approvals of a server's open runs and chats that are pending, or whose answer has not arrived.
async fn open_approvals(conn: &Conn, server: &Uuid) -> Result<Vec<ApprovalId>, StoreError> {
    conn.all(
        "SELECT a.uuid FROM loopback_approvals a WHERE a.delivered_at IS NULL AND a.void_at IS NULL AND (
             EXISTS (SELECT 1 FROM runs r WHERE r.session = a.session AND r.n = a.run AND r.server = $1 AND r.ended_at IS NULL)
             OR EXISTS (SELECT 1 FROM chat_streams c WHERE c.session = a.session AND c.number = a.chat AND c.server = $1 AND c.status = 0))
         ORDER BY a.id",
        params![server],
        |row| row.uuid(0).map(ApprovalId::from_uuid),
    ).await
}

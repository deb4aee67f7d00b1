//! Parking in SQL: each step is an `UPDATE` that names the place it begins at, and whoever changes
//! the row has won.

use super::approvals::{concerns, fence, get};
use super::servers;
use super::sql::{Sql, params};
use super::tx::Tx;
use crate::contract::{
    ApprovalStatus, Fresh, Outcome, ParkApproval, ParkStep, RunKey, StoreError, refusal,
};

pub(super) async fn step(
    tx: &mut Tx<'_, impl Sql>,
    park: ParkApproval,
) -> Result<Outcome, StoreError> {
    // The run that asked, whether or not it has ended, belongs to the server that may do this.
    fence(tx, park.id).await?;
    let conn = tx.conn;
    let standing = get(conn, park.id).await?;
    let changed = match &park.step {
        ParkStep::Begin => {
            conn.run(
                "UPDATE loopback_approvals SET parking = 0
                 WHERE uuid = ?1 AND parking IS NULL AND status = 0",
                params![park.id],
            )
            .await?
        }
        ParkStep::Done(facts) => {
            conn.run(
                "UPDATE loopback_approvals SET parking = 1, parked = ?2
                 WHERE uuid = ?1 AND parking = 0",
                params![park.id, facts],
            )
            .await?
        }
        ParkStep::Stay => {
            conn.run(
                "UPDATE loopback_approvals SET parking = NULL WHERE uuid = ?1 AND parking = 0",
                params![park.id],
            )
            .await?
        }
        ParkStep::Wake => {
            conn.run(
                "UPDATE loopback_approvals SET parking = 2
                 WHERE uuid = ?1 AND parking = 1 AND status <> 0 AND void_at IS NULL",
                params![park.id],
            )
            .await?
        }
        // The woken process may have asked, and died before the call had its result.
        ParkStep::Again(facts) => {
            conn.run(
                "UPDATE loopback_approvals SET parking = 1, parked = ?2, delivered_at = NULL
                 WHERE uuid = ?1 AND parked IS NOT NULL AND status <> 0 AND void_at IS NULL
                     AND (parking IS NULL OR parking = 2)",
                params![park.id, facts],
            )
            .await?
        }
        ParkStep::Asked { run, request_id, at } => {
            servers::fence_run(tx, Some(RunKey { session: standing.session, n: *run })).await?;
            let sent = (standing.status == ApprovalStatus::Allowed).then_some(*at);
            conn.run(
                "UPDATE loopback_approvals
                 SET parking = NULL, run = ?2, request_id = ?3, allow_sent_at = ?4
                 WHERE uuid = ?1 AND parking = 2 AND allow_sent_at IS NULL",
                params![park.id, *run, request_id, sent],
            )
            .await?
        }
        ParkStep::GiveUp => {
            conn.run(
                "UPDATE loopback_approvals SET parking = NULL
                 WHERE uuid = ?1 AND parking IS NOT NULL AND parking <> 0",
                params![park.id],
            )
            .await?
        }
    };
    if changed == 0 {
        return Err(refusal::parked_elsewhere(&standing));
    }
    let record = get(conn, park.id).await?;
    concerns(tx, &record).await?;
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

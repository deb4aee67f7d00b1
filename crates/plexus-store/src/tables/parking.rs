//! Parking in SQL: each step is an `UPDATE` that names the place it begins at, and whoever changes
//! the row has won.

use plexus_core::SessionId;

use super::approvals::{concerns, fence, get};
use super::sql::{Sql, params};
use super::tx::Tx;
use super::{chats, events, servers, sessions};
use crate::contract::{
    ApprovalRecord, ApprovalStatus, ChatStatus, Fresh, KeepTranscript, Outcome, ParkApproval,
    ParkStep, Parking, RunKey, StoreError, TakeOver, refusal,
};

pub(super) async fn step(
    tx: &mut Tx<'_, impl Sql>,
    park: ParkApproval,
) -> Result<Outcome, StoreError> {
    // Whoever owns the run that asked, or the chat of a parked agent, may do this.
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
        ParkStep::Adopt(facts) => {
            let adopted = conn
                .run(
                    "UPDATE loopback_approvals SET parked = ?2
                     WHERE uuid = ?1 AND parking = 1 AND status <> 0 AND void_at IS NULL",
                    params![park.id, facts],
                )
                .await?;
            match adopted {
                0 => 0,
                _ => adopt_chat(tx, &standing).await?,
            }
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

/// Makes the open chat of a parked agent, which no server owns, a chat of this server. Returns how
/// many chats that were.
async fn adopt_chat(tx: &Tx<'_, impl Sql>, record: &ApprovalRecord) -> Result<u64, StoreError> {
    let server = servers::begins(tx)?;
    let Some(number) = record.chat else { return Ok(0) };
    let chat = chats::row_of(tx.conn, record.session, number).await?;
    tx.conn
        .run(
            "UPDATE chat_streams SET server = ?2
             WHERE id = ?1 AND server IS NULL AND status = 0",
            params![chat.id, server],
        )
        .await
}

// Transcripts.

pub(super) async fn keep_transcript(
    tx: &mut Tx<'_, impl Sql>,
    keep: &KeepTranscript,
) -> Result<Outcome, StoreError> {
    let chat = chats::require_open(tx, keep.session, keep.chat).await?;
    tx.conn
        .run(
            "INSERT INTO parked_transcripts (chat, data) VALUES (?1, ?2)
             ON CONFLICT (chat) DO UPDATE SET data = excluded.data",
            params![chat.id, keep.data],
        )
        .await?;
    Ok(Outcome::Done)
}

/// Removes the transcript of a chat that has ended.
pub(super) async fn drop_transcript(tx: &Tx<'_, impl Sql>, chat: i64) -> Result<(), StoreError> {
    let sql = "DELETE FROM parked_transcripts WHERE chat = ?1";
    tx.conn.run(sql, params![chat]).await.map(drop)
}

pub(crate) async fn transcript(
    conn: &impl Sql,
    session: SessionId,
    chat: u32,
) -> Result<Option<Vec<u8>>, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    conn.one(
        "SELECT p.data FROM parked_transcripts p JOIN chat_streams c ON c.id = p.chat
         WHERE c.session = ?1 AND c.number = ?2",
        params![row, chat],
        |row| row.get(0),
    )
    .await
}

/// During a takeover: leaves an agent parked whose transcript is here, in a chat that belongs to no
/// server any more. Returns the chat; `None` when the agent does not stay.
pub(super) async fn let_go(
    tx: &mut Tx<'_, impl Sql>,
    record: &ApprovalRecord,
    over: &TakeOver,
) -> Result<Option<u32>, StoreError> {
    let has_no_process = matches!(record.parking, Some(Parking::Parked | Parking::Waking));
    let Some(number) = record.chat.filter(|_| has_no_process) else { return Ok(None) };
    let chat = chats::row_of(tx.conn, record.session, number).await?;
    let is_open = chat.status == ChatStatus::Running && chat.server == Some(over.lease.server);
    let is_here = "SELECT 1 FROM parked_transcripts WHERE chat = ?1";
    if !is_open || !tx.conn.any(is_here, params![chat.id]).await? {
        return Ok(None);
    }
    let sql = "UPDATE chat_streams SET server = NULL WHERE id = ?1";
    tx.conn.run(sql, params![chat.id]).await?;
    events::append_rows(tx, chat.id, &[over.stays_parked()?]).await?;
    tx.touch(chat.session, record.session);
    concerns(tx, record).await?;
    Ok(Some(number))
}

//! Approvals in SQL: every change is an `UPDATE` that names the state it expects, and whoever
//! changes the row has won.

use std::collections::HashMap;

use plexus_core::{ApprovalId, SessionId};
use plexus_wire::Refused;

use super::codes::{decided_by, decided_by_columns, owner};
use super::sessions::rows_below;
use super::sql::{Row, Sql, params};
use super::tx::Tx;
use super::{chats, events, servers, sessions};
use crate::contract::limits::{MAX_PAGE_ITEMS, REFUSED_AMONG};
use crate::contract::{
    ApprovalFilter, ApprovalRecord, ChatStatus, DecideApproval, Decision, Due, EscalateApproval,
    Fate, Fresh, NewEvent, OpenApproval, Outcome, Owner, Page, PageRequest, RunKey, SettleApproval,
    Stage, StoreError, Thing, Topic, UnixMillis, Verdict, refusal,
};

macro_rules! select_approval {
    ($rest:expr) => {
        concat!(
            "SELECT a.id, a.uuid, s.uuid, a.chat, a.run, a.channel, a.request_id, a.tool_name,
                 a.tool_use_id, a.input, a.input_digest, a.description, a.suggestions, a.owner,
                 a.escalations, a.status, a.created_at, a.deadline, a.escalate_at, a.decided_at,
                 a.decided_by, a.decided_ref, a.message, a.updated_input, a.delivered_at,
                 a.void_at, a.breach, a.retired, a.parking, a.parked, a.allow_sent_at,
                 a.person_only
             FROM loopback_approvals a
             JOIN sessions s ON s.id = a.session ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<ApprovalRecord, StoreError> {
    let decision = match row.maybe(19)? {
        None => None,
        Some(at) => Some(Decision {
            by: decided_by(row.get(20)?, row.maybe(21)?)?,
            at,
            message: row.maybe(22)?,
            updated_input: row.maybe(23)?,
        }),
    };
    Ok(ApprovalRecord {
        id: row.get(1)?,
        session: row.get(2)?,
        chat: row.maybe(3)?,
        run: row.maybe(4)?,
        channel: row.get(5)?,
        request_id: row.get(6)?,
        tool_name: row.get(7)?,
        tool_use_id: row.get(8)?,
        input: row.get(9)?,
        input_digest: row.get(10)?,
        description: row.maybe(11)?,
        suggestions: row.get(12)?,
        owner: owner(row.maybe(13)?),
        escalations: row.get(14)?,
        status: row.get(15)?,
        created_at: row.get(16)?,
        deadline: row.maybe(17)?,
        escalate_at: row.maybe(18)?,
        decision,
        delivered_at: row.maybe(24)?,
        void_at: row.maybe(25)?,
        breach: row.maybe(26)?,
        retired: row.get(27)?,
        parking: row.maybe(28)?,
        parked: row.maybe(29)?,
        allow_sent_at: row.maybe(30)?,
        person_only: row.maybe(31)?,
    })
}

// Reading.

pub(crate) async fn get(conn: &impl Sql, id: ApprovalId) -> Result<ApprovalRecord, StoreError> {
    conn.one(select_approval!("WHERE a.uuid = ?1"), params![id], read)
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Approval, id))
}

pub(crate) async fn by_request<C: Sql>(
    conn: &C,
    session: SessionId,
    run: Option<u32>,
    request_id: &str,
) -> Result<Option<ApprovalRecord>, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    let sql = format!(
        "{} AND a.retired = {}",
        select_approval!("WHERE a.session = ?1 AND coalesce(a.run, -1) = ?2 AND a.request_id = ?3"),
        C::FALSE
    );
    conn.one(&sql, params![row, run.map_or(-1, i64::from), request_id], read).await
}

pub(crate) async fn list(
    conn: &impl Sql,
    filter: &ApprovalFilter,
    page: PageRequest,
) -> Result<Page<ApprovalRecord>, StoreError> {
    let of = filter.session.or(filter.run.map(|run| run.session));
    let session = sessions::maybe_row_of(conn, of).await?;
    if filter.run.is_some_and(|run| filter.session.is_some_and(|session| session != run.session)) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let under = sessions::maybe_row_of(conn, filter.under).await?;
    // Each stage is a literal, so that the partial index made for it can serve.
    let (stage, oldest_first) = match filter.stage {
        Stage::Any => ("TRUE", false),
        Stage::Pending => ("a.status = 0", true),
        Stage::Decided => ("a.status <> 0", false),
        Stage::Undelivered => {
            ("a.status <> 0 AND a.delivered_at IS NULL AND a.void_at IS NULL", true)
        }
        Stage::Parked => ("a.parking IS NOT NULL", true),
        Stage::ToWake => ("a.parking IS NOT NULL AND a.parking = 1 AND a.status <> 0", true),
        Stage::Waking => ("a.parking IS NOT NULL AND a.parking = 2", true),
    };
    let session_is = if session.is_some() { "a.session = ?2" } else { "?2 IS NULL" };
    let owner_is = match filter.owner {
        None => "?3 IS NULL",
        Some(Owner::Operator) => "a.owner IS NULL AND ?3 IS NULL",
        Some(Owner::Session(_)) => "a.owner = ?3",
    };
    let under_is =
        if under.is_some() { concat!("a.session IN ", rows_below!("?5")) } else { "?5 IS NULL" };
    let (beyond, order) = if oldest_first { ("a.id > ?1", "ASC") } else { ("a.id < ?1", "DESC") };
    let sql = format!(
        "{} {beyond} AND {stage} AND {session_is} AND {owner_is} AND (?4 IS NULL OR a.run = ?4)
         AND {under_is} AND (?7 IS NULL OR a.created_at <= ?7) ORDER BY a.id {order} LIMIT ?6",
        select_approval!("WHERE")
    );
    let limit = page.bounded();
    let start = page.after.map_or(if oldest_first { 0 } else { u64::MAX }, |token| token.0);
    let rows = conn
        .all(
            &sql,
            params![
                start,
                session,
                filter.owner,
                filter.run.map(|run| run.n),
                under,
                limit + 1,
                filter.asked_until
            ],
            |row| Ok((row.get(0)?, read(row)?)),
        )
        .await?;
    Ok(Page::of(rows, limit))
}

pub(crate) async fn refused(
    conn: &impl Sql,
    chats: &[(SessionId, u32)],
) -> Result<HashMap<SessionId, Refused>, StoreError> {
    let sql = "SELECT count(CASE WHEN x.status = 2 THEN 1 END),
                      count(CASE WHEN x.status = 3 THEN 1 END)
               FROM (SELECT a.chat, a.status FROM loopback_approvals a
                     WHERE a.session = (SELECT s.id FROM sessions s WHERE s.uuid = ?1)
                     ORDER BY a.id DESC LIMIT ?3) AS x WHERE x.chat = ?2";
    let mut all = HashMap::new();
    for (session, chat) in chats {
        let read = |row: &Row<'_>| Ok(Refused { denied: row.get(0)?, expired: row.get(1)? });
        let counted = conn.one(sql, params![session, chat, REFUSED_AMONG], read).await?;
        all.extend(counted.filter(|counts| !counts.is_none()).map(|counts| (*session, counts)));
    }
    Ok(all)
}

pub(crate) async fn due(conn: &impl Sql, now: UnixMillis) -> Result<Due, StoreError> {
    let expired = conn
        .all(
            select_approval!(
                "WHERE a.status = 0 AND a.deadline IS NOT NULL AND a.deadline <= ?1
                 ORDER BY a.deadline, a.id LIMIT ?2"
            ),
            params![now, MAX_PAGE_ITEMS],
            read,
        )
        .await?;
    let to_escalate = conn
        .all(
            select_approval!(
                "WHERE a.status = 0 AND a.escalate_at IS NOT NULL AND a.escalate_at <= ?1
                     AND (a.deadline IS NULL OR a.deadline > ?1) ORDER BY a.escalate_at, a.id
                 LIMIT ?2"
            ),
            params![now, MAX_PAGE_ITEMS],
            read,
        )
        .await?;
    if expired.len() == MAX_PAGE_ITEMS || to_escalate.len() == MAX_PAGE_ITEMS {
        return Ok(Due { expired, to_escalate, next: Some(now) });
    }
    let next = conn
        .one(
            "SELECT min(t)
             FROM (SELECT min(deadline) AS t FROM loopback_approvals WHERE status = 0
                 AND deadline IS NOT NULL AND deadline > ?1 UNION ALL SELECT min(escalate_at)
                 FROM loopback_approvals WHERE status = 0 AND escalate_at IS NOT NULL
                 AND escalate_at > ?1) AS times",
            params![now],
            |row| row.maybe(0),
        )
        .await?;
    Ok(Due { expired, to_escalate, next: next.flatten() })
}

// Writing.

/// Appends an event to a chat if that is open: a question may outlive its chat, or never have had
/// one.
async fn append_if_open(
    tx: &mut Tx<'_, impl Sql>,
    session: SessionId,
    chat: Option<u32>,
    event: Option<&NewEvent>,
) -> Result<(), StoreError> {
    let (Some(chat), Some(event)) = (chat, event) else { return Ok(()) };
    let row = chats::row_of(tx.conn, session, chat).await?;
    if row.status == ChatStatus::Running {
        events::append_rows(tx, row.id, std::slice::from_ref(event)).await?;
        tx.touch(row.session, session);
    }
    Ok(())
}

/// Notes whom a change of this approval concerns.
pub(super) async fn concerns(
    tx: &mut Tx<'_, impl Sql>,
    record: &ApprovalRecord,
) -> Result<(), StoreError> {
    let row = sessions::row_of(tx.conn, record.session).await?;
    tx.touch(row, record.session);
    tx.topics.push(Topic::Approval(record.id));
    if record.parking.is_some() {
        tx.topics.push(Topic::Parked);
    }
    Ok(())
}

/// The same for a change that adds it to what waits, takes it from there, or passes it on.
async fn concerns_deciders(
    tx: &mut Tx<'_, impl Sql>,
    record: &ApprovalRecord,
) -> Result<(), StoreError> {
    concerns(tx, record).await?;
    tx.topics.extend(waits_for(record.session, record.owner));
    Ok(())
}

/// The topics of those who watch what waits.
pub(super) fn waits_for(session: SessionId, owner: Owner) -> [Topic; 3] {
    [Topic::PendingOf(owner), Topic::PendingIn(session), Topic::Pending]
}

/// Refuses what only the server of the approval's run may write or, while its agent is parked or
/// being woken, the server of its chat: the run that asked has ended then.
pub(super) async fn fence(tx: &Tx<'_, impl Sql>, id: ApprovalId) -> Result<(), StoreError> {
    let owner = tx
        .conn
        .one(
            "SELECT CASE WHEN a.parking > 0 THEN c.server ELSE r.server END
             FROM loopback_approvals a
             LEFT JOIN runs r ON r.session = a.session AND r.n = a.run
             LEFT JOIN chat_streams c ON c.session = a.session AND c.number = a.chat
             WHERE a.uuid = ?1",
            params![id],
            |row| row.maybe(0),
        )
        .await?;
    servers::fence(tx, owner.flatten())
}

pub(super) async fn open(
    tx: &mut Tx<'_, impl Sql>,
    open: OpenApproval,
) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    let session = sessions::get(conn, open.session).await?;
    let row = sessions::row_of(conn, open.session).await?;
    if let Some(standing) = by_request(conn, open.session, open.run, &open.request_id).await? {
        return refusal::asked_before(&open, standing);
    }
    refusal::one_more_question(&session)?;
    if let Some(chat) = open.chat {
        chats::row_of(conn, open.session, chat).await?;
    }
    if let Some(run) = open.run {
        super::runs::require(conn, row, open.session, run).await?;
        servers::fence_run(tx, Some(RunKey { session: open.session, n: run })).await?;
    }
    conn.run(
        "INSERT INTO loopback_approvals (uuid, session, chat, run, channel, request_id,
             tool_name, tool_use_id, input_digest, description, owner, status, created_at,
             deadline, escalate_at, suggestions, input, person_only)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?12, ?13, ?14, ?15, ?16, ?17)",
        params![
            open.id,
            row,
            open.chat,
            open.run,
            open.channel,
            open.request_id,
            open.tool_name,
            open.tool_use_id,
            open.input_digest,
            open.description,
            open.owner,
            open.at,
            open.deadline,
            open.escalate_at,
            open.suggestions,
            open.input,
            open.person_only,
        ],
    )
    .await?;
    append_if_open(tx, open.session, open.chat, open.event.as_ref()).await?;
    if let (Some(parent), Some(event)) = (session.parent, &open.parent_event) {
        let chat = sessions::get(conn, parent).await?.open_chat();
        append_if_open(tx, parent, chat, Some(event)).await?;
    }
    for entry in &open.outbox {
        super::audit::enqueue(tx, entry).await?;
    }
    let record = get(conn, open.id).await?;
    concerns_deciders(tx, &record).await?;
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) async fn decide(
    tx: &mut Tx<'_, impl Sql>,
    decide: DecideApproval,
) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    let standing = get(conn, decide.id).await?;
    if refusal::decision(&decide, &standing)? == Fresh::Found {
        return Ok(Outcome::Approval { record: standing, fresh: Fresh::Found });
    }
    let (by, reference) = decided_by_columns(decide.by);
    // A question that went away wakes nobody.
    let parking = if decide.verdict == Verdict::Cancel { "NULL" } else { "parking" };
    conn.run(
        &format!(
            "UPDATE loopback_approvals
             SET status = ?2, decided_at = ?3, decided_by = ?4, decided_ref = ?5, message = ?6,
                 updated_input = ?7, parking = {parking} WHERE uuid = ?1 AND status = 0"
        ),
        params![
            decide.id,
            decide.verdict.status(),
            decide.at,
            by,
            reference,
            decide.message,
            decide.verdict.updated_input(),
        ],
    )
    .await?;
    append_if_open(tx, standing.session, standing.chat, decide.event.as_ref()).await?;
    for entry in &decide.outbox {
        super::audit::enqueue(tx, entry).await?;
    }
    let record = get(conn, decide.id).await?;
    concerns_deciders(tx, &record).await?;
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) async fn escalate(
    tx: &mut Tx<'_, impl Sql>,
    escalate: EscalateApproval,
) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    let changed = conn
        .run(
            "UPDATE loopback_approvals
             SET owner = ?3, escalate_at = ?4, escalations = escalations + 1
             WHERE uuid = ?1 AND status = 0 AND owner IS NOT DISTINCT
             FROM ?2 AND escalations = ?5",
            params![
                escalate.id,
                escalate.expects_owner,
                escalate.to,
                escalate.escalate_at,
                escalate.expects_escalations,
            ],
        )
        .await?;
    let record = get(conn, escalate.id).await?;
    if changed == 0 {
        return Err(refusal::passed_on(&record));
    }
    append_if_open(tx, record.session, record.chat, escalate.event.as_ref()).await?;
    concerns_deciders(tx, &record).await?;
    tx.topics.push(Topic::PendingOf(escalate.expects_owner));
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) async fn settle(
    tx: &mut Tx<'_, impl Sql>,
    settle: SettleApproval,
) -> Result<Outcome, StoreError> {
    fence(tx, settle.id).await?;
    let sql = match settle.fate {
        Fate::Delivered => {
            "UPDATE loopback_approvals SET delivered_at = ?2
             WHERE uuid = ?1 AND status <> 0 AND delivered_at IS NULL AND void_at IS NULL"
        }
        Fate::Void => {
            "UPDATE loopback_approvals SET void_at = ?2, parking = NULL
             WHERE uuid = ?1 AND status <> 0 AND delivered_at IS NULL AND void_at IS NULL"
        }
    };
    let changed = tx.conn.run(sql, params![settle.id, settle.at]).await?;
    let record = get(tx.conn, settle.id).await?;
    let stands = match settle.fate {
        Fate::Delivered => record.delivered_at.is_some(),
        Fate::Void => record.void_at.is_some(),
    };
    match (changed, stands) {
        (1.., _) => {
            concerns(tx, &record).await?;
            Ok(Outcome::Approval { record, fresh: Fresh::Made })
        }
        (0, true) => Ok(Outcome::Approval { record, fresh: Fresh::Found }),
        (0, false) => Err(refusal::not_to_settle(&record)),
    }
}

pub(super) async fn retire(
    tx: &mut Tx<'_, impl Sql>,
    id: ApprovalId,
) -> Result<Outcome, StoreError> {
    fence(tx, id).await?;
    match tx
        .conn
        .run("UPDATE loopback_approvals SET retired = TRUE WHERE uuid = ?1", params![id])
        .await?
    {
        0 => Err(StoreError::not_found(Thing::Approval, id)),
        _ => {
            tx.topics.push(Topic::Approval(id));
            Ok(Outcome::Done)
        }
    }
}

pub(super) async fn mark_breach(
    tx: &mut Tx<'_, impl Sql>,
    id: ApprovalId,
    what: &str,
) -> Result<Outcome, StoreError> {
    fence(tx, id).await?;
    tx.conn
        .run(
            "UPDATE loopback_approvals SET breach = ?2 WHERE uuid = ?1 AND breach IS NULL",
            params![id, what],
        )
        .await?;
    let record = get(tx.conn, id).await?;
    concerns(tx, &record).await?;
    Ok(Outcome::Done)
}

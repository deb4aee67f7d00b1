//! Approvals in SQL: every change is an `UPDATE` that names the state it expects, and whoever changes the row has won.

use plexus_core::{ApprovalId, ServerId, SessionId};
use rusqlite::{Connection, Row, params};

use super::codes::{
    approval_status, approval_status_code, decided_by, decided_by_code, owner, owner_blob,
};
use super::sql::{Columns, Sql, blob, int};
use super::tx::Tx;
use super::{chats, events, servers, sessions};
use crate::contract::limits::MAX_PAGE_ITEMS;
use crate::contract::{
    ApprovalFilter, ApprovalRecord, ChatStatus, DecideApproval, Decision, Due, EscalateApproval,
    Fate, Fresh, JsonText, NewEvent, OpenApproval, Outcome, Owner, Page, PageRequest, RunKey,
    SettleApproval, Stage, StoreError, Thing, Topic, UnixMillis, refusal,
};

macro_rules! select_approval {
    ($rest:expr) => {
        concat!(
            "SELECT a.id, a.uuid, s.uuid, a.chat, a.run, a.channel, a.request_id, a.tool_name, a.tool_use_id, a.input, a.input_digest,
                    a.description, a.suggestions, a.owner, a.escalations, a.status, a.created_at, a.deadline, a.escalate_at,
                    a.decided_at, a.decided_by, a.decided_ref, a.message, a.updated_input, a.delivered_at, a.void_at, a.breach, a.retired
             FROM loopback_approvals a JOIN sessions s ON s.id = a.session ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> rusqlite::Result<ApprovalRecord> {
    let decision = match row.maybe_time(19)? {
        None => None,
        Some(at) => Some(Decision {
            by: decided_by(20, row.get(20)?, row.maybe_uuid(21)?)?,
            at,
            message: row.get(22)?,
            updated_input: row.maybe_json(23)?,
        }),
    };
    Ok(ApprovalRecord {
        id: ApprovalId::from_uuid(row.uuid(1)?),
        session: row.session(2)?,
        chat: row.get(3)?,
        run: row.get(4)?,
        channel: row.get(5)?,
        request_id: row.get(6)?,
        tool_name: row.get(7)?,
        tool_use_id: row.get(8)?,
        input: row.json(9)?,
        input_digest: row.get(10)?,
        description: row.get(11)?,
        suggestions: row.json(12)?,
        owner: owner(row.maybe_uuid(13)?),
        escalations: row.get(14)?,
        status: approval_status(15, row.get(15)?)?,
        created_at: row.time(16)?,
        deadline: row.maybe_time(17)?,
        escalate_at: row.maybe_time(18)?,
        decision,
        delivered_at: row.maybe_time(24)?,
        void_at: row.maybe_time(25)?,
        breach: row.get(26)?,
        retired: row.get(27)?,
    })
}

// Reading.

pub(super) fn get(conn: &Connection, id: ApprovalId) -> Result<ApprovalRecord, StoreError> {
    conn.one(select_approval!("WHERE a.uuid = ?1"), [blob(id.as_uuid())], read)?
        .ok_or_else(|| StoreError::not_found(Thing::Approval, id))
}

pub(super) fn by_request(
    conn: &Connection,
    session: SessionId,
    run: Option<u32>,
    request_id: &str,
) -> Result<Option<ApprovalRecord>, StoreError> {
    let row = sessions::row_of(conn, session)?;
    conn.one(
        select_approval!("WHERE a.session = ?1 AND coalesce(a.run, -1) = ?2 AND a.request_id = ?3 AND a.retired = 0"),
        params![row, run.map_or(-1, i64::from), request_id],
        read,
    )
}

pub(super) fn list(
    conn: &Connection,
    filter: &ApprovalFilter,
    page: PageRequest,
) -> Result<Page<ApprovalRecord>, StoreError> {
    let session_of = |id: SessionId| sessions::row_of(conn, id);
    let session =
        filter.session.or(filter.run.map(|run| run.session)).map(session_of).transpose()?;
    if filter.run.is_some_and(|run| filter.session.is_some_and(|session| session != run.session)) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let under = filter.under.map(session_of).transpose()?;
    // Each stage is a literal, so that SQLite can use the partial index made for it.
    let (stage, oldest_first) = match filter.stage {
        Stage::Any => ("1", false),
        Stage::Pending => ("a.status = 0", true),
        Stage::Decided => ("a.status <> 0", false),
        Stage::Undelivered => {
            ("a.status <> 0 AND a.delivered_at IS NULL AND a.void_at IS NULL", true)
        }
    };
    let session_is = if session.is_some() { "a.session = ?2" } else { "?2 IS NULL" };
    let owner_is = match filter.owner {
        None => "?3 IS NULL",
        Some(Owner::Operator) => "a.owner IS NULL AND ?3 IS NULL",
        Some(Owner::Session(_)) => "a.owner = ?3",
    };
    let under_is = if under.is_some() {
        "a.session IN (WITH RECURSIVE below (id) AS (
             SELECT id FROM sessions WHERE parent = ?5 UNION ALL SELECT x.id FROM sessions x JOIN below b ON x.parent = b.id
         ) SELECT id FROM below)"
    } else {
        "?5 IS NULL"
    };
    let (beyond, order) = if oldest_first { ("a.id > ?1", "ASC") } else { ("a.id < ?1", "DESC") };
    let sql = format!(
        "{} {beyond} AND {stage} AND {session_is} AND {owner_is} AND (?4 IS NULL OR a.run = ?4) AND {under_is} AND (?7 IS NULL OR a.created_at <= ?7) ORDER BY a.id {order} LIMIT ?6",
        select_approval!("WHERE")
    );
    let limit = page.bounded();
    let start = page.after.map_or(if oldest_first { 0 } else { i64::MAX }, |token| int(token.0));
    let rows = conn.all(
        &sql,
        params![
            start,
            session,
            filter.owner.and_then(owner_blob),
            filter.run.map(|run| run.n),
            under,
            int(limit as u64 + 1),
            filter.asked_until.map(|time| time.0)
        ],
        |row| Ok((row.count(0)?, read(row)?)),
    )?;
    Ok(Page::of(rows, limit))
}

pub(super) fn due(conn: &Connection, now: UnixMillis) -> Result<Due, StoreError> {
    let bound = params![now.0, int(MAX_PAGE_ITEMS as u64)];
    let expired = conn.all(
        select_approval!(
            "WHERE a.status = 0 AND a.deadline IS NOT NULL AND a.deadline <= ?1 ORDER BY a.deadline, a.id LIMIT ?2"
        ),
        bound,
        read,
    )?;
    let to_escalate = conn.all(
        select_approval!(
            "WHERE a.status = 0 AND a.escalate_at IS NOT NULL AND a.escalate_at <= ?1 AND (a.deadline IS NULL OR a.deadline > ?1)
             ORDER BY a.escalate_at, a.id LIMIT ?2"
        ),
        bound,
        read,
    )?;
    if expired.len() == MAX_PAGE_ITEMS || to_escalate.len() == MAX_PAGE_ITEMS {
        return Ok(Due { expired, to_escalate, next: Some(now) });
    }
    let next = conn.one(
        "SELECT min(t) FROM (
             SELECT min(deadline) AS t FROM loopback_approvals WHERE status = 0 AND deadline IS NOT NULL AND deadline > ?1
             UNION ALL
             SELECT min(escalate_at) FROM loopback_approvals WHERE status = 0 AND escalate_at IS NOT NULL AND escalate_at > ?1)",
        [now.0],
        |row| row.maybe_time(0),
    )?;
    Ok(Due { expired, to_escalate, next: next.flatten() })
}

// Writing.

/// Appends an event to a chat if that is open: a question may outlive its chat, or never have had one.
fn append_if_open(
    tx: &mut Tx<'_>,
    session: SessionId,
    chat: Option<u32>,
    event: Option<&NewEvent>,
) -> Result<(), StoreError> {
    let (Some(chat), Some(event)) = (chat, event) else { return Ok(()) };
    let row = chats::row_of(tx.conn, session, chat)?;
    if row.status == ChatStatus::Running {
        events::append_rows(tx, row.id, std::slice::from_ref(event))?;
        tx.touch(row.session, session);
    }
    Ok(())
}

/// Notes whom a change of this approval concerns.
fn concerns(tx: &mut Tx<'_>, record: &ApprovalRecord) -> Result<(), StoreError> {
    let row = sessions::row_of(tx.conn, record.session)?;
    tx.touch(row, record.session);
    tx.topics.extend([Topic::Approval(record.id), Topic::PendingOf(record.owner), Topic::Pending]);
    Ok(())
}

/// Refuses what only the server of the approval's run may write.
fn fence(tx: &Tx<'_>, id: ApprovalId) -> Result<(), StoreError> {
    let owner = tx.conn.one(
        "SELECT r.server FROM loopback_approvals a JOIN runs r ON r.session = a.session AND r.n = a.run WHERE a.uuid = ?1",
        [blob(id.as_uuid())],
        |row| row.maybe_uuid(0),
    )?;
    servers::fence(tx, owner.flatten().map(ServerId::from_uuid))
}

pub(super) fn open(tx: &mut Tx<'_>, open: OpenApproval) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    let session = sessions::get(conn, open.session)?;
    let row = sessions::row_of(conn, open.session)?;
    if let Some(standing) = by_request(conn, open.session, open.run, &open.request_id)? {
        return refusal::asked_before(&open, standing);
    }
    refusal::one_more_question(&session)?;
    if let Some(chat) = open.chat {
        chats::row_of(conn, open.session, chat)?;
    }
    if let Some(run) = open.run {
        super::runs::require(conn, row, open.session, run)?;
        servers::fence_run(tx, Some(RunKey { session: open.session, n: run }))?;
    }
    conn.run(
        "INSERT INTO loopback_approvals (uuid, session, chat, run, channel, request_id, tool_name, tool_use_id, input_digest, description, owner,
                                         status, created_at, deadline, escalate_at, suggestions, input)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?12, ?13, ?14, ?15, ?16)",
        params![
            blob(open.id.as_uuid()),
            row,
            open.chat,
            open.run,
            open.channel,
            open.request_id,
            open.tool_name,
            open.tool_use_id,
            open.input_digest,
            open.description,
            owner_blob(open.owner),
            open.at.0,
            open.deadline.map(|time| time.0),
            open.escalate_at.map(|time| time.0),
            open.suggestions.as_str(),
            open.input.as_str(),
        ],
    )?;
    append_if_open(tx, open.session, open.chat, open.event.as_ref())?;
    if let (Some(parent), Some(event)) = (session.parent, &open.parent_event) {
        let chat = sessions::get(conn, parent)?.open_chat();
        append_if_open(tx, parent, chat, Some(event))?;
    }
    for entry in &open.outbox {
        super::audit::enqueue(tx, entry)?;
    }
    let record = get(conn, open.id)?;
    concerns(tx, &record)?;
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) fn decide(tx: &mut Tx<'_>, decide: DecideApproval) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    let standing = get(conn, decide.id)?;
    if refusal::decision(&decide, &standing)? == Fresh::Found {
        return Ok(Outcome::Approval { record: standing, fresh: Fresh::Found });
    }
    let (by, reference) = decided_by_code(decide.by);
    conn.run(
        "UPDATE loopback_approvals SET status = ?2, decided_at = ?3, decided_by = ?4, decided_ref = ?5, message = ?6, updated_input = ?7
         WHERE uuid = ?1 AND status = 0",
        params![
            blob(decide.id.as_uuid()),
            approval_status_code(decide.verdict.status()),
            decide.at.0,
            by,
            reference,
            decide.message,
            decide.verdict.updated_input().map(JsonText::as_str),
        ],
    )?;
    append_if_open(tx, standing.session, standing.chat, decide.event.as_ref())?;
    for entry in &decide.outbox {
        super::audit::enqueue(tx, entry)?;
    }
    let record = get(conn, decide.id)?;
    concerns(tx, &record)?;
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) fn escalate(tx: &mut Tx<'_>, escalate: EscalateApproval) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    let changed = conn.run(
        "UPDATE loopback_approvals SET owner = ?3, escalate_at = ?4, escalations = escalations + 1
         WHERE uuid = ?1 AND status = 0 AND owner IS ?2 AND escalations = ?5",
        params![
            blob(escalate.id.as_uuid()),
            owner_blob(escalate.expects_owner),
            owner_blob(escalate.to),
            escalate.escalate_at.map(|time| time.0),
            escalate.expects_escalations,
        ],
    )?;
    let record = get(conn, escalate.id)?;
    if changed == 0 {
        return Err(refusal::passed_on(&record));
    }
    append_if_open(tx, record.session, record.chat, escalate.event.as_ref())?;
    concerns(tx, &record)?;
    tx.topics.push(Topic::PendingOf(escalate.expects_owner));
    Ok(Outcome::Approval { record, fresh: Fresh::Made })
}

pub(super) fn settle(tx: &mut Tx<'_>, settle: SettleApproval) -> Result<Outcome, StoreError> {
    fence(tx, settle.id)?;
    let sql = match settle.fate {
        Fate::Delivered => {
            "UPDATE loopback_approvals SET delivered_at = ?2 WHERE uuid = ?1 AND status <> 0 AND delivered_at IS NULL AND void_at IS NULL"
        }
        Fate::Void => {
            "UPDATE loopback_approvals SET void_at = ?2 WHERE uuid = ?1 AND status <> 0 AND delivered_at IS NULL AND void_at IS NULL"
        }
    };
    let changed = tx.conn.run(sql, params![blob(settle.id.as_uuid()), settle.at.0])?;
    let record = get(tx.conn, settle.id)?;
    let stands = match settle.fate {
        Fate::Delivered => record.delivered_at.is_some(),
        Fate::Void => record.void_at.is_some(),
    };
    match (changed, stands) {
        (1.., _) => {
            concerns(tx, &record)?;
            Ok(Outcome::Approval { record, fresh: Fresh::Made })
        }
        (0, true) => Ok(Outcome::Approval { record, fresh: Fresh::Found }),
        (0, false) => Err(refusal::not_to_settle(&record)),
    }
}

pub(super) fn retire(tx: &mut Tx<'_>, id: ApprovalId) -> Result<Outcome, StoreError> {
    fence(tx, id)?;
    match tx
        .conn
        .run("UPDATE loopback_approvals SET retired = 1 WHERE uuid = ?1", [blob(id.as_uuid())])?
    {
        0 => Err(StoreError::not_found(Thing::Approval, id)),
        _ => Ok(Outcome::Done),
    }
}

pub(super) fn mark_breach(
    tx: &mut Tx<'_>,
    id: ApprovalId,
    what: &str,
) -> Result<Outcome, StoreError> {
    fence(tx, id)?;
    tx.conn.run(
        "UPDATE loopback_approvals SET breach = ?2 WHERE uuid = ?1 AND breach IS NULL",
        params![blob(id.as_uuid()), what],
    )?;
    let record = get(tx.conn, id)?;
    concerns(tx, &record)?;
    Ok(Outcome::Done)
}

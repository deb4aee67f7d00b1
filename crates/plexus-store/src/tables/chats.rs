//! Chats and their streams in SQL.

use plexus_core::{EventId, Handle, NodeId, PluginId, ServerId, SessionId};
use plexus_wire::ChatEvent;
use serde_json::json;

use super::keys::{EventKey, Place};
use super::sessions::rows_below;
use super::sql::{Row, Sql, params};
use super::tx::Tx;
use super::{arbor, events, servers, sessions};
use crate::contract::{
    AssignRun, Chat, ChatStatus, EndChat, Fresh, JsonText, NewEvent, NodeData, Origin, Outcome,
    Page, PageRequest, Position, PromptImage, StartChat, StartedChat, StoreError, Trace, refusal,
    stream_handle,
};

/// A chat, with the nodes before its first event and of its last.
macro_rules! select_chat {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, s.uuid, c.number, c.status, c.prompt_uuid, c.idempotency_key, c.ephemeral,
                    c.self_started, c.run, t.uuid,
                    (SELECT uuid FROM nodes WHERE id = (c.chain << 32 | c.first_pos) - 2),
                    (SELECT uuid FROM nodes WHERE id = (c.chain << 32 | c.first_pos) - 1),
                    e.uuid, c.started_at, c.ended_at, c.error, c.usage, e.id, c.read_position,
                    c.pruned, c.server,
                    (SELECT data FROM nodes WHERE id = (c.chain << 32 | c.first_pos) - 1)
             FROM chat_streams c
             JOIN sessions s ON s.id = c.session
             JOIN trees t ON t.id = s.tree
             LEFT JOIN chat_events e ON e.id = (
                 SELECT max(id) FROM chat_events WHERE id >= c.id << 32 AND id < (c.id + 1) << 32)
             WHERE s.deleted_at IS NULL ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<Chat, StoreError> {
    let root_node = row.get(11)?;
    Ok(Chat {
        session: row.get(1)?,
        number: row.get(2)?,
        owner: owner_of(row, 21)?,
        status: row.get(3)?,
        prompt_uuid: row.get(4)?,
        idempotency_key: row.maybe(5)?,
        trace: if row.get(6)? { Trace::Ephemeral } else { Trace::Kept },
        origin: if row.get(7)? { Origin::SelfStarted } else { Origin::Prompt },
        run: row.maybe(8)?,
        server: row.maybe(20)?,
        tree: row.get(9)?,
        user_node: row.get(10)?,
        root_node,
        head_node: row.maybe(12)?.map_or(root_node, NodeId::from_uuid),
        started_at: row.get(13)?,
        ended_at: row.maybe(14)?,
        error: row.maybe(15)?,
        usage: row.maybe(16)?,
        total_events: row.maybe(17)?.map_or(0, EventKey::next_seq),
        read_position: row.get(18)?,
        pruned: row.get(19)?,
    })
}

/// Reads the owner of a chat from its stream's root node, whose handle is in that column.
pub(super) fn owner_of(row: &Row<'_>, column: usize) -> Result<PluginId, StoreError> {
    let text: String = row.get(column)?;
    let handle: Handle = text.parse().map_err(|error| StoreError::Corrupt {
        message: format!("the handle of a stream cannot be read: {error}"),
    })?;
    Ok(handle.plugin_id)
}

/// What reading from a chat and appending to it needs to know.
pub(super) struct ChatRow {
    pub(super) id: i64,
    pub(super) session: i64,
    pub(super) owner: PluginId,
    pub(super) status: ChatStatus,
    pub(super) server: Option<ServerId>,
    pub(super) read_position: u32,
}

/// Returns the row of a chat.
pub(super) async fn row_of(
    conn: &impl Sql,
    session: SessionId,
    chat: u32,
) -> Result<ChatRow, StoreError> {
    let found = conn
        .one(
            "SELECT c.id, c.session, c.status, c.server, c.read_position,
                 (SELECT data FROM nodes WHERE id = (c.chain << 32 | c.first_pos) - 1)
             FROM chat_streams c
             JOIN sessions s ON s.id = c.session
             WHERE s.uuid = ?1 AND s.deleted_at IS NULL AND c.number = ?2",
            params![session, chat],
            |row| {
                let server = row.maybe(3)?;
                let status = row.get(2)?;
                Ok(ChatRow {
                    id: row.get(0)?,
                    session: row.get(1)?,
                    owner: owner_of(row, 5)?,
                    status,
                    server,
                    read_position: row.get(4)?,
                })
            },
        )
        .await?;
    match found {
        Some(found) => Ok(found),
        None => {
            sessions::row_of(conn, session).await?;
            Err(refusal::no_chat(session, Some(chat)))
        }
    }
}

/// Returns a chat that must be open, and this server's to change.
pub(super) async fn require_open(
    tx: &Tx<'_, impl Sql>,
    session: SessionId,
    chat: u32,
) -> Result<ChatRow, StoreError> {
    let row = row_of(tx.conn, session, chat).await?;
    if row.status == ChatStatus::Running {
        servers::fence(tx, row.server)?;
        return Ok(row);
    }
    Err(refusal::chat_ended(&get(tx.conn, session, Some(chat)).await?))
}

pub(crate) async fn get(
    conn: &impl Sql,
    session: SessionId,
    chat: Option<u32>,
) -> Result<Chat, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    let found = match chat {
        Some(number) => {
            conn.one(
                select_chat!("AND c.session = ?1 AND c.number = ?2"),
                params![row, number],
                read,
            )
            .await?
        }
        None => {
            conn.one(
                select_chat!("AND c.session = ?1 ORDER BY c.number DESC LIMIT 1"),
                params![row],
                read,
            )
            .await?
        }
    };
    found.ok_or_else(|| refusal::no_chat(session, chat))
}

pub(crate) async fn by_key(
    conn: &impl Sql,
    session: SessionId,
    key: &str,
) -> Result<Option<Chat>, StoreError> {
    let row = sessions::row_of(conn, session).await?;
    conn.one(select_chat!("AND c.session = ?1 AND c.idempotency_key = ?2"), params![row, key], read)
        .await
}

pub(crate) async fn list(
    conn: &impl Sql,
    session: Option<SessionId>,
    under: Option<SessionId>,
    page: PageRequest,
) -> Result<Page<Chat>, StoreError> {
    let session = sessions::maybe_row_of(conn, session).await?;
    let under = sessions::maybe_row_of(conn, under).await?;
    let limit = page.bounded();
    let after = page.after.map_or(0, |token| token.0);
    let item = |row: &Row<'_>| Ok((row.get(0)?, read(row)?));
    let rows = match session {
        // Within a session the page goes by number, along its index.
        Some(session) => {
            conn.all(
                select_chat!(
                    "AND c.session = ?1 AND c.number > coalesce((
                         SELECT number FROM chat_streams WHERE id = ?2 AND session = ?1), -1)
                     ORDER BY c.number LIMIT ?3"
                ),
                params![session, after, limit + 1],
                item,
            )
            .await?
        }
        None => {
            conn.all(
                concat!(
                    select_chat!("AND c.id > ?1 AND (?2 IS NULL OR s.id IN "),
                    rows_below!("?2"),
                    ") ORDER BY c.id LIMIT ?3"
                ),
                params![after, under, limit + 1],
                item,
            )
            .await?
        }
    };
    Ok(Page::of(rows, limit))
}

/// The images of a chat's prompt, in order.
pub(crate) async fn images(
    conn: &impl Sql,
    session: SessionId,
    chat: u32,
) -> Result<Vec<PromptImage>, StoreError> {
    let chat = row_of(conn, session, chat).await?;
    conn.all(
        "SELECT mime_type, data FROM chat_images WHERE chat = ?1 ORDER BY n",
        params![chat.id],
        |row| Ok(PromptImage { mime_type: row.get(0)?, data: row.get(1)? }),
    )
    .await
}

pub(super) async fn start(
    tx: &mut Tx<'_, impl Sql>,
    start: StartChat,
) -> Result<Outcome, StoreError> {
    let conn = tx.conn;
    if let Some(key) = &start.idempotency_key
        && let Some(chat) = by_key(conn, start.session, key).await?
    {
        return found(conn, &chat).await;
    }
    let session = sessions::get(conn, start.session).await?;
    let session_row = sessions::row_of(conn, start.session).await?;
    if session.open_chat().is_some() {
        return Err(refusal::chat_running(&get(conn, start.session, None).await?));
    }
    servers::require_not_elsewhere(tx, session_row, start.session).await?;
    let server = servers::begins(tx)?;
    if let Some(run) = start.run {
        super::runs::require(conn, session_row, start.session, run).await?;
    }
    let number = session.newest_chat.map_or(0, |chat| chat.number + 1);
    let user_node = NodeId::generate();
    let metadata =
        JsonText::from(json!({ "role": "user", "session_id": start.session, "chat": number }));
    let parent = arbor::place_of(conn, session.head).await?;
    let user = arbor::append_plain(
        tx,
        parent,
        user_node,
        &NodeData::Text { content: start.prompt },
        &metadata,
    )
    .await?;
    let stream = NodeData::External { handle: stream_handle(start.owner, start.session, number) };
    let root =
        arbor::append_plain(tx, user, NodeId::generate(), &stream, &JsonText::empty_object())
            .await?;
    let first = Place(root.0 + 1);
    let chat = conn
        .insert(
            "INSERT INTO chat_streams (session, number, status, prompt_uuid, idempotency_key,
                 ephemeral, self_started, run, chain, first_pos, started_at, server)
             VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) RETURNING id",
            params![
                session_row,
                number,
                start.prompt_uuid,
                start.idempotency_key,
                start.trace == Trace::Ephemeral,
                start.origin == Origin::SelfStarted,
                start.run,
                first.chain(),
                first.position(),
                start.at,
                server,
            ],
        )
        .await?;
    for (n, image) in (0_i64..).zip(&start.images) {
        conn.run(
            "INSERT INTO chat_images (chat, n, mime_type, data) VALUES (?1, ?2, ?3, ?4)",
            params![chat, n, image.mime_type, image.data],
        )
        .await?;
    }
    if let Some(reservation) = &start.reserve {
        super::budget::reserve(tx, session_row, number, reservation).await?;
    }
    let user_position = Position { tree_id: session.tree, node_id: user_node };
    let event = NewEvent::of(&ChatEvent::Start { id: start.session, user_position }, start.at)?;
    let start_event = event.id;
    events::append_rows(tx, chat, std::slice::from_ref(&event)).await?;
    tx.touch(session_row, start.session);
    let prompt_uuid = start.prompt_uuid;
    Ok(Outcome::Chat(StartedChat {
        chat: number,
        fresh: Fresh::Made,
        user_position,
        start_event,
        prompt_uuid,
    }))
}

/// The outcome for an idempotency key that has its chat.
async fn found(conn: &impl Sql, chat: &Chat) -> Result<Outcome, StoreError> {
    let row = row_of(conn, chat.session, chat.number).await?;
    let start = conn
        .one(
            "SELECT uuid FROM chat_events WHERE id = ?1",
            params![EventKey::new(row.id, 0)],
            |row| row.get(0),
        )
        .await?;
    Ok(Outcome::Chat(StartedChat {
        chat: chat.number,
        fresh: Fresh::Found,
        user_position: Position { tree_id: chat.tree, node_id: chat.user_node },
        start_event: start.unwrap_or_else(|| EventId::from_uuid(*chat.root_node.as_uuid())),
        prompt_uuid: chat.prompt_uuid,
    }))
}

pub(super) async fn assign_run(
    tx: &mut Tx<'_, impl Sql>,
    assign: AssignRun,
) -> Result<Outcome, StoreError> {
    let chat = require_open(tx, assign.session, assign.chat).await?;
    super::runs::require(tx.conn, chat.session, assign.session, assign.run).await?;
    tx.conn
        .run("UPDATE chat_streams SET run = ?2 WHERE id = ?1", params![chat.id, assign.run])
        .await?;
    Ok(Outcome::Done)
}

pub(super) async fn end(tx: &mut Tx<'_, impl Sql>, end: EndChat) -> Result<Outcome, StoreError> {
    let chat = require_open(tx, end.session, end.chat).await?;
    let first_seq = events::append_rows(tx, chat.id, std::slice::from_ref(&end.event)).await?;
    tx.conn
        .run(
            "UPDATE chat_streams SET status = ?2, ended_at = ?3, error = ?4, usage = ?5
             WHERE id = ?1 AND status = 0",
            params![
                chat.id,
                end.ending.status(),
                end.event.timestamp,
                end.ending.reason(),
                end.usage,
            ],
        )
        .await?;
    let ephemeral = tx
        .conn
        .one("SELECT ephemeral FROM chat_streams WHERE id = ?1", params![chat.id], |row| {
            row.get::<bool>(0)
        })
        .await?;
    if ephemeral == Some(false) {
        sessions::move_head(tx, chat.session, end.event.node_id()).await?;
    }
    super::budget::release(tx, chat.session, end.chat).await?;
    super::parking::drop_transcript(tx, chat.id).await?;
    tx.touch(chat.session, end.session);
    Ok(Outcome::Events { first_seq, count: 1 })
}

//! Filling the index: one bounded step reads the events of the next commits and adds their words.
//!
//! Commits do not wait for this. The position is the number of the last commit that is indexed, so
//! a step that is lost is done again, and events from before there was an index are its beginning.

use std::collections::HashMap;
use std::ops::ControlFlow;

use plexus_wire::SearchKind;

use super::text::{self, Said};
use crate::contract::search::words::words_of;
use crate::contract::{Indexed, JsonText, StoreError, UnixMillis};
use crate::tables::keys::EventKey;
use crate::tables::sessions;
use crate::tables::sql::{Row, Sql, params};

/// How many events one step indexes, unless one commit alone has more. A step holds the writer of
/// SQLite for milliseconds.
const STEP_EVENTS: u64 = 200;

/// How many commits one step takes.
const STEP_COMMITS: usize = 200;

/// Bodies above this size are read one by one, so that a step holds few of them at a time.
const LARGE_BODY: usize = 64 * 1024;

/// How many calls back the call of a result is looked for.
const CALLS_BACK: usize = 64;

/// How many events back it is looked for.
const EVENTS_BACK: i64 = 4_096;

/// An entry to add.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) event: EventKey,
    pub(crate) at: UnixMillis,
    pub(crate) kind: SearchKind,
    pub(crate) tool: String,
    /// The words, in order.
    pub(crate) words: Vec<String>,
}

/// What one step adds.
#[derive(Debug)]
pub(crate) struct Step {
    /// The position before and after.
    from: u64,
    to: u64,
    newest: u64,
    entries: Vec<Entry>,
}

/// Returns the position: the last commit whose events are indexed.
pub(super) async fn position(conn: &impl Sql) -> Result<u64, StoreError> {
    let found = conn
        .one("SELECT value FROM store_meta WHERE key = 'search'", &[], |row| row.get(0))
        .await?;
    found.ok_or_else(|| StoreError::Corrupt { message: "the position of search is gone".into() })
}

/// Reads the next step; `None` when everything is indexed.
pub(crate) async fn next(conn: &impl Sql) -> Result<Option<Step>, StoreError> {
    let newest = sessions::newest_commit(conn).await?;
    let from = position(conn).await?;
    if from >= newest {
        return Ok(None);
    }
    let to = end_of_step(conn, from, newest).await?;
    let mut found = read(conn, from, to).await?;
    name_tools(conn, &mut found).await?;
    let entries = found
        .into_iter()
        .filter_map(|it| {
            let said = it.said?;
            let words: Vec<_> = words_of(&said.text).into_iter().map(|word| word.text).collect();
            let tool = said.tool.unwrap_or_default();
            Some(Entry { event: it.event, at: it.at, kind: said.kind, tool, words })
        })
        .collect();
    Ok(Some(Step { from, to, newest, entries }))
}

/// Writes a step, in a transaction of the caller's. It does nothing when another one was written
/// since it was read.
pub(crate) async fn write(conn: &impl Sql, step: &Step) -> Result<Indexed, StoreError> {
    let moved = conn
        .run(
            "UPDATE store_meta SET value = ?2 WHERE key = 'search' AND value = ?1",
            params![step.from, step.to],
        )
        .await?;
    let mut indexed = Indexed { entries: 0, behind: step.newest - step.to };
    if moved == 1 && !step.entries.is_empty() {
        indexed.entries = conn.insert_entries(&step.entries).await?;
    }
    Ok(indexed)
}

/// Returns the last commit of a step that begins after `from`.
async fn end_of_step(conn: &impl Sql, from: u64, newest: u64) -> Result<u64, StoreError> {
    let commits = conn
        .all(
            "SELECT commit_no, CAST(sum(count) AS BIGINT) FROM event_batches
             WHERE commit_no > ?1 AND commit_no <= ?2
             GROUP BY commit_no ORDER BY commit_no LIMIT ?3",
            params![from, newest, STEP_COMMITS],
            |row| Ok((row.get::<u64>(0)?, row.get::<u64>(1)?)),
        )
        .await?;
    let (mut to, mut events) = (from, 0);
    for (commit, count) in &commits {
        events += count;
        if to > from && events > STEP_EVENTS {
            return Ok(to);
        }
        to = *commit;
    }
    // Commits without events are skipped, too.
    Ok(if commits.len() < STEP_COMMITS { newest } else { to })
}

struct Found {
    event: EventKey,
    at: UnixMillis,
    said: Option<Said>,
    /// Whether the body is left to be read.
    large: bool,
}

/// Reads what the events of some commits say.
async fn read(conn: &impl Sql, from: u64, to: u64) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    conn.each(
        "SELECT e.id, e.created_at, e.type,
             CASE WHEN octet_length(e.body) <= ?3 THEN e.body END, n.data
         FROM event_batches b
         JOIN chat_streams c ON c.id = b.chat
         JOIN sessions s ON s.id = c.session
         JOIN chat_events e ON e.id >= (b.chat << 32 | b.first_seq)
             AND e.id < (b.chat << 32 | b.first_seq) + b.count
         LEFT JOIN nodes n ON e.type = 'start' AND n.id = (c.chain << 32 | c.first_pos) - 2
         WHERE b.commit_no > ?1 AND b.commit_no <= ?2 AND s.deleted_at IS NULL
             AND e.type IN ('start', 'content', 'thinking', 'tool_use', 'tool_result',
                 'approval_resolved', 'steered', 'notice', 'error')
         ORDER BY b.commit_no, e.id",
        params![from, to, LARGE_BODY],
        |row| {
            found.push(one(row)?);
            Ok(ControlFlow::Continue(()))
        },
    )
    .await?;
    for large in found.iter_mut().filter(|it| it.large) {
        let body = conn
            .one("SELECT body FROM chat_events WHERE id = ?1", params![large.event], |row| {
                row.get::<JsonText>(0)
            })
            .await?;
        large.said = body.and_then(|body| text::of_event(&body));
    }
    Ok(found)
}

fn one(row: &Row<'_>) -> Result<Found, StoreError> {
    let body: Option<JsonText> = row.maybe(3)?;
    let starts = row.get::<String>(2)? == "start";
    let said = if starts {
        row.maybe::<String>(4)?.and_then(|prompt| text::of_prompt(&prompt))
    } else {
        body.as_ref().and_then(text::of_event)
    };
    let large = !starts && body.is_none();
    Ok(Found { event: row.get(0)?, at: row.get(1)?, said, large })
}

/// Gives results the name of their tool, which only the call before them says.
async fn name_tools(conn: &impl Sql, found: &mut [Found]) -> Result<(), StoreError> {
    let mut named: HashMap<(i64, String), String> = HashMap::new();
    for it in found.iter_mut() {
        let chat = it.event.chat();
        let Some(Said { call: Some(call), tool, .. }) = &mut it.said else { continue };
        let key = (chat, call.clone());
        match (&tool, named.get(&key)) {
            (Some(tool), _) => drop(named.insert(key, tool.clone())),
            (None, Some(name)) => *tool = Some(name.clone()),
            (None, None) => {
                let from = EventKey(it.event.0 - EVENTS_BACK).max(EventKey::new(chat, 0));
                let calls = conn
                    .all(
                        "SELECT body FROM chat_events
                         WHERE id >= ?1 AND id < ?2 AND type = 'tool_use' ORDER BY id DESC LIMIT ?3",
                        params![from, it.event, CALLS_BACK],
                        |row| row.get::<JsonText>(0),
                    )
                    .await?;
                for said in calls.iter().filter_map(text::of_event) {
                    if let (Some(call), Some(tool)) = (said.call, said.tool) {
                        named.insert((chat, call), tool);
                    }
                }
                *tool = named.get(&key).cloned();
            }
        }
    }
    Ok(())
}

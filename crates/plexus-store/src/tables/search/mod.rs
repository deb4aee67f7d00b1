//! Full-text search in SQL. The entries are the same for both engines; their words are in an index
//! that each engine has in its own way.

pub(crate) mod index;
mod text;

use plexus_core::{EventId, SessionId};
use plexus_wire::SearchKind;

use super::keys::EventKey;
use super::sessions;
use super::sql::{Row, Sql, params};
use crate::contract::{
    JsonText, PageRequest, PageToken, SearchFilter, SearchHit, SearchPage, SearchQuery, StoreError,
    Term, UnixMillis,
};
use crate::tables::sessions::rows_below;

/// How many entries that have the words one call looks at, to find those that fit its other
/// conditions.
const SCAN: u64 = 20_000;

/// An entry that fits.
struct Hit {
    id: u64,
    event: EventKey,
    at: UnixMillis,
    kind: SearchKind,
    tool: String,
    session: SessionId,
    session_name: String,
    chat: u32,
}

fn hit_of(row: &Row<'_>) -> Result<Hit, StoreError> {
    Ok(Hit {
        id: row.get(0)?,
        event: row.get(1)?,
        at: row.get(2)?,
        kind: row.get(3)?,
        tool: row.get(4)?,
        session: row.get(5)?,
        session_name: row.get(6)?,
        chat: row.get(7)?,
    })
}

pub(crate) async fn search<C: Sql>(
    conn: &C,
    filter: &SearchFilter,
    page: PageRequest,
) -> Result<SearchPage, StoreError> {
    let session = sessions::maybe_row_of(conn, filter.session).await?;
    let under = sessions::maybe_row_of(conn, filter.under).await?;
    let limit = page.bounded();
    let after = page.after.map_or(u64::MAX, |token| token.0);
    let words = C::words_query(&filter.query);
    let mut hits = conn
        .all(
            &statement::<C>(&filter.query, under.is_some()),
            params![
                words,
                after,
                SCAN,
                session,
                under,
                filter.tool,
                filter.kind,
                filter.since,
                filter.until,
                limit + 1
            ],
            hit_of,
        )
        .await?;
    let next = if hits.len() > limit {
        hits.truncate(limit);
        hits.last().map(|hit| PageToken(hit.id))
    } else {
        // The scan may have ended at its bound: then there may be more.
        conn.one(
            &format!("{} LIMIT 1 OFFSET ?3", matches::<C>(&filter.query)),
            params![words, after, SCAN - 1],
            |row| row.get::<u64>(0),
        )
        .await?
        .map(PageToken)
    };
    let mut shown = Vec::with_capacity(hits.len());
    for hit in hits {
        shown.extend(show(conn, hit, &filter.query).await?);
    }
    let newest = sessions::newest_commit(conn).await?;
    let behind = newest.saturating_sub(index::position(conn).await?);
    Ok(SearchPage { hits: shown, next, behind })
}

/// The entries that have the words, newest first, before the position `?2`.
fn matches<C: Sql>(query: &SearchQuery) -> String {
    if query.is_empty() {
        return "SELECT id FROM search_entries WHERE ?1 IS NULL AND id < ?2 ORDER BY id DESC"
            .to_owned();
    }
    C::HAS_WORDS.to_owned()
}

fn statement<C: Sql>(query: &SearchQuery, under: bool) -> String {
    let matches = matches::<C>(query);
    let below = if under { concat!("c.session IN ", rows_below!("?5")) } else { "?5 IS NULL" };
    format!(
        "SELECT w.id, w.event, w.at, w.kind, w.tool, s.uuid, s.name, c.number
         FROM ({matches} LIMIT ?3) m JOIN search_entries w ON w.id = m.id
         JOIN chat_streams c ON c.id = w.event >> 32
         JOIN sessions s ON s.id = c.session
         WHERE s.deleted_at IS NULL AND (?4 IS NULL OR c.session = ?4) AND {below}
             AND (?6 IS NULL OR w.tool = ?6) AND (?7 IS NULL OR w.kind = ?7)
             AND (?8 IS NULL OR w.at >= ?8) AND (?9 IS NULL OR w.at < ?9)
         ORDER BY w.id DESC LIMIT ?10"
    )
}

/// Reads the text of a hit; `None` when it was pruned since it was indexed.
async fn show(
    conn: &impl Sql,
    hit: Hit,
    query: &SearchQuery,
) -> Result<Option<SearchHit>, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get::<EventId>(0)?, row.get::<JsonText>(1)?));
    let found = conn
        .one("SELECT uuid, body FROM chat_events WHERE id = ?1", params![hit.event], read)
        .await?;
    let Some((event, body)) = found else { return Ok(None) };
    let said = if hit.kind == SearchKind::Prompt {
        conn.one(
            "SELECT n.data FROM chat_streams c
             JOIN nodes n ON n.id = (c.chain << 32 | c.first_pos) - 2 WHERE c.id = ?1",
            params![hit.event.chat()],
            |row| row.get::<String>(0),
        )
        .await?
        .and_then(|prompt| text::of_prompt(&prompt))
    } else {
        text::of_event(&body)
    };
    Ok(said.map(|said| SearchHit {
        session: hit.session,
        session_name: hit.session_name,
        chat: hit.chat,
        seq: hit.event.seq(),
        event,
        at: hit.at,
        kind: hit.kind,
        tool: (!hit.tool.is_empty()).then_some(hit.tool),
        excerpt: text::excerpt(&said.text, query),
    }))
}

/// Removes everything of a chat from the index.
pub(super) async fn forget_chat(conn: &impl Sql, chat: i64) -> Result<(), StoreError> {
    conn.run(
        "DELETE FROM search_entries WHERE event >= ?1 AND event < ?2",
        params![EventKey::new(chat, 0), EventKey::end(chat)],
    )
    .await?;
    Ok(())
}

/// Removes everything of a chat but its prompt.
pub(super) async fn forget_events(conn: &impl Sql, chat: i64) -> Result<(), StoreError> {
    conn.run(
        "DELETE FROM search_entries WHERE event >= ?1 AND event < ?2 AND kind <> ?3",
        params![EventKey::new(chat, 0), EventKey::end(chat), SearchKind::Prompt],
    )
    .await?;
    Ok(())
}

/// Removes the prompts that were emptied, of chats that ended before `before`.
pub(super) async fn forget_prompts(
    conn: &impl Sql,
    before: UnixMillis,
    limit: u64,
) -> Result<(), StoreError> {
    conn.run(
        "DELETE FROM search_entries WHERE event IN (SELECT c.id << 32 FROM chat_streams c
             JOIN search_entries w ON w.event = c.id << 32 AND w.kind = ?2
             JOIN nodes n ON n.id = (c.chain << 32 | c.first_pos) - 2
             WHERE c.status <> 0 AND c.ended_at < ?1 AND n.data = '' LIMIT ?3)",
        params![before, SearchKind::Prompt, limit],
    )
    .await?;
    Ok(())
}

/// Writes a query as FTS5 reads it: strings that must all occur. Words hold letters and digits
/// alone, so none can leave its quotes.
pub(crate) fn for_sqlite(query: &SearchQuery) -> Option<String> {
    joined(query, " AND ", |term| {
        let star = if term.prefix { " *" } else { "" };
        format!("\"{}\"{star}", term.words.join(" "))
    })
}

/// Writes a query as PostgreSQL reads a tsquery.
pub(crate) fn for_postgres(query: &SearchQuery) -> Option<String> {
    joined(query, " & ", |term| {
        let words: Vec<String> = term.words.iter().map(|word| format!("'{word}'")).collect();
        let star = if term.prefix { ":*" } else { "" };
        format!("({}{star})", words.join(" <-> "))
    })
}

fn joined(query: &SearchQuery, by: &str, one: impl Fn(&Term) -> String) -> Option<String> {
    let terms: Vec<String> = query.terms.iter().map(one).collect();
    (!terms.is_empty()).then(|| terms.join(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reaches_each_engine_in_its_own_words() {
        let query = SearchQuery::read(r#"it's "a b" migr* x/y*"#).unwrap();
        assert_eq!(for_sqlite(&query).unwrap(), r#""it s" AND "a b" AND "migr" * AND "x y" *"#);
        assert_eq!(
            for_postgres(&query).unwrap(),
            "('it' <-> 's') & ('a' <-> 'b') & ('migr':*) & ('x' <-> 'y':*)"
        );
        assert_eq!(for_sqlite(&SearchQuery::default()), None);
    }
}

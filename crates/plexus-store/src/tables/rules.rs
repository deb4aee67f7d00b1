//! Standing rules in SQL.

use plexus_core::RuleId;

use super::codes::{owner, rule_scope, rule_scope_columns};
use super::sessions;
use super::sql::{Row, Sql, params};
use super::tx::Tx;
use crate::contract::{
    JsonText, NewRule, Outcome, Owner, Page, PageRequest, RemoveRules, RunKey, StoreError,
    StoredRule, Thing, UseRule, refusal,
};

macro_rules! select_rule {
    ($rest:literal) => {
        concat!(
            "SELECT id, uuid, decision, pattern, scope, scope_session, author, run_session,
                 run_n, expires_at, uses, used, reason, matches, does_not_match, created_at
             FROM rules ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<StoredRule, StoreError> {
    let texts = |column: usize| -> Result<Vec<String>, StoreError> {
        let text: String = row.get(column)?;
        serde_json::from_str(&text).map_err(|error| StoreError::Corrupt {
            message: format!("a rule's examples cannot be read: {error}"),
        })
    };
    let ends_with = match row.maybe(7)? {
        None => None,
        Some(id) => Some(RunKey { session: id, n: row.get(8)? }),
    };
    let rule = NewRule {
        id: row.get(1)?,
        decision: row.get(2)?,
        pattern: row.get(3)?,
        scope: rule_scope(row.get(4)?, row.maybe(5)?)?,
        author: owner(row.maybe(6)?),
        ends_with,
        expires_at: row.maybe(9)?,
        uses: row.maybe(10)?,
        reason: row.maybe(12)?,
        matches: texts(13)?,
        does_not_match: texts(14)?,
    };
    Ok(StoredRule { rule, used: row.get(11)?, created_at: row.get(15)? })
}

pub(crate) async fn get(conn: &impl Sql, id: RuleId) -> Result<StoredRule, StoreError> {
    conn.one(select_rule!("WHERE uuid = ?1"), params![id], read)
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Rule, id))
}

pub(crate) async fn list(
    conn: &impl Sql,
    page: PageRequest,
) -> Result<Page<StoredRule>, StoreError> {
    let limit = page.bounded();
    let rows = conn
        .all(
            select_rule!("WHERE id > ?1 ORDER BY id LIMIT ?2"),
            params![page.after.map_or(0, |token| token.0), limit + 1],
            |row| Ok((row.get(0)?, read(row)?)),
        )
        .await?;
    Ok(Page::of(rows, limit))
}

pub(super) async fn add(tx: &mut Tx<'_, impl Sql>, new: &NewRule) -> Result<Outcome, StoreError> {
    let author = match new.author {
        Owner::Operator => None,
        Owner::Session(id) => Some(id),
    };
    for session in [new.scope.session(), author].into_iter().flatten() {
        sessions::row_of(tx.conn, session).await?;
    }
    if let Some(run) = new.ends_with {
        let run = super::runs::get(tx.conn, run).await?;
        refusal::rule_ends_with(&run)?;
    }
    let (scope, scope_session) = rule_scope_columns(new.scope);
    tx.conn
        .run(
            "INSERT INTO rules (uuid, decision, pattern, scope, scope_session, author,
                 run_session, run_n, expires_at, uses, reason, matches, does_not_match,
                 created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            params![
                new.id,
                new.decision,
                new.pattern,
                scope,
                scope_session,
                new.author,
                new.ends_with.map(|run| run.session),
                new.ends_with.map(|run| run.n),
                new.expires_at,
                new.uses,
                new.reason,
                JsonText::of(&new.matches)?,
                JsonText::of(&new.does_not_match)?,
                tx.now,
            ],
        )
        .await?;
    Ok(Outcome::Done)
}

pub(super) async fn remove(
    tx: &mut Tx<'_, impl Sql>,
    remove: RemoveRules,
) -> Result<Outcome, StoreError> {
    let count = match remove {
        RemoveRules::One(id) => {
            match tx.conn.run("DELETE FROM rules WHERE uuid = ?1", params![id]).await? {
                0 => return Err(StoreError::not_found(Thing::Rule, id)),
                count => count,
            }
        }
        RemoveRules::EndingWith(run) => {
            tx.conn
                .run(
                    "DELETE FROM rules WHERE run_session = ?1 AND run_n = ?2",
                    params![run.session, run.n],
                )
                .await?
        }
        RemoveRules::Spent { now } => {
            tx.conn
                .run("DELETE FROM rules WHERE expires_at <= ?1 OR used >= uses", params![now])
                .await?
        }
    };
    Ok(Outcome::Count(count))
}

pub(super) async fn use_once(
    tx: &mut Tx<'_, impl Sql>,
    it: UseRule,
) -> Result<Outcome, StoreError> {
    let changed = tx
        .conn
        .run(
            "UPDATE rules SET used = used + 1
             WHERE uuid = ?1 AND (uses IS NULL OR used < uses)
                 AND (expires_at IS NULL OR expires_at > ?2)",
            params![it.id, it.now],
        )
        .await?;
    let rule = get(tx.conn, it.id).await?;
    if changed == 0 {
        return Err(refusal::rule_used_up(&rule));
    }
    Ok(Outcome::Rule(rule))
}

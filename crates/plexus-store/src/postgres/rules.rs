//! Standing rules in SQL.

use plexus_core::{RuleId, SessionId};
use tokio_postgres::Row;

use super::codes::{
    owner, owner_blob, rule_decision, rule_decision_code, rule_scope, rule_scope_code,
};
use super::sessions;
use super::sql::{Columns, Conn, blob, int, params};
use super::tx::Tx;
use crate::contract::{
    JsonText, NewRule, Outcome, Owner, Page, PageRequest, RemoveRules, RunKey, StoreError,
    StoredRule, Thing, UseRule, refusal,
};

macro_rules! select_rule {
    ($rest:literal) => {
        concat!(
            "SELECT id, uuid, decision, pattern, scope, scope_session, author, run_session, run_n, expires_at, uses, used, reason, matches,
                    does_not_match, created_at FROM rules ",
            $rest
        )
    };
}

fn read(row: &Row) -> Result<StoredRule, StoreError> {
    let texts = |column: usize| -> Result<Vec<String>, StoreError> {
        let text: String = row.col(column)?;
        serde_json::from_str(&text).map_err(|error| StoreError::Corrupt {
            message: format!("a rule's examples cannot be read: {error}"),
        })
    };
    let ends_with = match row.maybe_uuid(7)? {
        None => None,
        Some(id) => Some(RunKey { session: SessionId::from_uuid(id), n: row.col(8)? }),
    };
    let rule = NewRule {
        id: RuleId::from_uuid(row.uuid(1)?),
        decision: rule_decision(2, row.col(2)?)?,
        pattern: row.col(3)?,
        scope: rule_scope(4, row.col(4)?, row.maybe_uuid(5)?)?,
        author: owner(row.maybe_uuid(6)?),
        ends_with,
        expires_at: row.maybe_time(9)?,
        uses: row.col(10)?,
        reason: row.col(12)?,
        matches: texts(13)?,
        does_not_match: texts(14)?,
    };
    Ok(StoredRule { rule, used: row.col(11)?, created_at: row.time(15)? })
}

pub(super) async fn get(conn: &Conn, id: RuleId) -> Result<StoredRule, StoreError> {
    conn.one(select_rule!("WHERE uuid = $1"), params![blob(id.as_uuid())], read)
        .await?
        .ok_or_else(|| StoreError::not_found(Thing::Rule, id))
}

pub(super) async fn list(conn: &Conn, page: PageRequest) -> Result<Page<StoredRule>, StoreError> {
    let limit = page.bounded();
    let rows = conn
        .all(
            select_rule!("WHERE id > $1 ORDER BY id LIMIT $2"),
            params![page.after.map_or(0, |token| int(token.0)), int(limit as u64 + 1)],
            |row| Ok((row.count(0)?, read(row)?)),
        )
        .await?;
    Ok(Page::of(rows, limit))
}

pub(super) async fn add(tx: &mut Tx<'_>, new: &NewRule) -> Result<Outcome, StoreError> {
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
    let (scope, scope_session) = rule_scope_code(new.scope);
    tx.conn.run(
        "INSERT INTO rules (uuid, decision, pattern, scope, scope_session, author, run_session, run_n, expires_at, uses, reason, matches,
                            does_not_match, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        params![
            blob(new.id.as_uuid()),
            rule_decision_code(new.decision),
            new.pattern,
            scope,
            scope_session,
            owner_blob(new.author),
            new.ends_with.map(|run| blob(run.session.as_uuid())),
            new.ends_with.map(|run| run.n),
            new.expires_at.map(|time| time.0),
            new.uses,
            new.reason,
            JsonText::of(&new.matches)?.as_str(),
            JsonText::of(&new.does_not_match)?.as_str(),
            tx.now.0,
        ],
    ).await?;
    Ok(Outcome::Done)
}

pub(super) async fn remove(tx: &mut Tx<'_>, remove: RemoveRules) -> Result<Outcome, StoreError> {
    let count = match remove {
        RemoveRules::One(id) => {
            match tx
                .conn
                .run("DELETE FROM rules WHERE uuid = $1", params![blob(id.as_uuid())])
                .await?
            {
                0 => return Err(StoreError::not_found(Thing::Rule, id)),
                count => count,
            }
        }
        RemoveRules::EndingWith(run) => {
            tx.conn
                .run(
                    "DELETE FROM rules WHERE run_session = $1 AND run_n = $2",
                    params![blob(run.session.as_uuid()), run.n],
                )
                .await?
        }
        RemoveRules::Spent { now } => {
            tx.conn
                .run("DELETE FROM rules WHERE expires_at <= $1 OR used >= uses", params![now.0])
                .await?
        }
    };
    Ok(Outcome::Count(count as u64))
}

pub(super) async fn use_once(tx: &mut Tx<'_>, it: UseRule) -> Result<Outcome, StoreError> {
    let changed = tx.conn.run(
        "UPDATE rules SET used = used + 1 WHERE uuid = $1 AND (uses IS NULL OR used < uses) AND (expires_at IS NULL OR expires_at > $2)",
        params![blob(it.id.as_uuid()), it.now.0],
    ).await?;
    let rule = get(tx.conn, it.id).await?;
    if changed == 0 {
        return Err(refusal::rule_used_up(&rule));
    }
    Ok(Outcome::Rule(rule))
}

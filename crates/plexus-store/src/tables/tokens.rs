//! Tokens in SQL, by their hash.

use plexus_core::Caller;

use super::codes::{caller, caller_columns};
use super::sql::{Sql, params};
use super::tx::Tx;
use super::{devices, servers, sessions};
use crate::contract::{Outcome, RevokeTokens, RunKey, StoreError, Token, TokenHash};

pub(crate) async fn get(conn: &impl Sql, hash: TokenHash) -> Result<Option<Token>, StoreError> {
    conn.one(
        "SELECT caller, session, run_session, run_n, expires_at, device FROM tokens
         WHERE hash = ?1",
        params![hash],
        |row| {
            let run = match row.maybe(2)? {
                None => None,
                Some(id) => Some(RunKey { session: id, n: row.get(3)? }),
            };
            Ok(Token {
                hash,
                caller: caller(row.get(0)?, row.maybe(1)?, row.maybe(5)?)?,
                run,
                expires_at: row.maybe(4)?,
            })
        },
    )
    .await
}

pub(super) async fn add(tx: &mut Tx<'_, impl Sql>, token: Token) -> Result<Outcome, StoreError> {
    if let Some(session) = token.caller.session() {
        sessions::row_of(tx.conn, session).await?;
    }
    if let Caller::Device(device) = token.caller {
        devices::get(tx.conn, device).await?;
    }
    if let Some(run) = token.run {
        super::runs::require(
            tx.conn,
            sessions::row_of(tx.conn, run.session).await?,
            run.session,
            run.n,
        )
        .await?;
        servers::fence_run(tx, token.run).await?;
    }
    let (code, session, device) = caller_columns(token.caller);
    tx.conn
        .run(
            "INSERT INTO tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                token.hash,
                code,
                session,
                token.run.map(|run| run.session),
                token.run.map(|run| run.n),
                token.expires_at,
                device,
            ],
        )
        .await?;
    Ok(Outcome::Done)
}

pub(super) async fn revoke(
    tx: &mut Tx<'_, impl Sql>,
    revoke: RevokeTokens,
) -> Result<Outcome, StoreError> {
    let count = match revoke {
        RevokeTokens::One(hash) => {
            tx.conn.run("DELETE FROM tokens WHERE hash = ?1", params![hash]).await?
        }
        RevokeTokens::Run(run) => {
            tx.conn
                .run(
                    "DELETE FROM tokens WHERE run_session = ?1 AND run_n = ?2",
                    params![run.session, run.n],
                )
                .await?
        }
        RevokeTokens::Session(id) => {
            tx.conn.run("DELETE FROM tokens WHERE session = ?1", params![id]).await?
        }
        RevokeTokens::Expired { now } => {
            tx.conn.run("DELETE FROM tokens WHERE expires_at <= ?1", params![now]).await?
        }
    };
    Ok(Outcome::Count(count))
}

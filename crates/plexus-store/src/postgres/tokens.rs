//! Tokens in SQL, by their hash.

use plexus_core::SessionId;

use super::codes::{caller, caller_code};
use super::sql::{Columns, Conn, blob, params};
use super::tx::Tx;
use super::{servers, sessions};
use crate::contract::{Outcome, RevokeTokens, RunKey, StoreError, Token, TokenHash};

pub(super) async fn get(conn: &Conn, hash: TokenHash) -> Result<Option<Token>, StoreError> {
    conn.one(
        "SELECT caller, session, run_session, run_n, expires_at FROM tokens WHERE hash = $1",
        params![hash.0],
        |row| {
            let run = match row.maybe_uuid(2)? {
                None => None,
                Some(id) => Some(RunKey { session: SessionId::from_uuid(id), n: row.col(3)? }),
            };
            Ok(Token {
                hash,
                caller: caller(0, row.col(0)?, row.maybe_uuid(1)?)?,
                run,
                expires_at: row.maybe_time(4)?,
            })
        },
    )
    .await
}

pub(super) async fn add(tx: &mut Tx<'_>, token: Token) -> Result<Outcome, StoreError> {
    if let Some(session) = token.caller.session() {
        sessions::row_of(tx.conn, session).await?;
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
    let (code, session) = caller_code(token.caller);
    tx.conn
        .run(
            "INSERT INTO tokens VALUES ($1, $2, $3, $4, $5, $6)",
            params![
                token.hash.0,
                code,
                session,
                token.run.map(|run| blob(run.session.as_uuid())),
                token.run.map(|run| run.n),
                token.expires_at.map(|time| time.0),
            ],
        )
        .await?;
    Ok(Outcome::Done)
}

pub(super) async fn revoke(tx: &mut Tx<'_>, revoke: RevokeTokens) -> Result<Outcome, StoreError> {
    let count = match revoke {
        RevokeTokens::One(hash) => {
            tx.conn.run("DELETE FROM tokens WHERE hash = $1", params![hash.0]).await?
        }
        RevokeTokens::Run(run) => {
            tx.conn
                .run(
                    "DELETE FROM tokens WHERE run_session = $1 AND run_n = $2",
                    params![blob(run.session.as_uuid()), run.n],
                )
                .await?
        }
        RevokeTokens::Session(id) => {
            tx.conn
                .run("DELETE FROM tokens WHERE session = $1", params![blob(id.as_uuid())])
                .await?
        }
        RevokeTokens::Expired { now } => {
            tx.conn.run("DELETE FROM tokens WHERE expires_at <= $1", params![now.0]).await?
        }
    };
    Ok(Outcome::Count(count as u64))
}

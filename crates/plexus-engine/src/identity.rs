//! Tokens: random 256 bits, stored as hashes, compared in constant time, revoked when the run that
//! they were made for ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use plexus_core::auth::TOKEN_PREFIX;
use plexus_core::{Authenticator, CallError, Caller, SecretToken};
use plexus_store::{
    Change, Priority, RevokeTokens, RunKey, Store, StoreError, Token, TokenHash, UnixMillis,
};
use plexus_wire::RefusedAttempt;
use subtle::ConstantTimeEq;

use crate::audit::Refusals;

/// How long a dashboard code works.
const CODE_LIFE: Duration = Duration::from_secs(60);

/// Codes that may wait to be used; more than a person opens.
const MAX_CODES: usize = 64;

/// How long a dashboard stays signed in.
const DASHBOARD_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// How long a call may be passed on: longer than the longest answer takes.
const RELAY_LIFE: Duration = Duration::from_secs(120);

/// Knows every token of this server.
pub struct Identity {
    store: Arc<dyn Store>,
    operator: TokenHash,
    refusals: Arc<Refusals>,
    codes: Mutex<HashMap<[u8; 32], Instant>>,
}

impl Identity {
    /// Makes the identity of a server whose operator holds `operator`.
    pub fn new(store: Arc<dyn Store>, operator: &SecretToken) -> Self {
        let refusals = Refusals::new(Arc::clone(&store));
        Self {
            store,
            operator: TokenHash::of(operator.expose()),
            refusals,
            codes: Mutex::default(),
        }
    }

    /// The record of refused attempts, which a wrong token is one of.
    pub fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.refusals)
    }

    /// Draws a token: 256 random bits after our prefix.
    ///
    /// # Errors
    /// `Unavailable` when the system gives no randomness.
    pub fn draw() -> Result<SecretToken, StoreError> {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).map_err(|error| StoreError::Unavailable {
            message: format!("draw a token: {error}"),
            source: None,
        })?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(SecretToken::new(format!("{TOKEN_PREFIX}{text}")))
    }

    /// Makes a token for `caller`, which ends with `run`.
    pub async fn mint(
        &self,
        caller: Caller,
        run: Option<RunKey>,
    ) -> Result<SecretToken, StoreError> {
        self.mint_until(caller, run, None).await
    }

    /// Makes a token for `caller` that lasts, and ends the tokens it replaces in the same
    /// transaction.
    pub async fn mint_in_place_of(
        &self,
        caller: Caller,
        replaced: Option<RevokeTokens>,
    ) -> Result<SecretToken, StoreError> {
        let token = Self::draw()?;
        let hash = TokenHash::of(token.expose());
        let mut changes: Vec<Change> = replaced.map(Change::RevokeTokens).into_iter().collect();
        changes.push(Change::AddToken(Token { hash, caller, run: None, expires_at: None }));
        self.store.commit(changes, Priority::Normal).await?;
        Ok(token)
    }

    /// Makes a token with which another server passes on a call of `caller`; whoever made it
    /// revokes it after the call.
    pub(crate) async fn mint_for_a_relay(&self, caller: Caller) -> Result<SecretToken, StoreError> {
        self.mint_until(caller, None, Some(UnixMillis::now().plus(RELAY_LIFE))).await
    }

    /// Takes a token back. One that stays works until its time is over.
    pub(crate) async fn revoke(&self, token: &SecretToken) {
        let revoke = RevokeTokens::One(TokenHash::of(token.expose()));
        if let Err(error) =
            self.store.commit(vec![Change::RevokeTokens(revoke)], Priority::Normal).await
        {
            tracing::debug!(%error, "could not revoke a token; it expires");
        }
    }

    async fn mint_until(
        &self,
        caller: Caller,
        run: Option<RunKey>,
        expires_at: Option<UnixMillis>,
    ) -> Result<SecretToken, StoreError> {
        let token = Self::draw()?;
        let row = Token { hash: TokenHash::of(token.expose()), caller, run, expires_at };
        self.store.commit(vec![Change::AddToken(row)], Priority::Normal).await?;
        Ok(token)
    }

    /// Makes a one-time code for the dashboard.
    ///
    /// # Errors
    /// `busy` when too many wait to be used.
    pub fn code(&self) -> Result<SecretToken, CallError> {
        let code = Self::draw()?;
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, until| *until > Instant::now());
        if codes.len() >= MAX_CODES {
            return Err(CallError::busy("make another sign-in code", 1_000));
        }
        codes.insert(TokenHash::of(code.expose()).0, Instant::now() + CODE_LIFE);
        Ok(code)
    }
}

#[async_trait]
impl Authenticator for Identity {
    async fn authenticate(&self, token: &SecretToken) -> Result<Caller, CallError> {
        let hash = TokenHash::of(token.expose());
        if bool::from(hash.0.ct_eq(&self.operator.0)) {
            return Ok(Caller::Operator);
        }
        let refused = || {
            CallError::unauthorized("accept this token: it is unknown, revoked or expired")
                .with_hint(
                    "`plexus token` prints the operator's; a session's token ends with its run",
                )
        };
        let found = self.store.token(hash).await?.filter(|found| {
            let alive = found.expires_at.is_none_or(|until| until > UnixMillis::now());
            alive && bool::from(found.hash.0.ct_eq(&hash.0))
        });
        match found {
            Some(found) => Ok(found.caller),
            None => {
                let error = refused();
                let refused = RefusedAttempt::new(error.kind(), error.message.as_str());
                self.refusals.note(None, refused).await;
                Err(error)
            }
        }
    }

    async fn exchange(&self, code: &SecretToken) -> Result<SecretToken, CallError> {
        let hash = TokenHash::of(code.expose());
        let until = self.codes.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash.0);
        if until.is_none_or(|until| until <= Instant::now()) {
            return Err(CallError::unauthorized(
                "sign in with this code: it was used, or a minute has passed",
            )
            .with_hint("run `plexus dashboard` again"));
        }
        let expires = UnixMillis::now().plus(DASHBOARD_LIFE);
        Ok(self.mint_until(Caller::Operator, None, Some(expires)).await?)
    }
}

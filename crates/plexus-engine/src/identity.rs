//! Tokens: random 256 bits, stored as hashes, compared in constant time, revoked when the run that
//! they were made for ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plexus_core::auth::TOKEN_PREFIX;
use plexus_core::{Authenticator, CallError, Caller, DeviceId, SecretToken, SignedIn};
use plexus_store::{
    AddDevice, AuditLine, Change, Device, JsonText, Priority, RevokeDevice, RevokeTokens, RunKey,
    Store, StoreError, Token, TokenHash, UnixMillis,
};
use plexus_wire::{DeviceChanged, RefusedAttempt};
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use crate::audit::Refusals;
use crate::codes::{Codes, PAIR_LIFE, Purpose};

/// How long a dashboard stays signed in.
const DASHBOARD_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// How long a call may be passed on: longer than the longest answer takes.
const RELAY_LIFE: Duration = Duration::from_secs(120);

/// Knows every token of this server.
pub struct Identity {
    store: Arc<dyn Store>,
    operator: TokenHash,
    refusals: Arc<Refusals>,
    codes: Codes,
    /// Counts revocations that this server made.
    revocations: watch::Sender<u64>,
}

impl Identity {
    /// Makes the identity of a server whose operator holds `operator`.
    pub fn new(store: Arc<dyn Store>, operator: &SecretToken) -> Self {
        let refusals = Refusals::new(Arc::clone(&store));
        Self {
            store,
            operator: TokenHash::of(operator.expose()),
            refusals,
            codes: Codes::default(),
            revocations: watch::Sender::new(0),
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
        let replaces = replaced.is_some();
        let mut changes: Vec<Change> = replaced.map(Change::RevokeTokens).into_iter().collect();
        changes.push(Change::AddToken(Token { hash, caller, run: None, expires_at: None }));
        self.store.commit(changes, Priority::Normal).await?;
        if replaces {
            self.tokens_revoked();
        }
        Ok(token)
    }

    /// Makes a token with which a call of `caller` is passed on to another server. The maker revokes
    /// it after the call.
    pub(crate) async fn mint_for_a_relay(&self, caller: Caller) -> Result<SecretToken, StoreError> {
        self.mint_until(caller, None, Some(UnixMillis::now().plus(RELAY_LIFE))).await
    }

    /// Revokes a token. If that fails, the token works until it expires.
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
        self.codes.add(&code, Purpose::SignIn)?;
        Ok(code)
    }

    /// Makes a one-time code with which a device gets a token; returns also when it ends.
    ///
    /// # Errors
    /// `busy` when too many wait to be used.
    pub fn pair_code(&self, name: &str) -> Result<(SecretToken, UnixMillis), CallError> {
        let code = Self::draw()?;
        let until = UnixMillis::now().plus(PAIR_LIFE);
        self.codes.add(&code, Purpose::Pair(name.to_owned()))?;
        Ok((code, until))
    }

    /// Gives a device of this name a token, which lasts until the device is revoked.
    async fn pair(&self, name: &str) -> Result<SecretToken, StoreError> {
        let (token, device, at) = (Self::draw()?, DeviceId::generate(), UnixMillis::now());
        let hash = TokenHash::of(token.expose());
        let caller = Caller::Device(device);
        let changes = vec![
            Change::AddDevice(AddDevice { id: device, name: name.to_owned(), at }),
            Change::AddToken(Token { hash, caller, run: None, expires_at: None }),
            device_line("device.paired", device, name)?,
        ];
        plexus_fault::point!("pair.code.taken");
        self.store.commit(changes, Priority::Normal).await?;
        plexus_fault::point!("pair.committed");
        tracing::info!(%device, name, "a device was paired");
        Ok(token)
    }

    /// Takes back the token of a device. What it has open here ends at once, and elsewhere with the
    /// next check.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn unpair(&self, device: &Device) -> Result<(), StoreError> {
        let changes = vec![
            Change::RevokeDevice(RevokeDevice { id: device.id, at: UnixMillis::now() }),
            device_line("device.revoked", device.id, &device.name)?,
        ];
        plexus_fault::point!("unpair.before");
        self.store.commit(changes, Priority::Urgent).await?;
        plexus_fault::point!("unpair.committed");
        tracing::info!(device = %device.id, name = device.name, "a device was revoked");
        self.tokens_revoked();
        Ok(())
    }

    /// Makes everything that was opened with a token check at once whether the token is valid.
    pub fn tokens_revoked(&self) {
        self.revocations.send_modify(|count| *count += 1);
    }
}

fn device_line(kind: &str, device_id: DeviceId, name: &str) -> Result<Change, StoreError> {
    Ok(Change::AppendAudit(AuditLine {
        at: UnixMillis::now(),
        kind: kind.to_owned(),
        session: None,
        body: JsonText::of(&DeviceChanged { device_id, device: name.to_owned() })?,
    }))
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

    fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }

    async fn exchange(&self, code: &SecretToken) -> Result<SignedIn, CallError> {
        let purpose = match self.codes.take(code) {
            Ok(purpose) => purpose,
            Err(error) => {
                let refused = RefusedAttempt {
                    door: Some("/auth/exchange".to_owned()),
                    ..RefusedAttempt::new(error.kind(), error.message.as_str())
                };
                self.refusals.note(None, refused).await;
                return Err(error);
            }
        };
        match purpose {
            Purpose::SignIn => {
                let expires = UnixMillis::now().plus(DASHBOARD_LIFE);
                let token = self.mint_until(Caller::Operator, None, Some(expires)).await?;
                Ok(SignedIn { token, device: None })
            }
            Purpose::Pair(name) => match self.pair(&name).await {
                Ok(token) => Ok(SignedIn { token, device: Some(name) }),
                Err(error) => {
                    self.codes.put_back(code);
                    Err(error.into())
                }
            },
        }
    }
}

//! Calls that only the server with the child can serve: whichever server is asked, they reach it.
//!
//! Reading and deciding need no relay: the row is the truth, and its wake reaches every server. A
//! prompt for a warm child, a message into a running chat and its end are for the process that
//! holds the child, so they are passed on, as the same caller, over the other server's own door.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use plexus_core::{CallError, Caller, SecretToken};
use plexus_store::{Server, ServerState, SessionRecord, Store, StoreError};
use plexus_wire::Method;
use serde_json::Value;

use crate::identity::Identity;
use crate::session::SessionState;

/// Carries a call to another server. The wiring has one; without it such calls are refused with the
/// address to ask.
#[async_trait]
pub trait Relay: Send + Sync + 'static {
    /// Calls `method` of the server at `url` with a token that it knows.
    async fn call(
        &self,
        url: &str,
        token: &SecretToken,
        method: &str,
        params: Value,
    ) -> Result<Value, CallError>;
}

/// The other server that has a session's child, or had it last.
#[derive(Clone, Debug)]
pub struct Elsewhere(Server);

/// The other servers that share the store.
pub struct Neighbours {
    store: Arc<dyn Store>,
    identity: Arc<Identity>,
    /// Set once by the wiring: it needs the doors, which need what is built from this.
    relay: OnceLock<Arc<dyn Relay>>,
}

impl Neighbours {
    pub(crate) fn new(store: Arc<dyn Store>, identity: Arc<Identity>) -> Self {
        Self { store, identity, relay: OnceLock::new() }
    }

    /// Says how calls reach the others.
    pub fn set_relay(&self, relay: Arc<dyn Relay>) {
        let again = self.relay.set(relay);
        debug_assert!(again.is_ok(), "there is one relay");
    }

    /// Says which other server serves a session now: its open chat, or its warm child.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn elsewhere(
        &self,
        session: &SessionRecord,
    ) -> Result<Option<Elsewhere>, StoreError> {
        let Some(ours) = self.store.lease() else { return Ok(None) };
        let server = match session.open_chat() {
            Some(chat) => self.store.chat(session.id, Some(chat)).await?.server,
            None => self
                .store
                .runs(session.id)
                .await?
                .last()
                .filter(|run| run.ended_at.is_none())
                .and_then(|run| run.server),
        };
        match server {
            Some(server) if server != ours.server => self.server(server).await,
            Some(_) | None => Ok(None),
        }
    }

    /// Says which other server ran a session last.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn last_elsewhere(
        &self,
        session: &SessionRecord,
    ) -> Result<Option<Elsewhere>, StoreError> {
        let Some(ours) = self.store.lease() else { return Ok(None) };
        match self.store.runs(session.id).await?.last().and_then(|run| run.server) {
            Some(server) if server != ours.server => self.server(server).await,
            Some(_) | None => Ok(None),
        }
    }

    /// Says which other server has the transcript of a session, where an agent was woken elsewhere
    /// than it was parked.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn with_conversation(
        &self,
        session: &SessionRecord,
    ) -> Result<Option<Elsewhere>, StoreError> {
        let Some(ours) = self.store.lease() else { return Ok(None) };
        match SessionState::of(session)?.conversation_on {
            Some(server) if server != ours.server => self.server(server).await,
            Some(_) | None => Ok(None),
        }
    }

    async fn server(&self, id: plexus_core::ServerId) -> Result<Option<Elsewhere>, StoreError> {
        Ok(self.store.servers().await?.into_iter().find(|it| it.lease.server == id).map(Elsewhere))
    }

    /// Passes a call on, as the same caller.
    ///
    /// # Errors
    /// When that server cannot be asked, or refuses.
    pub async fn relay<M: Method>(
        &self,
        to: &Elsewhere,
        caller: Caller,
        params: &M::Params,
    ) -> Result<M::Result, CallError> {
        let method = M::FULL_NAME;
        let Elsewhere(server) = to;
        if server.state != ServerState::Alive {
            let left = u64::try_from(server.lease_left.as_millis()).unwrap_or(0).max(1_000);
            return Err(CallError::busy(
                format_args!(
                    "{method}: the server {} has this session and has not been heard from",
                    server.name
                ),
                left,
            )
            .with_hint("try again: it comes back, or another server ends what it left open"));
        }
        let Some(relay) = self.relay.get() else { return Err(to.ask_there(method)) };
        let unreadable = |error: serde_json::Error| {
            tracing::error!(%error, method, "a call could not be passed on");
            CallError::internal(format_args!(
                "{method}: the server {} gave an answer that cannot be read",
                server.name
            ))
        };
        let params = serde_json::to_value(params).map_err(unreadable)?;
        let token = self.identity.mint_for_a_relay(caller).await?;
        let answer = relay.call(&server.url, &token, method, params).await;
        self.identity.revoke(&token).await;
        serde_json::from_value(answer?).map_err(unreadable)
    }
}

impl Elsewhere {
    /// Whether it can be asked.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.state == ServerState::Alive
    }

    /// Names the server to ask.
    #[must_use]
    pub fn ask_there(&self, method: &str) -> CallError {
        let Self(server) = self;
        CallError::unavailable(format_args!(
            "{method}: the server {} has this session",
            server.name
        ))
        .with_hint(format_args!("ask it at {}", server.url))
    }
}

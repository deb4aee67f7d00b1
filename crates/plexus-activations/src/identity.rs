//! `identity`: who calls from outside. A parent outside Plexus gets an identity of its own, which
//! owns what it creates and nothing else; the operator lists identities and takes their tokens
//! back. The operator's browser gets a one-time code, and so does a device (`devices`).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Audience, Call, CallError, Caller, MethodTable, SessionId,
};
use plexus_engine::Engine;
use plexus_engine::authority::EVERYTHING;
use plexus_engine::identity::Identity;
use plexus_engine::session::SessionConfig;
use plexus_engine::settings::Settings;
use plexus_store::{
    Change, CreateSession, JsonText, Outcome, Priority, RevokeTokens, SessionFilter, SessionRecord,
    Store, StoreError,
};
use plexus_wire::method::identity as wire;
use plexus_wire::{
    Confine, NoParams, PairParams, Parent, ParentIdentity, ParentList, ParentParams, ParentsParams,
    ProjectSettings, RevokeParams, Revoked, SignInCode, Supervise, UnpairParams,
};
use serde_json::json;

use crate::claudecode::page;
use crate::devices::Devices;

/// Identities for those outside.
pub struct Identities {
    store: Arc<dyn Store>,
    settings: Arc<Settings>,
    identity: Arc<Identity>,
    devices: Devices,
}

impl Identities {
    pub(crate) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(&engine.store),
            settings: Arc::clone(&engine.settings),
            identity: Arc::clone(&engine.identity),
            devices: Devices::new(engine),
        })
    }

    async fn parent(&self, params: ParentParams) -> Result<ParentIdentity, CallError> {
        let session = self.identity_session(&params.name).await?;
        let replaces = params.replace.unwrap_or(false).then_some(RevokeTokens::Session(session));
        let token = self.identity.mint_in_place_of(Caller::Session(session), replaces).await?;
        Ok(ParentIdentity { session_id: session, token: token.expose().to_owned() })
    }

    async fn parents(&self, params: ParentsParams) -> Result<ParentList, CallError> {
        let filter = SessionFilter { parent: Some(None), ..SessionFilter::default() };
        let page = page(params.limit, params.cursor.as_deref())?;
        let found = self.store.sessions(filter, page).await?;
        let view = |session: SessionRecord| Parent {
            name: session.name,
            session_id: session.id,
            created_at: session.created_at.into(),
        };
        Ok(ParentList {
            parents: found.items.into_iter().filter(is_identity).map(view).collect(),
            cursor: found.next.map(|next| next.to_string()),
        })
    }

    /// Ends every token of a parent. What it has open ends with them.
    async fn revoke(&self, params: RevokeParams) -> Result<Revoked, CallError> {
        let unknown = || {
            CallError::not_found(format_args!("find the parent {:?}", params.name))
                .with_hint("identity.parents lists them")
        };
        let session = match self.store.session_named(None, &params.name).await {
            Ok(session) if is_identity(&session) => session.id,
            Ok(_) | Err(StoreError::NotFound { .. }) => return Err(unknown()),
            Err(error) => return Err(error.into()),
        };
        let revoke = Change::RevokeTokens(RevokeTokens::Session(session));
        let committed = self.store.commit(vec![revoke], Priority::Urgent).await?;
        self.identity.tokens_revoked();
        match committed.outcomes.first() {
            Some(Outcome::Count(tokens)) => Ok(Revoked { session_id: session, tokens: *tokens }),
            _ => Err(CallError::internal("revoke tokens: the store returned no count")),
        }
    }

    /// A session without a child of its own, which the parent acts as.
    async fn identity_session(&self, name: &str) -> Result<SessionId, CallError> {
        match self.store.session_named(None, name).await {
            Ok(session) if is_identity(&session) => return Ok(session.id),
            Ok(_) => {
                return Err(CallError::conflict(format_args!(
                    "make the identity {name:?}: a session has this name"
                ))
                .with_hint("choose another name"));
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let config = SessionConfig {
            agent: plexus_wire::FIRST_AGENT.to_owned(),
            // The operator lets a parent outside create sessions in every directory. The tool
            // calls of those sessions are still asked about.
            working_dir: "/".into(),
            model: None,
            system_prompt: None,
            loopback_enabled: true,
            loopback_timeout_secs: self.settings.approval_timeout.as_secs(),
            escalate_after_secs: None,
            supervise: Supervise::Default,
            can_spawn: true,
            can_use_cone: true,
            may_decide: vec![EVERYTHING.to_owned()],
            project_settings: ProjectSettings::Ignore,
            channel: self.settings.channel,
            allowed_tools: Vec::new(),
            allowed_by: None,
            disallowed_tools: Vec::new(),
            add_dirs: Vec::new(),
            env: BTreeMap::new(),
            mcp_servers: BTreeMap::new(),
            // It runs no child of its own: each session that it creates gets the default.
            confine: Confine::None,
            budget: None,
        };
        let session = CreateSession {
            config: config.to_json()?,
            metadata: JsonText::from(json!({"identity": true})),
            ..CreateSession::new(name, None)
        };
        let id = session.id;
        self.store.commit(vec![Change::CreateSession(session)], Priority::Normal).await?;
        Ok(id)
    }
}

/// Says whether a session only stands for a parent outside. Only the operator makes sessions
/// without a parent; the metadata of others are what their creators wrote.
pub(crate) fn is_identity(session: &SessionRecord) -> bool {
    session.parent.is_none() && session.metadata.to_value()["identity"] == json!(true)
}

#[async_trait]
impl Activation for Identities {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "identity",
            version: (1, 0, 0),
            description: "Identities for parents outside and for devices, and sign-in codes for the \
                dashboard.",
        }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let (this, listing, revoking) = (Arc::clone(&self), Arc::clone(&self), Arc::clone(&self));
        let (pairing, showing, unpairing) =
            (self.devices.clone(), self.devices.clone(), self.devices.clone());
        MethodTable::new("identity")
            .serves::<wire::Parent, _, _>(
                "Gives a parent outside Plexus an identity of its own, with a token.",
                |d| d.audience = Audience::Operator,
                move |_: Call, params: ParentParams| {
                    let this = Arc::clone(&this);
                    async move { this.parent(params).await }
                },
            )
            .serves::<wire::Parents, _, _>(
                "Lists the parents outside that have an identity.",
                |d| {
                    d.audience = Audience::Operator;
                    d.hints.read_only = true;
                },
                move |_: Call, params: ParentsParams| {
                    let this = Arc::clone(&listing);
                    async move { this.parents(params).await }
                },
            )
            .serves::<wire::Revoke, _, _>(
                "Ends every token of a parent outside; its sessions stay.",
                |d| {
                    d.audience = Audience::Operator;
                    d.hints.destructive = true;
                    d.hints.idempotent = true;
                },
                move |_: Call, params: RevokeParams| {
                    let this = Arc::clone(&revoking);
                    async move { this.revoke(params).await }
                },
            )
            .serves::<wire::Code, _, _>(
                "Makes a one-time code that signs the dashboard in.",
                |d| d.audience = Audience::Operator,
                move |_: Call, _: NoParams| {
                    let this = Arc::clone(&self);
                    async move {
                        Ok(SignInCode { code: this.identity.code()?.expose().to_owned() })
                    }
                },
            )
            .serves::<wire::Pair, _, _>(
                "Makes a one-time code and a link with which a device, such as a phone, gets a \
                 token that may read and decide, and nothing else.",
                |d| d.audience = Audience::Operator,
                move |_: Call, params: PairParams| {
                    let devices = pairing.clone();
                    async move { devices.pair(params).await }
                },
            )
            .serves::<wire::Devices, _, _>(
                "Lists the devices that may read and decide, oldest first.",
                |d| {
                    d.audience = Audience::Operator;
                    d.hints.read_only = true;
                },
                move |_: Call, _: NoParams| {
                    let devices = showing.clone();
                    async move { devices.devices().await }
                },
            )
            .serves::<wire::Unpair, _, _>(
                "Takes back the token of a device and cuts its open connections at once; what it \
                 decided stays.",
                |d| {
                    d.audience = Audience::Operator;
                    d.hints.destructive = true;
                },
                move |_: Call, params: UnpairParams| {
                    let devices = unpairing.clone();
                    async move { devices.unpair(params).await }
                },
            )
            .short_list(&[])
    }
}

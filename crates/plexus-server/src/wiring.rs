//! Puts the parts together. The only module that names everything: store, engine, hub and doors.
//!
//! ```no_run
//! use plexus_server::{PlexusBuilder, ProgramLine};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn embed() -> Result<(), Box<dyn std::error::Error>> {
//! // A hub with a store of its own, inside another program.
//! let plexus = PlexusBuilder::new("/var/lib/my-program/plexus")
//!     .agent(ProgramLine { program: "claude".into(), leading: vec![] })
//!     .shim(ProgramLine { program: "plexus".into(), leading: vec!["shim".into()] })
//!     .with_claudecode()
//!     .with_claudecode_loopback()
//!     .build()?;
//!
//! // Call it from here …
//! let sessions = plexus.call("claudecode.list", serde_json::json!({})).await?;
//! println!("{sessions}");
//!
//! // … or let others come in through the doors.
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let shutdown = CancellationToken::new();
//! plexus.serve(listener, shutdown).await?;
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plexus_agents::acp::{Homes, Profile};
use plexus_agents::{Acp, ClaudeCode, Codex, CodexOptions};
use plexus_core::{
    Activation, ActivationInfo, Call, CallError, Caller, Hub, RegisterError, Reply, SecretToken,
    SessionId,
};
use plexus_engine::agents::Drivers;
use plexus_engine::handles::{CODEX, CONE};
use plexus_engine::settings::{NodeSettings, ProgramLine, Settings};
use plexus_engine::{Engine, Identity};
use plexus_store::{
    AuditLine, Change, Durability, JsonText, Priority, SqliteOptions, SqliteStore, Store,
    StoreError, UnixMillis,
};
use plexus_tls::serving::Serving;
use plexus_transport::{AllowedHosts, Doors, Limits, Listener};
use plexus_wire::FIRST_AGENT;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::data_dir::{DataDir, DataDirProblem};
use crate::instructions::INSTRUCTIONS;
use crate::serve::relay::HttpRelay;
use crate::serve::{pages, steward};
use plexus_notify::{NotifyMethods, Receiver, Receivers, Sender};
use plexus_render::screen::counted;

/// Why a Plexus could not be built or started.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirProblem),
    /// The store cannot be opened.
    #[error("open the store in {}: {source}", dir.display())]
    Store {
        /// The data directory.
        dir: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// The store lost sessions that have run directories.
    #[error("use the store in {}: it does not know {}, such as {}, though their directories in \
        runs/ are newer than everything in it; plexus.db or plexus.db-wal was replaced, emptied or \
        cut off. Put the newest backup in place of plexus.db and start with \
        `plexus serve --accept-older-store`, or with that flag alone to go on without these \
        sessions; runs/ was left as it is", dir.display(),
        counted(sessions.len() as u64, "session"), sessions[0])]
    OlderStore {
        /// The data directory.
        dir: PathBuf,
        /// The sessions, at least one.
        sessions: Vec<SessionId>,
    },
    /// An activation was not taken.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Runs of an earlier server cannot be read.
    #[error("take over the runs of an earlier server: {0}")]
    Reattach(#[source] StoreError),
    /// The store does not take the note that an older store was accepted.
    #[error("note that an older store was accepted: {0}")]
    Accept(#[source] StoreError),
    /// The listener has no address.
    #[error("use the listener: {0}")]
    Listener(#[source] std::io::Error),
}

/// What a Plexus is built from. Without any `with_…` for a part of Plexus it has all of them.
#[derive(Clone, Debug)]
pub struct PlexusBuilder {
    settings: Settings,
    codex: CodexOptions,
    acp: BTreeMap<String, Profile>,
    durability: Durability,
    accepts_older_store: bool,
    limits: Limits,
    allowed_hosts: Vec<String>,
    receivers: Vec<Receiver>,
    parts: Vec<Part>,
    others: Vec<Other>,
    shared: Option<(SharedStore, Membership)>,
}

/// A store that is open, and that other servers use too.
#[derive(Clone)]
struct SharedStore(Arc<dyn Store>);

impl std::fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedStore")
    }
}

/// Registers an activation with a hub.
type Register = dyn Fn(&Hub) -> Result<(), RegisterError> + Send + Sync;

/// An activation that the embedding program adds.
#[derive(Clone)]
struct Other(Arc<Register>);

impl std::fmt::Debug for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Other")
    }
}

/// Who a server is among those that share its store. Its identity lies in its data directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// What people call it.
    pub name: String,
    /// Where the others reach it; `None` for where it listens.
    pub url: Option<String>,
    /// How long the others trust it without a word.
    pub lease: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    ClaudeCode,
    Loopback,
    Arbor,
    Health,
    Identity,
    Server,
    Notify,
}

const EVERYTHING: &[Part] = &[
    Part::ClaudeCode,
    Part::Loopback,
    Part::Arbor,
    Part::Health,
    Part::Identity,
    Part::Server,
    Part::Notify,
];

impl PlexusBuilder {
    /// A Plexus with its data in `data_dir`, whose children are the `claude` of `PATH`, held by the
    /// `plexus` of `PATH`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let shim = ProgramLine { program: "plexus".into(), leading: vec!["shim".into()] };
        let mut settings = Settings::new(data_dir, shim);
        let claude = ProgramLine { program: "claude".into(), leading: Vec::new() };
        settings.install(FIRST_AGENT, claude);
        let home = settings.data_dir.join(CODEX);
        Self {
            settings,
            codex: CodexOptions { home, ..CodexOptions::default() },
            acp: BTreeMap::new(),
            durability: Durability::Full,
            accepts_older_store: false,
            limits: Limits::default(),
            allowed_hosts: Vec::new(),
            receivers: Vec::new(),
            parts: Vec::new(),
            others: Vec::new(),
            shared: None,
        }
    }

    /// Names the program of Codex, and says where it keeps its files and what its models cost.
    #[must_use]
    pub fn codex(mut self, program: ProgramLine, options: CodexOptions) -> Self {
        self.settings.install(CODEX, program);
        self.codex = options;
        self
    }

    /// Adds an agent of the Agent Client Protocol under a name; without a program it is known and
    /// not installed.
    #[must_use]
    pub fn acp(
        mut self,
        name: impl Into<String>,
        profile: Profile,
        program: Option<ProgramLine>,
    ) -> Self {
        let name = name.into();
        if let Some(program) = program {
            self.settings.install(name.clone(), program);
        }
        self.acp.insert(name, profile);
        self
    }

    /// Names the program that holds a conversation with a model itself, `plexus cone`, and what is
    /// particular to it.
    #[must_use]
    pub fn cone(self, program: ProgramLine, profile: Profile) -> Self {
        self.acp(CONE, profile, Some(program))
    }

    /// Uses a store that several servers share instead of the file in the data directory.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn Store>, member: Membership) -> Self {
        self.shared = Some((SharedStore(store), member));
        self
    }

    /// Names the program of the first agent, Claude Code.
    #[must_use]
    pub fn agent(mut self, program: ProgramLine) -> Self {
        self.settings.install(FIRST_AGENT, program);
        self
    }

    /// Names the program that holds a child; `plexus shim` or `plexus-shim`.
    #[must_use]
    pub fn shim(mut self, shim: ProgramLine) -> Self {
        self.settings.shim = shim;
        self
    }

    /// Changes any other setting of the engine.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Says how the store treats the disk.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Says whether a store that lost sessions is used without them. Otherwise
    /// [`build`](Self::build) refuses it.
    #[must_use]
    pub fn accept_older_store(mut self, accepts: bool) -> Self {
        self.accepts_older_store = accepts;
        self
    }

    /// Sets the bounds of the doors.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Names more hosts under which the doors may be reached.
    #[must_use]
    pub fn allowed_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.allowed_hosts.extend(hosts);
        self
    }

    /// Sets the receivers outside that are told what happens, in place of any set before.
    #[must_use]
    pub fn receivers(mut self, receivers: Vec<Receiver>) -> Self {
        self.receivers = receivers;
        self
    }

    /// Adds sessions and chats.
    #[must_use]
    pub fn with_claudecode(self) -> Self {
        self.with(Part::ClaudeCode)
    }

    /// Adds approvals and rules. Without it, a tool call that asks waits until its deadline.
    #[must_use]
    pub fn with_claudecode_loopback(self) -> Self {
        self.with(Part::Loopback)
    }

    /// Adds the trees.
    #[must_use]
    pub fn with_arbor(self) -> Self {
        self.with(Part::Arbor)
    }

    /// Adds health.
    #[must_use]
    pub fn with_health(self) -> Self {
        self.with(Part::Health)
    }

    /// Adds tokens for parents and codes for the dashboard.
    #[must_use]
    pub fn with_identity(self) -> Self {
        self.with(Part::Identity)
    }

    /// Adds the methods with which the operator stops and prunes this server.
    #[must_use]
    pub fn with_server(self) -> Self {
        self.with(Part::Server)
    }

    /// Adds the methods about receivers outside.
    #[must_use]
    pub fn with_notify(self) -> Self {
        self.with(Part::Notify)
    }

    /// Adds an activation of your own, or a hub of several, beside those of Plexus. Its methods are
    /// at every door, and its handles resolve.
    #[must_use]
    pub fn with_activation<A: Activation>(mut self, activation: Arc<A>) -> Self {
        let register = move |hub: &Hub| hub.register(Arc::clone(&activation));
        self.others.push(Other(Arc::new(register)));
        self
    }

    fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Opens the data directory and puts everything together. Nothing runs yet.
    ///
    /// # Errors
    /// When the data directory cannot be used (another server has it, a newer Plexus wrote it, its
    /// store is older than its run directories), a part is registered twice, or an activation is
    /// not acceptable.
    pub fn build(mut self) -> Result<Plexus, BuildError> {
        let mut dir = DataDir::prepare(&self.settings.data_dir)?;
        self.settings.data_dir = dir.path().to_owned();
        let mut lost = Vec::new();
        let store: Arc<dyn Store> = match self.shared.take() {
            Some((SharedStore(store), member)) => {
                dir.lock()?;
                let Membership { name, url, lease } = member;
                // The others come in by this name, so the doors must know it.
                self.allowed_hosts.extend(url.as_deref().and_then(host_of));
                self.settings.node = Some(NodeSettings { id: dir.node_id()?, name, url, lease });
                store
            }
            None => {
                let options =
                    SqliteOptions { sync: self.durability, ..SqliteOptions::new(dir.path()) };
                let failed = |source| BuildError::Store { dir: dir.path().to_owned(), source };
                let store = SqliteStore::open(&options).map_err(failed)?;
                lost = store.lost(dir.sessions_with_runs()?).map_err(failed)?;
                if !lost.is_empty() && !self.accepts_older_store {
                    return Err(BuildError::OlderStore {
                        dir: dir.path().to_owned(),
                        sessions: lost,
                    });
                }
                Arc::new(store)
            }
        };
        // The holder of the lock is the only server: what an earlier one announced is no longer
        // true.
        dir.withdraw_announcement()?;
        let operator = dir.operator_token()?;
        let drivers = Drivers::default()
            .with(FIRST_AGENT, Arc::new(ClaudeCode))
            .with(CODEX, Arc::new(Codex::new(self.codex)));
        let (homes, user) = (dir.path().join("agents"), std::env::home_dir().unwrap_or_default());
        let drivers = self.acp.into_iter().fold(drivers, |drivers, (name, profile)| {
            let homes = Homes { own: homes.join(&name), user: user.clone() };
            drivers.with(name, Arc::new(Acp::new(profile, homes)))
        });
        let reach = self.settings.reach.url.clone();
        let engine = Engine::new(Arc::clone(&store), self.settings, &drivers, &operator);
        engine.set_relay(Arc::new(HttpRelay));
        let receivers = Receivers::new(Arc::clone(&engine), dir.path(), reach, self.receivers);
        let hub = Hub::new(HUB);
        let stop = CancellationToken::new();
        let parts = if self.parts.is_empty() { EVERYTHING } else { &self.parts };
        for part in parts {
            match part {
                Part::ClaudeCode => plexus_activations::register_sessions(&engine, &hub)?,
                Part::Loopback => plexus_activations::register_loopback(&engine, &hub)?,
                Part::Arbor => plexus_activations::register_arbor(&engine, &hub)?,
                Part::Health => plexus_activations::register_health(&engine, &hub)?,
                Part::Identity => plexus_activations::register_identity(&engine, &hub)?,
                Part::Server => {
                    hub.register(Arc::new(steward::Steward::new(&store, &engine, stop.clone())))?
                }
                Part::Notify => {
                    hub.register(Arc::new(NotifyMethods::new(&store, receivers.clone())))?
                }
            }
        }
        for Other(register) in &self.others {
            register(&hub)?;
        }
        Ok(Plexus {
            dir,
            lost,
            store,
            engine,
            hub,
            operator,
            limits: self.limits,
            allowed_hosts: self.allowed_hosts,
            receivers,
            stop,
        })
    }
}

const HUB: ActivationInfo = ActivationInfo {
    namespace: "plexus",
    version: (1, 0, 0),
    description: "Supervises Claude Code sessions: routes to everything below.",
};

/// How long the tasks of a server may take to notice that it stops. Nothing is lost with them:
/// children write journals, not to us.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// A hub with its store and engine.
pub struct Plexus {
    dir: DataDir,
    /// Sessions that the store lost, when an older one was accepted.
    lost: Vec<SessionId>,
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    hub: Arc<Hub>,
    operator: SecretToken,
    limits: Limits,
    allowed_hosts: Vec<String>,
    receivers: Receivers,
    /// Cancelled by `server.stop`.
    stop: CancellationToken,
}

/// How a server ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Children that go on running, to be picked up by the next server. `None` when the server was
    /// asked to stop before it had picked up those of the server before it.
    pub children: Option<usize>,
}

impl Plexus {
    /// Returns the hub.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Returns the engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the receivers that are told outside, which can be changed while it runs.
    #[must_use]
    pub fn receivers(&self) -> &Receivers {
        &self.receivers
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Returns the data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the operator's token, with which a program signs in at the doors.
    #[must_use]
    pub fn operator_token(&self) -> &SecretToken {
        &self.operator
    }

    /// Calls a method as the operator, from inside this program.
    ///
    /// # Errors
    /// What the method answers.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let params = plexus_core::method::raw(&params)?;
        match self.hub.call(Call::plain(Caller::Operator), method, Some(params)).await? {
            Reply::Value(answer) => serde_json::from_str(answer.give().await?.get())
                .map_err(|_| CallError::internal("read the result")),
            Reply::Stream(_) => {
                Err(CallError::invalid(format_args!("call {method}: it answers with a stream")))
            }
        }
    }

    /// Picks up the children of an earlier server, opens the doors on `listener` and serves until
    /// `shutdown` or `server.stop`. `shutdown` also ends a start that waits for its store.
    ///
    /// # Errors
    /// When the store cannot be read at the start. Later trouble is answered to callers and logged.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<Stopped, BuildError> {
        self.serve_with_tls(listener, None, shutdown).await
    }

    /// Serves as [`serve`](Self::serve) does, and on a second listener with TLS. `listener` is for
    /// this machine: its agents and its commands use it.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub async fn serve_with_tls(
        self,
        listener: TcpListener,
        encrypted: Option<(TcpListener, Serving)>,
        shutdown: CancellationToken,
    ) -> Result<Stopped, BuildError> {
        let address = listener.local_addr().map_err(BuildError::Listener)?;
        let url = url_of(address);
        self.engine.set_url(url.clone());
        self.note_accepted().await?;
        let picked_up = tokio::select! {
            started = self.engine.start() => started.map_err(BuildError::Reattach)?,
            // A start may wait long for its store.
            () = shutdown.cancelled() => {
                self.stop_engine().await;
                self.close_store().await;
                return Ok(Stopped { children: None });
            }
        };
        if picked_up > 0 {
            tracing::info!(runs = picked_up, "picked up what an earlier server left running");
        }
        let identity: Arc<Identity> = Arc::clone(&self.engine.identity);
        let mut hosts = AllowedHosts::loopback(address.port(), self.allowed_hosts.iter().cloned())
            .with_url(&url)
            .with_url(self.engine.settings.reach.url.as_deref().unwrap_or_default());
        let mut listeners = vec![Listener::from(listener)];
        if let Some((socket, Serving { config, .. })) = encrypted {
            let address = socket.local_addr().map_err(BuildError::Listener)?;
            let names = self.allowed_hosts.iter().cloned();
            hosts = hosts.and(AllowedHosts::loopback_tls(address.port(), names));
            listeners.push(Listener::tls(socket, config));
        }
        let doors = Doors::new(Arc::clone(&self.hub), identity.clone(), hosts, self.limits.clone())
            .with_instructions(INSTRUCTIONS)
            .with_answers(self.engine.hook_answers());
        let router = plexus_transport::router(doors.clone()).merge(pages::router(pages::Pages {
            store: Arc::clone(&self.store),
            engine: Arc::clone(&self.engine),
            auth: identity,
            doors: doors.clone(),
            hooks: self.receivers.stats(),
        }));
        let sender = Sender::new(Arc::clone(&self.store), self.receivers.clone());
        let no_more_letters = CancellationToken::new();
        let sending = tokio::spawn(sender.run(no_more_letters.clone()));
        // The sender ends however this function returns.
        let no_more_letters = no_more_letters.drop_guard();
        // The listener has been bound by now, so calls queue up in the kernel until the loop below
        // takes them.
        self.dir.announce(&url)?;
        let either = shutdown.child_token();
        let asked = self.stop.clone();
        let serving = plexus_transport::serve_all(listeners, router, &doors, either.clone());
        let watching = async {
            asked.cancelled().await;
            either.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = serving => {}
            () = watching => {}
        }
        self.dir.withdraw_announcement()?;
        let children = self.engine.children();
        self.stop_engine().await;
        // Last, so that the final messages may still be sent; the rest waits in the outbox.
        drop(no_more_letters);
        if let Err(error) = sending.await {
            tracing::error!(%error, "the sender of webhooks ended badly");
        }
        self.close_store().await;
        Ok(Stopped { children: Some(children) })
    }

    /// Notes that an older store was accepted. The line is newer than the sessions that the store
    /// lost, so the next start accepts it too.
    async fn note_accepted(&self) -> Result<(), BuildError> {
        let Some(first) = self.lost.first() else { return Ok(()) };
        tracing::warn!(
            sessions = self.lost.len(),
            %first,
            "the store is older than its run directories and was accepted: these sessions are gone"
        );
        let body = serde_json::json!({"lost_sessions": self.lost.len(), "first": first});
        let body = JsonText::of(&body).map_err(BuildError::Accept)?;
        let (at, kind) = (UnixMillis::now(), "store.older_accepted".to_owned());
        let line = AuditLine { at, kind, session: None, body };
        let changes = vec![Change::AppendAudit(line)];
        self.store.commit(changes, Priority::Normal).await.map_err(BuildError::Accept)?;
        Ok(())
    }

    async fn stop_engine(&self) {
        if tokio::time::timeout(STOP_DEADLINE, self.engine.stop()).await.is_err() {
            tracing::warn!(
                "some tasks did not stop in time; what they had not stored is read again from the \
                 journals"
            );
        }
    }

    async fn close_store(&self) {
        if let Err(error) = self.store.close().await {
            tracing::error!(%error, "the store did not close cleanly");
        }
    }
}

/// The host and port of a URL, as a `Host` header says them.
fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next().filter(|host| !host.is_empty()).map(str::to_owned)
}

/// Returns the address under which this machine reaches a listener.
#[must_use]
pub fn url_of(address: SocketAddr) -> String {
    let ip = address.ip();
    let host = match (ip.is_unspecified(), ip) {
        (true, std::net::IpAddr::V4(_)) => "127.0.0.1".to_owned(),
        (true, std::net::IpAddr::V6(_)) => "[::1]".to_owned(),
        (false, std::net::IpAddr::V4(ip)) => ip.to_string(),
        (false, std::net::IpAddr::V6(ip)) => format!("[{ip}]"),
    };
    format!("http://{host}:{}", address.port())
}

//! The engine: its parts built from each other, started and stopped as one.
//!
//! This is the only place that names all of them. Each part gets only the parts that it uses. The
//! crates above the engine take from here what they need, and keep nothing else.

use std::path::Path;
use std::sync::Arc;

use agent_lines::journal::JournalWatcher;
use plexus_core::{LatencyReading, SecretToken};
use plexus_rules::{ExampleContext, RealPaths, RuleFile, RuleFileError};
use plexus_store::{OutboxEntry, Prompts, Pruned, Store, StoreError, UnixMillis};
use plexus_wire::HookMessage;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agents::{Agents, Drivers};
use crate::approvals::shown::ApprovalViews;
use crate::approvals::{Approvals, deadlines};
use crate::authority::Authority;
use crate::budget;
use crate::deltas::Deltas;
use crate::hooks::{HookAnswers, HookReceiver, Hooks};
use crate::identity::Identity;
use crate::indexing;
use crate::node::{Heartbeat, Neighbours, Relay, Timing, Trust};
use crate::parking::waker::{self, Whose};
use crate::preview::Previews;
use crate::reading::news::SessionNews;
use crate::reading::scopes::Scopes;
use crate::reading::turns::Turns;
use crate::rulebook::Rulebook;
use crate::run::RunTools;
use crate::settings::Settings;
use crate::start::{Address, Starter};
use crate::supervisor::Supervisor;
use crate::sweep::sweep;
use crate::wait::{STORE_PATIENCE, patiently};

/// Supervision over one store.
pub struct Engine {
    /// Everything durable.
    pub store: Arc<dyn Store>,
    /// What the engine was built from.
    pub settings: Arc<Settings>,
    /// Who may see, steer and decide what.
    pub authority: Authority,
    /// Permission requests and what decides them.
    pub approvals: Arc<Approvals>,
    /// What waiting commands would change.
    pub previews: Arc<Previews>,
    /// Tokens, and the caller each stands for.
    pub identity: Arc<Identity>,
    /// Every child that lives.
    pub supervisor: Arc<Supervisor>,
    /// What is new in sessions.
    pub news: SessionNews,
    /// Live text.
    pub deltas: Deltas,
    /// What changed, for callers that wait for any session.
    pub scopes: Arc<Scopes>,
    /// Whose waiting calls may read now.
    pub turns: Arc<Turns>,
    /// The other servers that share the store.
    pub neighbours: Arc<Neighbours>,
    /// Where this server is reached.
    pub address: Arc<Address>,
    /// The agents that children run.
    pub agents: Agents,
    /// Where the store is shared.
    pub(crate) heartbeat: Option<Arc<Heartbeat>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Engine {
    /// Builds the engine of a server whose operator holds `operator`. Nothing runs before
    /// [`Engine::start`].
    pub fn new(
        store: Arc<dyn Store>,
        mut settings: Settings,
        drivers: &Drivers,
        operator: &SecretToken,
    ) -> Arc<Self> {
        let node = settings.node.clone();
        settings.leash = settings.leash.or(node.as_ref().map(|node| Timing::of(node.lease).leash));
        let settings = Arc::new(settings);
        let agents = Agents::new(drivers, &settings);
        let rulebook = Arc::new(Rulebook::new(Arc::clone(&store)));
        let hooks = Hooks::new(operator, ApprovalViews::new(agents.clone()));
        let approvals =
            Arc::new(Approvals::new(Arc::clone(&store), rulebook, hooks, agents.clone()));
        let identity = Arc::new(Identity::new(Arc::clone(&store), operator));
        let address = Arc::new(Address::default());
        if let Some(url) = &settings.url {
            address.set(url.clone());
        }
        let (deltas, shutdown) = (Deltas::default(), CancellationToken::new());
        let tools = RunTools {
            store: Arc::clone(&store),
            approvals: Arc::clone(&approvals),
            settings: Arc::clone(&settings),
            watcher: Arc::new(JournalWatcher::new()),
            deltas: deltas.clone(),
            trust: Arc::new(Trust::default()),
            shutdown: shutdown.clone(),
        };
        let starter = Starter::new(
            tools.clone(),
            agents.clone(),
            Arc::clone(&identity),
            Arc::clone(&address),
        );
        let supervisor = Supervisor::new(starter);
        let heartbeat = node
            .map(|node| Heartbeat::new(tools, Arc::clone(&address), Arc::clone(&supervisor), node));
        Arc::new(Self {
            authority: Authority::new(Arc::clone(&store)),
            news: SessionNews::new(Arc::clone(&store)),
            scopes: Arc::new(Scopes::new(Arc::clone(&store))),
            turns: Arc::default(),
            neighbours: Arc::new(Neighbours::new(Arc::clone(&store), Arc::clone(&identity))),
            previews: Arc::new(Previews::new(Arc::clone(&settings), Arc::clone(&approvals))),
            store,
            settings,
            approvals,
            identity,
            supervisor,
            deltas,
            address,
            agents,
            heartbeat,
            tasks: TaskTracker::new(),
            shutdown,
        })
    }

    /// Returns what takes the answers of webhooks, for the doors.
    #[must_use]
    pub fn hook_answers(&self) -> Arc<HookAnswers> {
        Arc::new(HookAnswers::new(Arc::clone(&self.approvals), self.identity.refusals()))
    }

    /// Tells these outside from now on, and nobody else.
    pub fn set_hook_receivers(&self, receivers: Vec<HookReceiver>) {
        self.approvals.hooks.set_receivers(receivers);
    }

    /// Writes an entry of the outbox as it is sent, the same at every attempt. It may hold a
    /// one-time token: it is for its receiver alone. Answers go to `public_url`, or to where this
    /// server listens.
    #[must_use]
    pub fn hook_letter(&self, entry: &OutboxEntry, public_url: Option<&str>) -> String {
        let own = self.address.get();
        self.approvals.hooks.letter(entry, public_url.or(own.as_deref()))
    }

    /// The same before it is written; nothing where another version wrote what we cannot read.
    #[must_use]
    pub fn hook_message(
        &self,
        entry: &OutboxEntry,
        public_url: Option<&str>,
    ) -> Option<HookMessage> {
        let own = self.address.get();
        self.approvals.hooks.message(entry, public_url.or(own.as_deref()))
    }

    /// Returns where this server listens, once it does.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        self.address.get()
    }

    /// Says where this server listens; children on the MCP channel need it.
    pub fn set_url(&self, url: String) {
        self.address.set(url);
    }

    /// Says how calls reach the other servers that share the store.
    pub fn set_relay(&self, relay: Arc<dyn Relay>) {
        self.neighbours.set_relay(relay);
    }

    /// How long a write to the shared store takes from here, as the last renewal of the lease saw
    /// it; `None` where the store is not shared.
    #[must_use]
    pub fn store_round_trip(&self) -> Option<std::time::Duration> {
        self.heartbeat.as_ref().map(|heartbeat| heartbeat.round_trip())
    }

    /// Picks up every run that an earlier server left, then enforces deadlines and keeps children.
    /// Returns how many runs were picked up. May be dropped: then [`stop`](Self::stop) ends what has
    /// begun.
    ///
    /// # Errors
    /// When the store cannot be read. One that only does not answer is tried again, for a minute in
    /// all.
    pub async fn start(&self) -> Result<usize, StoreError> {
        let deadline = Instant::now() + STORE_PATIENCE;
        let newest = patiently("read the newest time", deadline, || self.store.newest_time());
        if let Some(newest) = newest.await? {
            UnixMillis::never_before(newest);
        }
        let picked_up = match &self.heartbeat {
            None => self.pick_up(deadline).await?,
            Some(heartbeat) => {
                patiently("register this server", deadline, || heartbeat.register()).await?;
                let picked_up = heartbeat.renewing(self.pick_up(deadline)).await?;
                heartbeat.renewing(heartbeat.sweep()).await;
                self.tasks.spawn(Arc::clone(heartbeat).keep());
                picked_up
            }
        };
        self.tasks.spawn(Arc::clone(&self.supervisor).upkeep());
        self.tasks.spawn(waker::keep(Arc::clone(&self.supervisor), self.shutdown.clone()));
        self.tasks.spawn(deadlines::enforce(Arc::clone(&self.approvals), self.shutdown.clone()));
        self.tasks.spawn(indexing::keep(Arc::clone(&self.store), self.shutdown.clone()));
        let stopper: Arc<dyn budget::Stopper> =
            Arc::clone(&self.supervisor) as Arc<dyn budget::Stopper>;
        self.tasks.spawn(budget::keep(
            Arc::clone(&self.approvals),
            Arc::downgrade(&stopper),
            self.shutdown.clone(),
        ));
        Ok(picked_up)
    }

    /// Picks up what an earlier server left, and waits until `deadline` for a store that does not
    /// answer.
    async fn pick_up(&self, deadline: Instant) -> Result<usize, StoreError> {
        let supervisor = &self.supervisor;
        let drop_copies = || supervisor.drop_needless_copies();
        patiently("read what is parked", deadline, drop_copies).await?;
        let picked_up = supervisor.reattach(deadline).await?;
        // What was being woken and has no process is parked again.
        let put_back = || supervisor.put_back_waking(Whose::Ours);
        patiently("park again what was being woken", deadline, put_back).await?;
        Ok(picked_up)
    }

    /// Reads the rules of a file and changes nothing.
    ///
    /// # Errors
    /// Says which line and why.
    pub fn read_rules(path: &Path, text: &str) -> Result<RuleFile, RuleFileError> {
        let home = std::env::home_dir();
        let context = ExampleContext {
            working_dir: Path::new("/"),
            home: home.as_deref(),
            paths: &RealPaths,
        };
        RuleFile::parse(path, text, UnixMillis::now().as_secs(), &context)
    }

    /// Takes the rules of a file; a bad one is refused with file and line, and the rules in force
    /// stay.
    ///
    /// # Errors
    /// Says which line and why.
    pub fn load_rules(&self, path: &Path, text: &str) -> Result<usize, RuleFileError> {
        let file = Self::read_rules(path, text)?;
        let count = file.rules.len();
        self.approvals.rulebook.set_file_rules(file.rules);
        Ok(count)
    }

    /// Removes what ended before `before` from the store, and old run directories that belong to no
    /// open run. Returns what went from the store, and how many directories.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn prune(
        &self,
        before: UnixMillis,
        prompts: Prompts,
    ) -> Result<(Pruned, u64), StoreError> {
        let pruned = self.store.prune(before, prompts).await?;
        Ok((pruned, sweep(&*self.store, &self.settings.data_dir, before).await?))
    }

    /// Stops the tasks of the server. Children go on running, and are picked up at the next start.
    pub async fn stop(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.supervisor.stopped().await;
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.retire().await;
        }
    }

    /// Ends every child, and waits until none lives.
    pub async fn end_children(&self, reason: &str) {
        self.supervisor.end_all(reason).await;
    }

    /// Parks every child that waits for a decision, where that is safe. Returns how many were.
    pub async fn park_children(&self) -> usize {
        self.supervisor.park_all().await
    }

    /// Says how long permission requests waited for their decisions since the start, by who
    /// decided: `operator`, `session`, `rule`, `deadline`, `webhook`. What a rule answers at once
    /// never waited.
    #[must_use]
    pub fn decision_latency(&self) -> Vec<(&'static str, LatencyReading)> {
        self.approvals.waited()
    }

    /// Says for how many permission requests the agent could have been parked, and why not for the
    /// others, since the start: `parkable`, or the name of the reason.
    #[must_use]
    pub fn parkable(&self) -> Vec<(&'static str, u64)> {
        self.approvals.parkable.read()
    }

    /// How many children live.
    #[must_use]
    pub fn children(&self) -> usize {
        self.supervisor.count()
    }
}

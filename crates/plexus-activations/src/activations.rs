//! All activations over one store: built together, registered one by one, started and stopped as one.

use std::path::Path;
use std::sync::Arc;

use plexus_core::{Hub, LatencyReading, RegisterError, SecretToken};
use plexus_store::{OutboxEntry, Prompts, Pruned, Store, StoreError, UnixMillis};
use tokio_util::task::TaskTracker;

use crate::arbor::Arbor;
use crate::budget;
use crate::claudecode::supervisor::Supervisor;
use crate::claudecode::sweep::sweep;
use crate::claudecode::{ClaudeCode, Core};
use crate::health::Health;
use crate::hooks::{HookAnswers, HookReceiver, Hooks};
use crate::identity::Identity;
use crate::loopback::approvals::{Approvals, Courier};
use crate::loopback::rulebook::Rulebook;
use crate::loopback::{Loopback, deadlines};
use crate::node::{Heartbeat, Relay, Timing};
use crate::parents::Parents;
use crate::rules::{ExampleContext, RealPaths, RuleFile, RuleFileError};
use crate::settings::Settings;

/// Everything the hub can do, over one store.
pub struct Activations {
    core: Arc<Core>,
    supervisor: Arc<Supervisor>,
    /// Where the store is shared.
    heartbeat: Option<Arc<Heartbeat>>,
    tasks: TaskTracker,
}

impl Activations {
    /// Builds the activations of a server whose operator holds `operator`. Nothing runs before [`Activations::start`].
    pub fn new(store: Arc<dyn Store>, mut settings: Settings, operator: &SecretToken) -> Arc<Self> {
        let node = settings.node.clone();
        settings.leash = settings.leash.or(node.as_ref().map(|node| Timing::of(node.lease).leash));
        let rulebook = Arc::new(Rulebook::new(Arc::clone(&store)));
        let approvals =
            Arc::new(Approvals::new(Arc::clone(&store), rulebook, Hooks::new(operator)));
        let identity = Arc::new(Identity::new(Arc::clone(&store), operator));
        let core = Core::new(store, settings, Arc::clone(&approvals), identity);
        let supervisor = Supervisor::new(Arc::clone(&core));
        core.set_supervisor(Arc::downgrade(&supervisor));
        let courier: Arc<dyn Courier> = Arc::clone(&supervisor) as Arc<dyn Courier>;
        approvals.set_courier(Arc::downgrade(&courier));
        let heartbeat =
            node.map(|node| Heartbeat::new(Arc::clone(&core), Arc::clone(&supervisor), node));
        Arc::new(Self { core, supervisor, heartbeat, tasks: TaskTracker::new() })
    }

    /// Returns what turns tokens into callers.
    #[must_use]
    pub fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.core.identity)
    }

    /// Returns what takes the answers of webhooks, for the doors.
    #[must_use]
    pub fn hook_answers(&self) -> Arc<HookAnswers> {
        Arc::new(HookAnswers::new(Arc::clone(&self.core.approvals), self.core.identity.refusals()))
    }

    /// Tells these outside from now on, and nobody else.
    pub fn set_hook_receivers(&self, receivers: Vec<HookReceiver>) {
        self.core.approvals.hooks.set_receivers(receivers);
    }

    /// Writes an entry of the outbox as it is sent, the same at every attempt. It may hold a one-time token: it is for its receiver alone.
    #[must_use]
    pub fn hook_letter(&self, entry: &OutboxEntry) -> String {
        self.core.approvals.hooks.letter(entry, self.core.url().as_deref())
    }

    /// Registers `claudecode`.
    ///
    /// # Errors
    /// As [`Hub::register`].
    pub fn register_claudecode(&self, hub: &Hub) -> Result<(), RegisterError> {
        hub.register(ClaudeCode::new(Arc::clone(&self.core), Arc::clone(&self.supervisor)))
    }

    /// Registers `loopback`.
    ///
    /// # Errors
    /// As [`Hub::register`].
    pub fn register_loopback(&self, hub: &Hub) -> Result<(), RegisterError> {
        hub.register(Loopback::new(Arc::clone(&self.core)))
    }

    /// Registers `arbor`.
    ///
    /// # Errors
    /// As [`Hub::register`].
    pub fn register_arbor(&self, hub: &Hub) -> Result<(), RegisterError> {
        hub.register(Arbor::new(Arc::clone(&self.core.store)))
    }

    /// Registers `health`.
    ///
    /// # Errors
    /// As [`Hub::register`].
    pub fn register_health(&self, hub: &Hub) -> Result<(), RegisterError> {
        hub.register(Health::new(Arc::clone(&self.core.store), Arc::clone(&self.supervisor)))
    }

    /// Registers `identity`.
    ///
    /// # Errors
    /// As [`Hub::register`].
    pub fn register_identity(&self, hub: &Hub) -> Result<(), RegisterError> {
        hub.register(Parents::new(Arc::clone(&self.core)))
    }

    /// Registers everything.
    ///
    /// # Errors
    /// As [`Hub::register`].
    pub fn register_all(&self, hub: &Hub) -> Result<(), RegisterError> {
        self.register_claudecode(hub)?;
        self.register_loopback(hub)?;
        self.register_arbor(hub)?;
        self.register_health(hub)?;
        self.register_identity(hub)
    }

    /// Says where this server listens; children on the MCP channel need it.
    pub fn set_url(&self, url: String) {
        self.core.set_url(url);
    }

    /// Says how calls reach the other servers that share the store.
    pub fn set_relay(&self, relay: Arc<dyn Relay>) {
        self.core.set_relay(relay);
    }

    /// How long a write to the shared store takes from here, as the last renewal of the lease saw it; `None` where the store is not shared.
    #[must_use]
    pub fn store_round_trip(&self) -> Option<std::time::Duration> {
        self.heartbeat.as_ref().map(|heartbeat| heartbeat.round_trip())
    }

    /// Picks up every run that an earlier server left, then enforces deadlines and keeps children. Returns how many runs were picked up.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(self: &Arc<Self>) -> Result<usize, StoreError> {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.register().await?;
        }
        let picked_up = self.supervisor.reattach().await?;
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.sweep().await;
            self.tasks.spawn(Arc::clone(heartbeat).keep());
        }
        self.tasks.spawn(Arc::clone(&self.supervisor).upkeep());
        self.tasks.spawn(deadlines::enforce(
            Arc::clone(&self.core.approvals),
            self.core.shutdown.clone(),
        ));
        let stopper: Arc<dyn budget::Stopper> =
            Arc::clone(&self.supervisor) as Arc<dyn budget::Stopper>;
        self.tasks.spawn(budget::keep(
            Arc::clone(&self.core.approvals),
            Arc::downgrade(&stopper),
            self.core.shutdown.clone(),
        ));
        Ok(picked_up)
    }

    /// Reads the rules of a file; a bad one is refused with file and line, and the rules in force stay.
    ///
    /// # Errors
    /// Says which line and why.
    pub fn load_rules(&self, path: &Path, text: &str) -> Result<usize, RuleFileError> {
        let home = std::env::home_dir();
        let context = ExampleContext {
            working_dir: Path::new("/"),
            home: home.as_deref(),
            paths: &RealPaths,
        };
        let file = RuleFile::parse(path, text, UnixMillis::now().as_secs(), &context)?;
        let count = file.rules.len();
        self.core.approvals.rulebook.set_file_rules(file.rules);
        Ok(count)
    }

    /// Removes what ended before `before` from the store, and old run directories that belong to no open run. Returns what went from the store, and
    /// how many directories.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn prune(
        &self,
        before: UnixMillis,
        prompts: Prompts,
    ) -> Result<(Pruned, u64), StoreError> {
        let pruned = self.core.store.prune(before, prompts).await?;
        Ok((pruned, sweep(&self.core, before).await?))
    }

    /// Stops the tasks of the server. Children go on running, and are picked up at the next start.
    pub async fn stop(&self) {
        self.core.shutdown.cancel();
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

    /// Says how long permission requests waited for their decisions since the start, by who decided: `operator`, `session`, `rule`,
    /// `deadline`, `webhook`. What a rule answers at once never waited.
    #[must_use]
    pub fn decision_latency(&self) -> Vec<(&'static str, LatencyReading)> {
        self.core.approvals.waited()
    }

    /// How many children live.
    #[must_use]
    pub fn children(&self) -> usize {
        self.supervisor.count()
    }
}

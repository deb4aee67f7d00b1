//! The heartbeat: registers this server, renews its lease, lets the children go when it cannot, and
//! takes over from servers that went away.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plexus_shim::layout::RunDir;
use plexus_store::{
    Change, Lease, Outcome, Priority, RegisterServer, RenewLease, Server, ServerState, StoreError,
    TakeOver, TakenOver, UnixMillis,
};
use tokio::time::Instant;

use super::{Timing, lost};
use crate::run::RunTools;
use crate::settings::NodeSettings;
use crate::start::Address;
use crate::supervisor::Supervisor;
use crate::wait::STORE_PATIENCE;

/// How long to wait before a registration is tried again at first; each wait is twice the one
/// before.
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// The longest such wait.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// How long children that were let go may take until their runs are over. They are killed, so this
/// is for a busy machine.
const LET_GO_DEADLINE: Duration = Duration::from_secs(10);

/// How often this server looks for others whose lease is over.
const LOOK_FOR_DEAD: Duration = Duration::from_secs(5);

/// The heartbeat of one server.
pub(crate) struct Heartbeat {
    tools: RunTools,
    address: Arc<Address>,
    supervisor: Arc<Supervisor>,
    node: NodeSettings,
    timing: Timing,
    /// When the last renewal that succeeded was sent.
    renewed_at: Mutex<Instant>,
    /// How long that one took: what a write to the store takes from here.
    round_trip: Mutex<Duration>,
}

/// How a renewal went.
enum Renewal {
    Done,
    /// The store does not answer; the lease may still be valid.
    Unheard,
    /// The lease is over.
    Over(StoreError),
}

impl Heartbeat {
    pub(crate) fn new(
        tools: RunTools,
        address: Arc<Address>,
        supervisor: Arc<Supervisor>,
        node: NodeSettings,
    ) -> Arc<Self> {
        let timing = Timing::of(node.lease);
        let (renewed_at, round_trip) = (Mutex::new(Instant::now()), Mutex::default());
        Arc::new(Self { tools, address, supervisor, node, timing, renewed_at, round_trip })
    }

    /// How long the last renewal took.
    pub(crate) fn round_trip(&self) -> Duration {
        *self.round_trip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers this server. It keeps the runs of its last life, unless another server has taken
    /// over meanwhile.
    pub(crate) async fn register(&self) -> Result<(), StoreError> {
        let sent = Instant::now();
        let register = RegisterServer {
            id: self.node.id,
            name: self.node.name.clone(),
            url: self.node.url.clone().or_else(|| self.address.get()).unwrap_or_default(),
            lease: self.timing.lease,
        };
        self.tools.store.commit(vec![Change::RegisterServer(register)], Priority::Urgent).await?;
        self.heard(sent);
        self.tools.trust.begin();
        Ok(())
    }

    /// Ends the lease of this server, if nothing of it is open. A server with running children keeps
    /// its lease, because they wait for its return.
    pub(crate) async fn retire(&self) {
        let Some(lease) = self.tools.store.lease() else { return };
        match self.tools.store.commit(vec![Change::RetireServer(lease)], Priority::Urgent).await {
            Ok(_)
            | Err(
                StoreError::Conflict { .. }
                | StoreError::Fenced { .. }
                | StoreError::NotFound { .. },
            ) => {}
            Err(error) => tracing::warn!(%error, "could not retire; the lease runs out by itself"),
        }
    }

    /// Does `work`, and renews the lease meanwhile: `work` may take longer than a child lives
    /// without word of a renewed lease.
    pub(crate) async fn renewing<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            never = self.renew_on() => match never {},
        }
    }

    async fn renew_on(&self) -> Infallible {
        loop {
            tokio::time::sleep(self.timing.beat).await;
            // Whoever waits for the work comes back afterwards, if the lease is over.
            let _lease = self.renew_or_let_go().await;
        }
    }

    /// Beats until the server stops.
    pub(crate) async fn keep(self: Arc<Self>) {
        let shutdown = self.tools.shutdown.clone();
        tokio::select! {
            () = self.beat() => {}
            () = shutdown.cancelled() => {}
        }
    }

    async fn beat(&self) {
        let mut tick = tokio::time::interval(self.timing.beat);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut looked_at: Option<Instant> = None;
        loop {
            tick.tick().await;
            match self.renew_or_let_go().await {
                Renewal::Unheard => {}
                Renewal::Done if self.tools.trust.stands() => {
                    if looked_at
                        .is_none_or(|at| at.elapsed() >= LOOK_FOR_DEAD.min(self.timing.lease / 4))
                    {
                        looked_at = Some(Instant::now());
                        self.take_over_from_the_dead().await;
                        self.end_what_is_not_ours().await;
                    }
                }
                // The children were let go, whether or not the lease was over by then.
                Renewal::Done | Renewal::Over(_) => {
                    if !self.come_back().await {
                        return;
                    }
                }
            }
        }
    }

    /// Renews the lease. Lets the children go where it is over, or could not be renewed for as long
    /// as they may live without that.
    async fn renew_or_let_go(&self) -> Renewal {
        let renewal = self.renew().await;
        match &renewal {
            Renewal::Unheard if self.since_renewal() >= self.timing.leash => {
                self.let_go("the lease could not be renewed").await;
            }
            Renewal::Over(error) => self.let_go(&error.to_string()).await,
            Renewal::Done | Renewal::Unheard => {}
        }
        renewal
    }

    async fn renew(&self) -> Renewal {
        let Some(lease) = self.tools.store.lease() else {
            return Renewal::Over(StoreError::Closed);
        };
        let sent = Instant::now();
        let renew = Change::RenewLease(RenewLease { lease, lasts: self.timing.lease });
        match tokio::time::timeout(
            self.timing.patience,
            self.tools.store.commit(vec![renew], Priority::Urgent),
        )
        .await
        {
            Ok(Ok(_)) => {
                self.heard(sent);
                self.touch_leashes();
                Renewal::Done
            }
            Ok(Err(
                error @ (StoreError::Fenced { .. }
                | StoreError::Conflict { .. }
                | StoreError::NotFound { .. }),
            )) => Renewal::Over(error),
            Ok(Err(error)) => {
                tracing::warn!(%error, since_ms = millis(self.since_renewal()), "the lease could \
                    not be renewed; trying again");
                Renewal::Unheard
            }
            Err(_) => {
                tracing::warn!(
                    since_ms = millis(self.since_renewal()),
                    "the store does not answer; trying again"
                );
                Renewal::Unheard
            }
        }
    }

    fn heard(&self, sent: Instant) {
        *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        *self.round_trip.lock().unwrap_or_else(PoisonError::into_inner) = sent.elapsed();
    }

    fn since_renewal(&self) -> Duration {
        self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// A shim lives as long as the last message says, so it hears of nothing but a renewal.
    fn touch_leashes(&self) {
        for key in self.supervisor.live_keys() {
            if let Err(error) = RunDir::new(self.tools.settings.run_dir(key)).touch_lease() {
                tracing::debug!(run = %key, %error, "could not touch a lease");
            }
        }
    }

    /// Ends every child here, without the store: it may be what is gone.
    async fn let_go(&self, why: &str) {
        if !self.tools.trust.stands() {
            return;
        }
        let children = self.supervisor.count();
        tracing::error!(
            children,
            why,
            "this server lets its children go before another takes over"
        );
        self.tools.trust.end();
        if tokio::time::timeout(LET_GO_DEADLINE, self.supervisor.none_live()).await.is_err() {
            tracing::error!(
                left = self.supervisor.count(),
                "some children are still there; their shims end them"
            );
        }
    }

    /// Registers again and goes on with what is still ours. `false`: somebody else is this server
    /// now.
    async fn come_back(&self) -> bool {
        let mut pause = FIRST_RETRY;
        loop {
            if self.is_somebody_else().await {
                tracing::error!(
                    server = %self.node.id,
                    "another server runs under this one's identity and has replaced it; this one \
                     holds no children any more (was its data directory copied? remove node.json \
                     from the copy)"
                );
                return false;
            }
            match self.register().await {
                Ok(()) => break,
                Err(error) => tracing::warn!(%error, "could not register again; trying again"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
        let deadline = Instant::now() + STORE_PATIENCE;
        match self.renewing(self.supervisor.reattach(deadline)).await {
            Ok(runs) => tracing::warn!(runs, "registered again, with what nobody has taken over"),
            Err(error) => {
                tracing::error!(%error, "could not look at the runs of before; they end with a \
                    restart of this server")
            }
        }
        self.renewing(self.sweep()).await;
        true
    }

    /// Two servers of one identity would fence each other in turns; the younger stays.
    async fn is_somebody_else(&self) -> bool {
        let Some(ours) = self.tools.store.lease() else { return false };
        let servers = self.tools.store.servers().await.unwrap_or_default();
        servers.iter().any(|it| {
            it.lease.server == ours.server
                && it.lease.epoch > ours.epoch
                && it.state == ServerState::Alive
        })
    }

    /// Reports runs that others ended, and removes files that nobody needs.
    pub(crate) async fn sweep(&self) {
        if let Err(error) =
            lost::sweep(&*self.tools.store, &self.tools.settings.data_dir, &self.supervisor).await
        {
            tracing::warn!(%error, "could not look for runs that ended without this server");
        }
    }

    async fn take_over_from_the_dead(&self) {
        let servers = match self.tools.store.servers().await {
            Ok(servers) => servers,
            Err(error) => {
                tracing::warn!(%error, "could not look at the other servers");
                return;
            }
        };
        for dead in servers
            .iter()
            .filter(|it| it.state == ServerState::Expired && it.lease.server != self.node.id)
        {
            match self.take_over(dead).await {
                Ok(ended) => tracing::warn!(
                    server = dead.name,
                    id = %dead.lease.server,
                    runs = ended.runs.len(),
                    chats = ended.chats.len(),
                    cancelled = ended.cancelled.len(),
                    voided = ended.voided.len(),
                    parked = ended.parked.len(),
                    "a server went away and did not come back; what it left open has ended"
                ),
                // It came back, or another server was first.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => {
                    tracing::warn!(server = dead.name, %error, "could not take over; trying again")
                }
            }
        }
    }

    async fn take_over(&self, dead: &Server) -> Result<TakenOver, StoreError> {
        let reason = format!(
            "the server {} went away with its agents and did not come back in time",
            dead.name
        );
        let over = TakeOver { lease: dead.lease, reason, at: UnixMillis::now() };
        let committed =
            self.tools.store.commit(vec![Change::TakeOver(over)], Priority::Normal).await?;
        let ended = committed.outcomes.into_iter().find_map(|outcome| match outcome {
            Outcome::TakenOver(ended) => Some(ended),
            _ => None,
        });
        Ok(ended.unwrap_or_default())
    }

    /// Ends children whose run was ended, or whose session was deleted, through another server. A
    /// child that writes nothing would not notice that by itself.
    async fn end_what_is_not_ours(&self) {
        let ours = self.tools.store.lease().map(|Lease { server, .. }| server);
        for handle in self.supervisor.handles() {
            let gone = match self.tools.store.run(handle.key).await {
                Ok(run) => run.ended_at.is_some() || run.server != ours,
                Err(StoreError::NotFound { .. }) => true,
                Err(_) => false,
            };
            if gone && !*handle.ended.borrow() {
                tracing::warn!(run = %handle.key, "a run was ended through another server; its \
                    child goes");
                handle.held.cancel();
                handle.wait_for_end().await;
                self.sweep().await;
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use plexus_core::{SecretToken, ServerId};
    use plexus_store::{
        CreateRun, CreateSession, JsonText, MemoryStore, RunKey, Store, virtual_time,
    };

    use super::*;
    use crate::Engine;
    use crate::agents::Drivers;
    use crate::node::MIN_LEASE;
    use crate::settings::{ProgramLine, Settings};

    /// One life of a server after another, on a store in memory.
    struct Server {
        folder: tempfile::TempDir,
        node: NodeSettings,
        store: Arc<dyn Store>,
    }

    impl Server {
        fn new() -> Self {
            Self::with_store_clock(1)
        }

        /// A server whose store's clock runs this many times as fast as the clock of the test.
        fn with_store_clock(rate: u32) -> Self {
            follow_the_clock(rate);
            Self {
                folder: tempfile::tempdir().unwrap(),
                node: NodeSettings {
                    id: ServerId::generate(),
                    name: "n0".to_owned(),
                    url: None,
                    lease: MIN_LEASE,
                },
                store: Arc::new(MemoryStore::new()),
            }
        }

        fn life(&self) -> Arc<Engine> {
            let shim = ProgramLine { program: "/no/shim".into(), leading: Vec::new() };
            let mut settings = Settings::new(self.folder.path(), shim);
            settings.node = Some(self.node.clone());
            let operator = SecretToken::new("nobody's");
            Engine::new(Arc::clone(&self.store), settings, &Drivers::default(), &operator)
        }

        async fn standing(&self) -> (u64, ServerState) {
            let server = self.store.servers().await.unwrap().remove(0);
            (server.lease.epoch, server.state)
        }
    }

    /// Lets the clock of the store go with the paused clock of the test, this many times as fast.
    fn follow_the_clock(rate: u32) {
        let (began, at) = (Instant::now(), UnixMillis::now());
        virtual_time::set(at);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                virtual_time::set(at.plus(began.elapsed() * rate));
            }
        });
    }

    /// The row and the directory of a run whose server ended before it started the process. Looking
    /// for the process takes a start some seconds.
    async fn unstarted_run(engine: &Engine, session: &str) -> RunKey {
        let create = CreateSession::new(session, None);
        let key = RunKey { session: create.id, n: 0 };
        let run = CreateRun {
            session: create.id,
            expects_n: Some(0),
            channel: "control".to_owned(),
            launch: JsonText::of(&serde_json::json!({})).unwrap(),
        };
        let changes = vec![Change::CreateSession(create), Change::CreateRun(run)];
        engine.store.commit(changes, Priority::Normal).await.unwrap();
        std::fs::create_dir_all(engine.settings.run_dir(key)).unwrap();
        key
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_takes_longer_than_the_lease_keeps_the_lease() {
        // All runs without a process are waited for together, for less than the shortest lease.
        const RATE: u32 = 2;
        let server = Server::with_store_clock(RATE);
        let before = server.life();
        before.heartbeat.as_ref().unwrap().register().await.unwrap();
        let first = unstarted_run(&before, "first").await;
        let second = unstarted_run(&before, "second").await;
        let begun = Instant::now();
        assert_eq!(server.life().start().await.unwrap(), 2);
        assert!(begun.elapsed() * RATE > MIN_LEASE, "{:?}", begun.elapsed());
        assert_eq!(server.standing().await, (2, ServerState::Alive));
        for key in [first, second] {
            let run = server.store.run(key).await.unwrap();
            assert!(run.ended_at.is_some(), "{run:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_let_its_children_go_within_its_lease_comes_back() {
        let server = Server::new();
        let engine = server.life();
        let heartbeat = engine.heartbeat.as_ref().unwrap();
        heartbeat.register().await.unwrap();
        heartbeat.let_go("the lease could not be renewed").await;
        assert!(!heartbeat.tools.trust.stands());
        tokio::spawn(Arc::clone(heartbeat).keep());
        let stands = async || heartbeat.tools.trust.stands().then_some(());
        testkit::eventually_async("children are allowed again", MIN_LEASE * 10, stands).await;
        assert_eq!(server.standing().await, (2, ServerState::Alive));
    }
}

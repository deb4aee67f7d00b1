//! `server`: the operator's methods over the server itself: stop it, prune what is old, copy the
//! store.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use plexus_core::{Activation, ActivationInfo, Audience, Call, CallError, MethodTable};
use plexus_engine::Engine;
use plexus_store::{Prompts, Store, StoreError, UnixMillis};
use plexus_wire::method::server as wire;
use plexus_wire::{BackupParams, Done, PruneParams, Pruned, ServerHealth, StopParams, Stopping};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The activation.
pub(crate) struct Steward {
    started_at: UnixMillis,
    store: Weak<dyn Store>,
    engine: Weak<Engine>,
    stop: CancellationToken,
}

impl Steward {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        engine: &Arc<Engine>,
        stop: CancellationToken,
    ) -> Self {
        let (store, engine) = (Arc::downgrade(store), Arc::downgrade(engine));
        Self { started_at: UnixMillis::now(), store, engine, stop }
    }

    fn store(&self) -> Result<Arc<dyn Store>, CallError> {
        self.store.upgrade().ok_or_else(gone)
    }

    async fn stop(&self, params: StopParams) -> Result<Stopping, CallError> {
        let engine = self.engine.upgrade().ok_or_else(gone)?;
        if params.children == Some(true) {
            engine.end_children("the server was stopped together with its children").await;
        }
        if params.park == Some(true) {
            let parked = engine.park_children().await;
            tracing::info!(parked, "children that waited for a decision were parked");
        }
        let children = engine.children();
        // Open requests may finish, so this answer still leaves.
        self.stop.cancel();
        Ok(Stopping { children: children as u64 })
    }

    async fn prune(&self, params: PruneParams) -> Result<Pruned, CallError> {
        let engine = self.engine.upgrade().ok_or_else(gone)?;
        let prompts = if params.prompts == Some(true) { Prompts::Remove } else { Prompts::Keep };
        let (pruned, run_directories) = engine
            .prune(days_ago(UnixMillis::by_the_machine(), params.older_than_days), prompts)
            .await?;
        let plexus_store::Pruned { approvals, chats, events, prompts, audit } = pruned;
        Ok(Pruned { approvals, chats, events, prompts, audit, run_directories })
    }

    async fn backup(&self, params: BackupParams) -> Result<Done, CallError> {
        match self.store()?.backup_to(&params.path).await {
            Ok(()) => Ok(Done {}),
            Err(error @ StoreError::Invalid { .. }) => {
                Err(CallError::from(error).with_field("path"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn gone() -> CallError {
    CallError::unavailable("reach the server: it has stopped")
}

/// Returns the moment `days` before `now`.
pub(crate) fn days_ago(now: UnixMillis, days: u64) -> UnixMillis {
    const DAY_MS: i64 = 24 * 3_600 * 1_000;
    UnixMillis(now.0.saturating_sub(i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(DAY_MS)))
}

#[async_trait]
impl Activation for Steward {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "server",
            version: (1, 0, 0),
            description: "Stops, prunes and copies this server. For its operator.",
        }
    }

    async fn health(&self) -> Result<Option<Value>, CallError> {
        let (started_at, stopping) = (self.started_at.into(), self.stop.is_cancelled());
        serde_json::to_value(ServerHealth { started_at, stopping }).map(Some).map_err(|error| {
            tracing::error!(%error, "the health of the server could not be serialised");
            CallError::internal("report its health")
        })
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let (stopping, pruning, copying) = (Arc::clone(&self), Arc::clone(&self), self);
        MethodTable::new("server")
            .serves::<wire::Stop, _, _>(
                "Stops the server. Children go on running and are picked up by the next server, \
                 unless `children` is true: then they end first. With `park`, those that wait for \
                 a decision are parked, where that is safe.",
                |d| {
                    d.audience = Audience::Operator;
                    d.hints.destructive = true;
                },
                move |_: Call, params: StopParams| {
                    let this = Arc::clone(&stopping);
                    async move { this.stop(params).await }
                },
            )
            .serves::<wire::Prune, _, _>(
                "Removes what ended long ago: decided approvals, the contents of events, audit \
                 lines, directories that runs have left; the texts of prompts only when asked to. \
                 Sessions, positions and trees stay.",
                |d| {
                    d.audience = Audience::Operator;
                    d.hints.destructive = true;
                },
                move |_: Call, params: PruneParams| {
                    let this = Arc::clone(&pruning);
                    async move { this.prune(params).await }
                },
            )
            .serves::<wire::Backup, _, _>(
                "Writes a copy of the store, as of one moment, to a file that does not exist yet.",
                |d| d.audience = Audience::Operator,
                move |_: Call, params: BackupParams| {
                    let this = Arc::clone(&copying);
                    async move { this.backup(params).await }
                },
            )
            .short_list(&[])
    }
}

//! `health`: what the server is doing, in numbers.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{Activation, ActivationInfo, Audience, Call, CallError, MethodTable, ServerId};
use plexus_engine::Engine;
use plexus_engine::supervisor::Supervisor;
use plexus_store::{Server, Store};
use plexus_wire::method::health as wire;
use plexus_wire::{HealthState, NoParams, ServerNode, ServerState, StoreHealth};

use crate::claudecode::said;

/// The server's state.
pub struct Health {
    store: Arc<dyn Store>,
    supervisor: Arc<Supervisor>,
}

impl Health {
    pub(crate) fn new(engine: &Engine) -> Arc<Self> {
        let (store, supervisor) = (Arc::clone(&engine.store), Arc::clone(&engine.supervisor));
        Arc::new(Self { store, supervisor })
    }

    async fn state(&self) -> Result<HealthState, CallError> {
        let ours = self.store.lease().map(|lease| lease.server);
        let servers = if ours.is_some() { self.store.servers().await? } else { Vec::new() };
        let nodes = servers.into_iter().map(|server| shown(server, ours)).collect();
        Ok(HealthState {
            children: self.supervisor.count() as u64,
            counts: self.store.counts().await?,
            nodes,
        })
    }
}

fn shown(server: Server, ours: Option<ServerId>) -> ServerNode {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    ServerNode {
        id: server.lease.server,
        state: server.state.into(),
        epoch: server.lease.epoch,
        lease_left_ms: millis(server.lease_left),
        heartbeat_age_ms: millis(server.heartbeat_age),
        open_runs: server.open_runs,
        this: ours == Some(server.lease.server),
        name: server.name,
        url: server.url,
    }
}

#[async_trait]
impl Activation for Health {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "health",
            version: (1, 0, 0),
            description: "What the server is doing, in numbers.",
        }
    }

    async fn health(&self) -> Result<Option<serde_json::Value>, CallError> {
        let state = self.state().await?;
        let alive = |node: &&ServerNode| node.state == ServerState::Alive;
        said(&StoreHealth {
            commits: state.counts.commits,
            queue_entries: state.counts.queue_entries,
            servers_alive: state.nodes.iter().filter(alive).count() as u64,
        })
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        MethodTable::new("health")
            .serves::<wire::State, _, _>(
                "Says how many children live, what the store holds, and which servers share it.",
                |d| {
                    d.hints.read_only = true;
                    d.audience = Audience::Operator;
                },
                move |_: Call, _: NoParams| {
                    let this = Arc::clone(&self);
                    async move { this.state().await }
                },
            )
            .short_list(&[])
    }
}

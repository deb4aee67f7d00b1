//! `health`: what the server is doing, in numbers.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{Activation, ActivationInfo, Audience, Call, CallError, MethodTable, ServerId};
use plexus_store::{Counts, Server, ServerState, Store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::claudecode::supervisor::Supervisor;

/// The server's state.
pub struct Health {
    store: Arc<dyn Store>,
    supervisor: Arc<Supervisor>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoParams {}

/// What the server is doing.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
struct State {
    /// Children that live, warm ones included.
    children: usize,
    /// What the store holds.
    #[schemars(with = "Map<String, Value>")]
    counts: Counts,
    /// The servers that share the store; absent where this one has it to itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeState>,
}

/// One server that shares the store.
#[derive(Serialize, JsonSchema)]
struct NodeState {
    /// Its id.
    id: ServerId,
    /// What people call it.
    name: String,
    /// Where the others reach it.
    url: String,
    /// `alive`, `expired`, `retired` or `taken_over`.
    #[schemars(with = "String")]
    state: ServerState,
    /// Which of its registrations this is.
    epoch: u64,
    /// How much of its lease is left, in milliseconds, by the database's clock.
    lease_left_ms: u64,
    /// How long ago it was heard of, in milliseconds, by the database's clock.
    heartbeat_age_ms: u64,
    /// Its runs that have not ended.
    open_runs: u64,
    /// Whether it is the server that answers.
    this: bool,
}

impl Health {
    pub(crate) fn new(store: Arc<dyn Store>, supervisor: Arc<Supervisor>) -> Arc<Self> {
        Arc::new(Self { store, supervisor })
    }

    async fn state(&self) -> Result<State, CallError> {
        let ours = self.store.lease().map(|lease| lease.server);
        let servers = if ours.is_some() { self.store.servers().await? } else { Vec::new() };
        let nodes = servers.into_iter().map(|server| NodeState::of(server, ours)).collect();
        Ok(State { children: self.supervisor.count(), counts: self.store.counts().await?, nodes })
    }
}

impl NodeState {
    fn of(server: Server, ours: Option<ServerId>) -> Self {
        let millis =
            |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            id: server.lease.server,
            state: server.state,
            epoch: server.lease.epoch,
            lease_left_ms: millis(server.lease_left),
            heartbeat_age_ms: millis(server.heartbeat_age),
            open_runs: server.open_runs,
            this: ours == Some(server.lease.server),
            name: server.name,
            url: server.url,
        }
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

    fn methods(self: Arc<Self>) -> MethodTable {
        MethodTable::new("health").unary(
            "state",
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
    }
}

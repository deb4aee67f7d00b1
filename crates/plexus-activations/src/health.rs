//! `health`: what the server is doing, in numbers.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{Activation, ActivationInfo, Audience, Call, CallError, MethodTable};
use plexus_store::{Counts, Store};
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
}

impl Health {
    pub(crate) fn new(store: Arc<dyn Store>, supervisor: Arc<Supervisor>) -> Arc<Self> {
        Arc::new(Self { store, supervisor })
    }

    async fn state(&self) -> Result<State, CallError> {
        Ok(State { children: self.supervisor.count(), counts: self.store.counts().await? })
    }
}

#[async_trait]
impl Activation for Health {
    fn info(&self) -> ActivationInfo {
        ActivationInfo { namespace: "health", version: (1, 0, 0), description: "What the server is doing, in numbers." }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        MethodTable::new("health").unary(
            "state",
            "Says how many children live, and what the store holds.",
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

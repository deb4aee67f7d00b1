//! An activation: a plugin with a namespace, methods, and perhaps handles and children of its own.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_wire::{CallError, Caller, Handle, PluginId};
use serde_json::Value;

use crate::hub::{Hub, HubContext};
use crate::method::MethodTable;

/// What an activation is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActivationInfo {
    /// The first part of its methods' names, unique within a hub.
    pub namespace: &'static str,
    /// Its version; the major number is part of its plugin id.
    pub version: (u64, u64, u64),
    /// What it is for, in one sentence.
    pub description: &'static str,
}

impl ActivationInfo {
    /// Returns the stable id under which handles name this activation.
    #[must_use]
    pub fn plugin_id(&self) -> PluginId {
        PluginId::of(self.namespace, self.version.0)
    }

    /// Returns the version as text, for handles.
    #[must_use]
    pub fn version_text(&self) -> String {
        format!("{}.{}.{}", self.version.0, self.version.1, self.version.2)
    }
}

/// What an owner says of a handle.
#[derive(Clone, PartialEq, Debug)]
pub enum Resolution {
    /// This is not mine: ask somebody else.
    NotMine,
    /// This is mine, and here is what it is.
    Found(Value),
    /// This is mine, and I could not say what it is. Reported as it is, never as "not found by anybody".
    Failed(CallError),
}

/// A plugin of a hub.
#[async_trait]
pub trait Activation: Send + Sync + 'static {
    /// Says what it is called.
    fn info(&self) -> ActivationInfo;

    /// Builds its method table. Called once, when it is registered.
    fn methods(self: Arc<Self>) -> MethodTable;

    /// Receives a weak context of the hub it was registered with, through which it calls and resolves.
    fn attach(&self, _hub: HubContext) {}

    /// Says what `handle` is. The hub asks only the owner by plugin id; `NotMine` is for a handle kind that it does not know.
    async fn resolve(&self, _caller: &Caller, _handle: &Handle) -> Resolution {
        Resolution::NotMine
    }

    /// Says how it is, as an object; `None` when it has nothing to say but that it is there.
    async fn health(&self) -> Result<Option<Value>, CallError> {
        Ok(None)
    }

    /// Returns itself as a hub when it routes to others.
    fn as_hub(self: Arc<Self>) -> Option<Arc<Hub>> {
        None
    }
}

/// Hears of calls that failed, for whoever keeps the record of who tried what. Set with [`HubContext::watch_failures`].
#[async_trait]
pub trait FailureWatcher: Send + Sync + 'static {
    /// `caller` called `method` and got `error`. The caller is answered once this returns, so that what it was told is on record.
    async fn failed(&self, caller: &Caller, method: &str, error: &CallError);
}

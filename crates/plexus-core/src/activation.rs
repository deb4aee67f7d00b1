//! An activation: a plugin with a namespace, methods, and perhaps handles and children of its own.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_wire::{CallError, Caller, Handle};
use serde_json::Value;

use crate::hub::{Hub, HubContext};
use crate::method::MethodTable;

/// The name, version and description of an activation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActivationInfo {
    /// The last part of its path, unique within its hub: letters, digits, `_` and `-`.
    pub namespace: &'static str,
    /// Its version; the major number is part of its plugin id.
    pub version: (u64, u64, u64),
    /// What it is for, in one sentence.
    pub description: &'static str,
}

impl ActivationInfo {
    /// Returns the version as text, for handles.
    #[must_use]
    pub fn version_text(&self) -> String {
        format!("{}.{}.{}", self.version.0, self.version.1, self.version.2)
    }
}

/// One kind of handle that an activation makes and resolves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandleKind {
    /// The `method` of such a handle, for example `chat_event`.
    pub method: &'static str,
    /// The names of the parts that its `meta` must have, in order. More parts may follow.
    pub meta: &'static [&'static str],
    /// What it stands for, in one sentence.
    pub description: &'static str,
}

/// A plugin of a hub.
#[async_trait]
pub trait Activation: Send + Sync + 'static {
    /// Returns its name, version and description.
    fn info(&self) -> ActivationInfo;

    /// Builds its method table. The hub calls this once, at registration.
    fn methods(self: Arc<Self>) -> MethodTable;

    /// Receives its place in the hub that it was registered with. Through it the activation calls
    /// others, resolves handles and makes its own.
    fn attach(&self, _hub: HubContext) {}

    /// Lists the kinds of handles that it owns. The hub passes it no others.
    fn handle_kinds(&self) -> &'static [HandleKind] {
        &[]
    }

    /// Returns the object that `handle` stands for, with a `type`.
    ///
    /// The hub has checked that the handle names this activation and this major version, is of one
    /// of [`Activation::handle_kinds`], and has its metadata. The activation decides who may know
    /// of the object: for everybody else it does not exist.
    async fn resolve(&self, _caller: &Caller, handle: &Handle) -> Result<Value, CallError> {
        Err(CallError::internal(format_args!(
            "resolve a handle of the kind {}: its owner lists the kind and does not resolve it",
            handle.method
        )))
    }

    /// Describes in a few words what `handle` stands for, for a line of a rendered tree; `None`
    /// when the kind alone says enough. As in [`Activation::resolve`], an object that the caller
    /// may not know is an error.
    async fn summarize(
        &self,
        _caller: &Caller,
        _handle: &Handle,
    ) -> Result<Option<String>, CallError> {
        Ok(None)
    }

    /// Reports its health, as an object; `None` when being there is all it reports.
    async fn health(&self) -> Result<Option<Value>, CallError> {
        Ok(None)
    }

    /// Returns itself as a hub when it routes to others.
    fn as_hub(self: Arc<Self>) -> Option<Arc<Hub>> {
        None
    }
}

/// Is told of calls that failed, to record who tried what. Set with [`HubContext::watch_failures`].
#[async_trait]
pub trait FailureWatcher: Send + Sync + 'static {
    /// Records that `caller` called `method` and got `error`. The caller gets its answer only after
    /// this returns, so every answer it gets is on record.
    async fn failed(&self, caller: &Caller, method: &str, error: &CallError);
}

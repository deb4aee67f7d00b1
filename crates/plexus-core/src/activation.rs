//! An activation: a plugin with a namespace, methods, and perhaps handles and children of its own.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_wire::{CallError, Caller, Handle};
use serde_json::Value;

use crate::hub::{Hub, HubContext};
use crate::method::MethodTable;

/// What an activation is called.
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

/// One kind of handles that an activation makes and resolves.
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
    /// Says what it is called.
    fn info(&self) -> ActivationInfo;

    /// Builds its method table. Called once, when it is registered.
    fn methods(self: Arc<Self>) -> MethodTable;

    /// Receives its place in the hub it was registered with: through it the activation calls
    /// others, resolves handles and makes its own.
    fn attach(&self, _hub: HubContext) {}

    /// Lists the kinds of handles that it owns. The hub hands it no others.
    fn handle_kinds(&self) -> &'static [HandleKind] {
        &[]
    }

    /// Says what `handle` stands for, as an object with a `type`.
    ///
    /// The hub has checked that the handle names this activation, is of one of
    /// [`Activation::handle_kinds`], has its metadata and is of this major version. Who may know
    /// of the object is for the activation to decide: for everybody else it does not exist.
    async fn resolve(&self, _caller: &Caller, handle: &Handle) -> Result<Value, CallError> {
        Err(CallError::internal(format_args!(
            "resolve a handle of the kind {}: its owner lists the kind and does not resolve it",
            handle.method
        )))
    }

    /// Writes what `handle` stands for in a few words, for a line of a rendered tree; `None` when
    /// the kind alone says enough. What a caller may not know is an error here as in
    /// [`Activation::resolve`].
    async fn summarize(
        &self,
        _caller: &Caller,
        _handle: &Handle,
    ) -> Result<Option<String>, CallError> {
        Ok(None)
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

/// Hears of calls that failed, for whoever keeps the record of who tried what. Set with
/// [`HubContext::watch_failures`].
#[async_trait]
pub trait FailureWatcher: Send + Sync + 'static {
    /// `caller` called `method` and got `error`. The caller is answered once this returns, so that
    /// what it was told is on record.
    async fn failed(&self, caller: &Caller, method: &str, error: &CallError);
}

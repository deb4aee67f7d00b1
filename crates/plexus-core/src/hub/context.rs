//! The link from an activation to the hub that it is registered with.

use std::sync::{Arc, Weak};

use plexus_wire::{CallError, Caller, Handle, Method, PluginId};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Hub;
use crate::activation::{ActivationInfo, FailureWatcher};
use crate::method::{Call, Reply};

/// The place of an activation in a hub. It is a weak reference: the hub may be gone when it is
/// used.
#[derive(Clone, Default)]
pub struct HubContext {
    hub: Weak<Hub>,
    info: Option<ActivationInfo>,
}

impl HubContext {
    pub(super) fn of(hub: Weak<Hub>, info: ActivationInfo) -> Self {
        Self { hub, info: Some(info) }
    }

    /// Calls a method by its full name, resolved from the topmost hub.
    ///
    /// # Errors
    /// As [`Hub::call`]; `unavailable` when the hub is gone.
    pub async fn call(
        &self,
        call: Call,
        name: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Reply, CallError> {
        self.top()?.call(call, name, params).await
    }

    /// Calls a method of `plexus-wire` as `caller`, and waits for its one answer.
    ///
    /// # Errors
    /// As [`HubContext::call`].
    pub async fn ask<M: Method>(
        &self,
        caller: Caller,
        params: &M::Params,
    ) -> Result<M::Result, CallError> {
        let params = crate::method::raw(params)?;
        match self.call(Call::plain(caller), M::FULL_NAME, Some(params)).await? {
            Reply::Value(answer) => {
                serde_json::from_str(answer.give().await?.get()).map_err(|error| {
                    tracing::error!(%error, method = M::FULL_NAME, "an answer could not be read");
                    CallError::internal(format_args!("read the answer of {}", M::FULL_NAME))
                })
            }
            Reply::Stream(_) => Err(CallError::internal(format_args!(
                "call {}: it answered with a stream",
                M::FULL_NAME
            ))),
        }
    }

    /// Resolves a handle, wherever below the topmost hub its owner is.
    ///
    /// # Errors
    /// As [`Hub::resolve_handle`]; `unavailable` when the hub is gone.
    pub async fn resolve_handle(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Value, CallError> {
        self.top()?.resolve_handle(caller, handle).await
    }

    /// Describes in a few words what a handle stands for, wherever its owner is.
    ///
    /// # Errors
    /// As [`Hub::summarize`]; `unavailable` when the hub is gone.
    pub async fn summarize(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Option<String>, CallError> {
        self.top()?.summarize(caller, handle).await
    }

    /// Returns the path of the activation, the beginning of its methods' full names.
    ///
    /// # Errors
    /// `unavailable` when the hub is gone.
    pub fn path(&self) -> Result<String, CallError> {
        let (hub, info) = self.place()?;
        Ok(hub.path_of(info.namespace))
    }

    /// Makes a handle that the activation owns. All hubs must be registered by then, because an id
    /// depends on the whole path.
    ///
    /// # Errors
    /// `unavailable` when the hub is gone.
    pub fn handle<T: Into<String>>(
        &self,
        method: &str,
        meta: impl IntoIterator<Item = T>,
    ) -> Result<Handle, CallError> {
        let (hub, info) = self.place()?;
        let id = PluginId::of(&hub.path_of(info.namespace), info.version.0);
        Ok(Handle::new(id, info.version_text(), method).with_meta(meta))
    }

    /// Sets the watcher that is told of every failed call. The topmost hub has at most one; returns
    /// whether this one was set.
    pub fn watch_failures(&self, watcher: Weak<dyn FailureWatcher>) -> bool {
        self.top().is_ok_and(|hub| hub.failures.set(watcher).is_ok())
    }

    fn place(&self) -> Result<(Arc<Hub>, ActivationInfo), CallError> {
        self.hub.upgrade().zip(self.info).ok_or_else(stopped)
    }

    fn top(&self) -> Result<Arc<Hub>, CallError> {
        let mut top = self.hub.upgrade().ok_or_else(stopped)?;
        while let Some(parent) = top.parent() {
            top = parent;
        }
        Ok(top)
    }
}

pub(super) fn stopped() -> CallError {
    CallError::unavailable("reach the hub: it has stopped")
}

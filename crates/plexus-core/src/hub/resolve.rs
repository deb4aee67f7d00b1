//! Resolution: from a handle to its owner, and what can go wrong on the way. Each failure has its
//! own message, and none repeats more of a handle than its kind.

use std::sync::Arc;

use plexus_wire::{CallError, Caller, Handle, PluginId};
use serde_json::Value;

use super::Hub;
use super::index::{Index, Plugin, lies_within};
use crate::activation::Activation;

impl Hub {
    /// Returns what `handle` stands for, by asking its owner within this hub.
    ///
    /// # Errors
    /// `not_found` for a plugin that is not here, a kind of handle that it does not have, and an
    /// object that does not exist for this caller; `invalid` for a handle of another major version
    /// or without its metadata; the owner's own error when the owner failed.
    pub async fn resolve_handle(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Value, CallError> {
        let mut answer = Err(unknown_plugin());
        for owner in self.owners(handle)? {
            answer = owner.resolve(caller, handle).await;
            if answer.is_ok() {
                break;
            }
        }
        answer
    }

    /// Describes in a few words what `handle` stands for; `None` when its owner has no description.
    ///
    /// # Errors
    /// As [`Hub::resolve_handle`].
    pub async fn summarize(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Option<String>, CallError> {
        let mut answer = Err(unknown_plugin());
        for owner in self.owners(handle)? {
            answer = owner.summarize(caller, handle).await;
            if answer.is_ok() {
                break;
            }
        }
        answer
    }

    /// Returns the possible owners of a handle that can be asked, at least one. Several activations
    /// of one namespace may share an id of the first releases: the one that knows the object owns
    /// it.
    fn owners(&self, handle: &Handle) -> Result<Vec<Arc<dyn Activation>>, CallError> {
        let (index, hub) = (self.index(), self.path());
        let named = match index.by_id.get(&handle.plugin_id) {
            Some(owner) => std::slice::from_ref(owner),
            None => index.by_first_id.get(&handle.plugin_id).map_or(&[][..], Vec::as_slice),
        };
        let (mut ready, mut refused) = (Vec::new(), None);
        for owner in named.iter().filter(|owner| lies_within(&owner.path, hub.as_deref())) {
            match checked(owner, handle) {
                Ok(activation) => ready.push(activation),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        if ready.is_empty() {
            return Err(refused.unwrap_or_else(|| nobody(&index, handle)));
        }
        Ok(ready)
    }
}

/// Checks that `owner` can be asked about `handle`.
fn checked(owner: &Plugin, handle: &Handle) -> Result<Arc<dyn Activation>, CallError> {
    let kind = owner.kinds.iter().find(|kind| kind.method == handle.method).ok_or_else(|| {
        CallError::not_found(format_args!(
            "resolve the handle: {} has no handles of the kind {:?}",
            owner.path,
            shortened(&handle.method)
        ))
        .with_hint("plexus.plugins lists the kinds of handles")
    })?;
    if handle.major() != Some(owner.info.version.0) {
        return Err(other_version(&owner.path, owner.info.version.0, handle));
    }
    for (index, name) in kind.meta.iter().enumerate() {
        handle.part::<String>(index, name)?;
    }
    owner.activation.upgrade().ok_or_else(|| {
        CallError::unavailable(format_args!("resolve the handle: {} has stopped", owner.path))
    })
}

/// Returns why a handle has no owner: its plugin is here in another major version, or not at all.
fn nobody(index: &Index, handle: &Handle) -> CallError {
    let same_path = handle.major().and_then(|major| {
        index.plugins.values().find(|plugin| PluginId::of(&plugin.path, major) == handle.plugin_id)
    });
    match same_path {
        Some(plugin) if Some(plugin.info.version.0) != handle.major() => {
            other_version(&plugin.path, plugin.info.version.0, handle)
        }
        _ => unknown_plugin(),
    }
}

fn unknown_plugin() -> CallError {
    CallError::not_found("resolve the handle: no plugin here has its plugin_id")
        .with_hint("plexus.plugins lists the plugins of this server")
}

fn other_version(path: &str, major: u64, handle: &Handle) -> CallError {
    CallError::invalid(format_args!(
        "resolve the handle: it is of version {:?} of {path}, and this server has version {major}",
        shortened(&handle.version)
    ))
    .with_field("handle")
}

/// Shortens a text from outside for an error message.
fn shortened(text: &str) -> &str {
    const CHARS: usize = 40;
    text.char_indices().nth(CHARS).map_or(text, |(end, _)| text.get(..end).unwrap_or_default())
}

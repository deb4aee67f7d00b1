//! The hub's own methods, and the hub as an activation of another hub.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use plexus_wire::method::plexus as wire;
use plexus_wire::{
    CallError, Caller, Handle, HealthReport, KnownThing, Method as _, MethodEntry, MethodList,
    NoParams, PluginList, ResolveParams, Resolved, SchemaParams, Version,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::context::stopped;
use super::index::lies_within;
use super::{Hub, Method};
use crate::activation::{Activation, ActivationInfo, HandleKind};
use crate::caller::Audience;
use crate::method::{Call, MethodDescriptor, MethodTable, Shape};

/// The kinds of handles with a hub's own plugin id.
const KINDS: &[HandleKind] =
    &[HandleKind { method: "hub", meta: &[], description: "The hub itself." }];

/// Takes the place of the report of an activation whose health check failed.
#[derive(Serialize)]
struct FailedHealth {
    error: CallError,
}

/// What a handle stands for, as its owner wrote it.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct AsResolved(#[schemars(with = "Resolved")] Value);

fn alive(hub: &Weak<Hub>) -> Result<Arc<Hub>, CallError> {
    hub.upgrade().ok_or_else(stopped)
}

impl Hub {
    /// Returns the hub's own methods, which cover everything within this hub.
    pub(super) fn own_methods(&self) -> BTreeMap<&'static str, Method> {
        let everybody: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.audience = Audience::Everyone;
        };
        let hub = &self.this;
        let (resolving, listing, showing) = (hub.clone(), hub.clone(), hub.clone());
        let (naming, reporting) = (hub.clone(), hub.clone());
        MethodTable::new(self.info.namespace)
            .unary(
                wire::ResolveHandle::NAME,
                "Says what a handle stands for (a session, an event, an approval), wherever in \
                 the hub its owner is.",
                |d| d.hints.read_only = true,
                move |call: Call, params: ResolveParams| {
                    let hub = resolving.clone();
                    async move {
                        alive(&hub)?
                            .resolve_handle(&call.caller, &params.handle)
                            .await
                            .map(AsResolved)
                    }
                },
            )
            .serves::<wire::Methods, _, _>(
                "Lists the methods that you may call, with one line about each. plexus.schema \
                 {method} shows the parameters of one.",
                everybody,
                move |call: Call, _: NoParams| {
                    let hub = listing.clone();
                    async move {
                        let methods = alive(&hub)?.methods_for(&call.caller);
                        Ok(MethodList {
                            methods: methods
                                .iter()
                                .map(|method| entry(method, Detail::Line))
                                .collect(),
                        })
                    }
                },
            )
            .serves::<wire::Schema, _, _>(
                "Shows the JSON Schemas of one method, or of all that you may call.",
                everybody,
                move |call: Call, params: SchemaParams| {
                    let hub = showing.clone();
                    async move { alive(&hub)?.schemas(&call.caller, params.method.as_deref()) }
                },
            )
            .serves::<wire::Plugins, _, _>(
                "Lists the activations that you can use: path, id, version, methods and kinds of \
                 handles.",
                |d| d.hints.read_only = true,
                move |call: Call, _: NoParams| {
                    let hub = naming.clone();
                    async move { Ok(alive(&hub)?.plugins(&call.caller)) }
                },
            )
            .serves::<wire::Version, _, _>(
                "Says which version of Plexus this is.",
                everybody,
                |_: Call, _: NoParams| async move {
                    Ok(Version { version: env!("CARGO_PKG_VERSION").into() })
                },
            )
            .serves::<wire::Health, _, _>(
                "Says how the server and each of its activations are.",
                |d| {
                    d.hints.read_only = true;
                    d.audience = Audience::Operator;
                },
                move |_: Call, _: NoParams| {
                    let hub = reporting.clone();
                    async move { Ok(alive(&hub)?.report().await) }
                },
            )
            .short_list(&["methods"])
            .for_devices(&["methods", "schema", "version"])
            .methods
    }

    pub(super) fn kinds(&self) -> &'static [HandleKind] {
        KINDS
    }

    fn schemas(&self, caller: &Caller, only: Option<&str>) -> Result<MethodList, CallError> {
        let mut methods = self.methods_for(caller);
        if let Some(name) = only {
            methods.retain(|method| method.full_name() == name);
            if methods.is_empty() {
                return Err(CallError::not_found(format_args!(
                    "show the schema of {name:?}: there is no such method"
                ))
                .with_hint("plexus.methods lists what you may call"));
            }
        }
        let methods = methods.iter().map(|method| entry(method, Detail::Schemas)).collect();
        Ok(MethodList { methods })
    }

    /// Lists the activations within this hub that have a method for `caller`, or handles.
    fn plugins(&self, caller: &Caller) -> PluginList {
        let (index, within) = (self.index(), self.path());
        let here = index.plugins.values().filter(|p| lies_within(&p.path, within.as_deref()));
        let mut plugins: Vec<_> = here.map(|plugin| index.entry(plugin, caller)).collect();
        // An activation without methods may still own handles.
        plugins.retain(|plugin| !plugin.methods.is_empty() || !plugin.handles.is_empty());
        PluginList { plugins }
    }

    /// Asks every activation within this hub for its health. A failure is reported in its place,
    /// and the others are still asked.
    async fn report(&self) -> HealthReport {
        let (index, within) = (self.index(), self.path());
        let mut activations = BTreeMap::new();
        for plugin in index.plugins.values() {
            let this = std::ptr::addr_eq(plugin.activation.as_ptr(), self);
            if this || !lies_within(&plugin.path, within.as_deref()) {
                continue;
            }
            let Some(activation) = plugin.activation.upgrade() else { continue };
            let said = match activation.health().await {
                Ok(said) => said.unwrap_or_else(|| Value::Object(serde_json::Map::new())),
                Err(error) => serde_json::to_value(&FailedHealth { error }).unwrap_or_default(),
            };
            activations.insert(plugin.path.clone(), said);
        }
        HealthReport { version: env!("CARGO_PKG_VERSION").into(), activations }
    }
}

enum Detail {
    Line,
    Schemas,
}

fn entry(method: &MethodDescriptor, detail: Detail) -> MethodEntry {
    let (params, result) = match detail {
        Detail::Line => (None, None),
        Detail::Schemas => (Some(method.params.clone()), Some(method.result.clone())),
    };
    MethodEntry {
        name: method.full_name(),
        description: method.description.to_owned(),
        streaming: method.shape != Shape::Unary,
        params,
        result,
    }
}

#[async_trait]
impl Activation for Hub {
    fn info(&self) -> ActivationInfo {
        self.info
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        // Inside another hub, a hub's own methods stay reachable as `hub.method`, and its children
        // as `hub.child.method`.
        let mut table = MethodTable::new(self.info.namespace);
        table.methods = self.own_methods();
        table
    }

    fn handle_kinds(&self) -> &'static [HandleKind] {
        self.kinds()
    }

    async fn resolve(&self, caller: &Caller, _: &Handle) -> Result<Value, CallError> {
        let path = self.path().unwrap_or_else(|| self.info.namespace.to_owned());
        let index = self.index();
        let entry = index.plugins.get(&path).map(|plugin| index.entry(plugin, caller));
        let entry = entry.ok_or_else(stopped)?;
        serde_json::to_value(KnownThing::Hub(entry)).map_err(|error| {
            tracing::error!(%error, "a hub could not be serialised");
            CallError::internal("show what the handle stands for")
        })
    }

    async fn summarize(&self, _: &Caller, _: &Handle) -> Result<Option<String>, CallError> {
        Ok(Some(format!("the hub {}", self.info.namespace)))
    }

    fn as_hub(self: Arc<Self>) -> Option<Arc<Hub>> {
        Some(self)
    }
}

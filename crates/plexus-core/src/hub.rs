//! The hub: routes calls to activations by namespace and handles to their owners, through hubs in hubs.
//!
//! A hub owns its activations; they hold it only weakly ([`HubContext`]). The registry is read under a lock for the time of a lookup and never across an await.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use async_trait::async_trait;
use futures::future::BoxFuture;
use plexus_wire::method::plexus as wire;
use plexus_wire::{
    CallError, Caller, Handle, HealthReport, Method as _, MethodEntry, MethodList, NoParams,
    PluginId, ResolveParams, Resolved, SchemaParams, Version, schema,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::activation::{Activation, ActivationInfo, FailureWatcher, Resolution};
use crate::caller::Audience;
use crate::method::{Call, Door, Method, MethodDescriptor, MethodTable, Reply};

/// Routes calls and handles to the activations registered with it.
pub struct Hub {
    info: ActivationInfo,
    registry: RwLock<Registry>,
    /// Hears of calls that failed. Weak: a watcher is an activation, and those are the registry's.
    failures: OnceLock<Weak<dyn FailureWatcher>>,
    this: Weak<Hub>,
}

#[derive(Default)]
struct Registry {
    by_namespace: BTreeMap<&'static str, Registered>,
    by_plugin: BTreeMap<PluginId, &'static str>,
}

#[derive(Clone)]
struct Registered {
    activation: Arc<dyn Activation>,
    hub: Option<Arc<Hub>>,
    methods: Arc<BTreeMap<&'static str, Method>>,
}

/// Why an activation was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegisterError {
    /// Another plugin of this id is there already: a handle must have one owner.
    #[error("register {namespace:?}: a plugin with the id {plugin_id} is registered already")]
    Taken {
        /// The namespace that was refused.
        namespace: &'static str,
        /// The id that both have.
        plugin_id: PluginId,
    },
    /// A method's schema would make MCP clients reject the whole list.
    #[error("register {method}: its parameter schema is not acceptable: {problem}")]
    Schema {
        /// The full name of the method.
        method: String,
        /// What and where.
        problem: String,
    },
}

impl Hub {
    /// Makes a hub named `namespace`, for example `plexus`.
    #[must_use]
    pub fn new(info: ActivationInfo) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            info,
            registry: RwLock::default(),
            failures: OnceLock::new(),
            this: this.clone(),
        })
    }

    /// Adds an activation, and hands it a weak context of this hub.
    ///
    /// # Errors
    /// When its plugin id or namespace is taken, or a schema of its methods is not acceptable. Nothing is changed then.
    pub fn register<A: Activation>(&self, activation: Arc<A>) -> Result<(), RegisterError> {
        let info = activation.info();
        let table = Arc::clone(&activation).methods();
        for method in table.methods.values() {
            schema::check_params(&method.descriptor.params).map_err(|problem| {
                RegisterError::Schema { method: method.descriptor.full_name(), problem }
            })?;
        }
        let hub = Arc::clone(&activation).as_hub();
        let entry =
            Registered { activation: activation.clone(), hub, methods: Arc::new(table.methods) };
        {
            let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
            let taken = registry.by_plugin.contains_key(&info.plugin_id())
                || registry.by_namespace.contains_key(info.namespace);
            if taken || info.namespace == self.info.namespace {
                return Err(RegisterError::Taken {
                    namespace: info.namespace,
                    plugin_id: info.plugin_id(),
                });
            }
            registry.by_plugin.insert(info.plugin_id(), info.namespace);
            registry.by_namespace.insert(info.namespace, entry);
        }
        activation.attach(HubContext { hub: self.this.clone() });
        Ok(())
    }

    /// Calls `namespace.method` (or `hub.namespace.method` for a hub inside this one).
    ///
    /// Dropping the returned future, or the stream it gives, cancels the work it asked for.
    ///
    /// # Errors
    /// What the method answers; `-32601` for one that does not exist; `forbidden` for one that is not for this caller.
    pub async fn call(
        &self,
        call: Call,
        name: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Reply, CallError> {
        let caller = call.caller;
        let answer = self.dispatch(call, name, params).await;
        if let Err(error) = &answer
            && let Some(watcher) = self.failures.get().and_then(Weak::upgrade)
        {
            watcher.failed(&caller, name, error).await;
        }
        answer
    }

    async fn dispatch(
        &self,
        call: Call,
        name: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Reply, CallError> {
        let method = self.find(name).filter(|method| method.descriptor.door != Door::Internal);
        let method = method.ok_or_else(|| CallError::unknown_method(name))?;
        if !method.descriptor.audience.admits(&call.caller) {
            return Err(CallError::forbidden(format_args!("call {name}: it is not for you"))
                .with_hint("plexus.methods lists what you may call"));
        }
        let params = match params {
            Some(params) => params,
            None => crate::method::raw(&serde_json::Map::new())?,
        };
        (method.handler)(call, params).await
    }

    /// Calls a method that doors do not offer, for example the rejoin half of a resumable one. Its audience is checked all the same.
    ///
    /// # Errors
    /// As [`Hub::call`].
    pub async fn call_internal(
        &self,
        call: Call,
        name: &str,
        params: Box<RawValue>,
    ) -> Result<Reply, CallError> {
        let method = self.find(name).ok_or_else(|| CallError::unknown_method(name))?;
        if !method.descriptor.audience.admits(&call.caller) {
            return Err(CallError::forbidden(format_args!("call {name}: it is not for you")));
        }
        (method.handler)(call, params).await
    }

    /// Returns the descriptor of `name` if `caller` may call it.
    #[must_use]
    pub fn descriptor(&self, caller: &Caller, name: &str) -> Option<Arc<MethodDescriptor>> {
        let method = self.find(name).filter(|method| method.descriptor.door != Door::Internal)?;
        method.descriptor.audience.admits(caller).then_some(method.descriptor)
    }

    /// Lists what `caller` may call, by name, this hub's own methods included.
    #[must_use]
    pub fn methods_for(&self, caller: &Caller) -> Vec<Arc<MethodDescriptor>> {
        let mut all = self.all_methods();
        all.retain(|method| method.door != Door::Internal && method.audience.admits(caller));
        all
    }

    /// Lists every method, internal ones included, for generating schemas.
    #[must_use]
    pub fn all_methods(&self) -> Vec<Arc<MethodDescriptor>> {
        let mut all: Vec<_> =
            self.own_methods().values().map(|method| Arc::clone(&method.descriptor)).collect();
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        for entry in registry.by_namespace.values() {
            all.extend(entry.methods.values().map(|method| Arc::clone(&method.descriptor)));
        }
        drop(registry);
        all.sort_by_key(|method| (method.namespace, method.name));
        all
    }

    /// Says what `handle` is: am I the owner; is a direct child; else child hubs are asked, each hub once.
    ///
    /// # Errors
    /// `not_found` when nobody owns it; the owner's own error when the owner failed.
    pub async fn resolve_handle(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Value, CallError> {
        let mut visited = HashSet::new();
        match self.resolve_within(caller, handle, &mut visited).await {
            Resolution::Found(value) => Ok(value),
            Resolution::Failed(error) => Err(error),
            Resolution::NotMine => {
                Err(CallError::not_found(format_args!("resolve {handle}: nobody here owns it"))
                    .with_hint("plexus.methods lists the activations of this server"))
            }
        }
    }

    fn resolve_within<'a>(
        &'a self,
        caller: &'a Caller,
        handle: &'a Handle,
        visited: &'a mut HashSet<usize>,
    ) -> BoxFuture<'a, Resolution> {
        Box::pin(async move {
            // Hubs are told apart by address: two hubs may share a name, and a cycle must still end.
            if !visited.insert(std::ptr::from_ref(self) as usize) {
                return Resolution::NotMine;
            }
            let (owner, hubs) = {
                let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
                let owner = registry
                    .by_plugin
                    .get(&handle.plugin_id)
                    .and_then(|namespace| registry.by_namespace.get(namespace))
                    .cloned();
                let hubs: Vec<_> =
                    registry.by_namespace.values().filter_map(|entry| entry.hub.clone()).collect();
                (owner, hubs)
            };
            if let Some(owner) = owner {
                match owner.activation.resolve(caller, handle).await {
                    Resolution::NotMine => {}
                    answer @ (Resolution::Found(_) | Resolution::Failed(_)) => return answer,
                }
            }
            for hub in hubs {
                match hub.resolve_within(caller, handle, visited).await {
                    Resolution::NotMine => {}
                    answer @ (Resolution::Found(_) | Resolution::Failed(_)) => return answer,
                }
            }
            Resolution::NotMine
        })
    }

    /// Asks every activation how it is. One that fails says so in its place; the others are still heard.
    async fn report(&self) -> HealthReport {
        let entries: Vec<(&'static str, Arc<dyn Activation>)> = {
            let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
            registry
                .by_namespace
                .iter()
                .map(|(namespace, entry)| (*namespace, Arc::clone(&entry.activation)))
                .collect()
        };
        let mut activations = BTreeMap::new();
        for (namespace, activation) in entries {
            match activation.health().await {
                Ok(said) => {
                    let said = said.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
                    drop(activations.insert(namespace.to_owned(), said));
                }
                Err(error) => {
                    let failed = serde_json::to_value(&FailedHealth { error }).unwrap_or_default();
                    drop(activations.insert(namespace.to_owned(), failed));
                }
            }
        }
        HealthReport { version: env!("CARGO_PKG_VERSION").into(), activations }
    }

    fn find(&self, name: &str) -> Option<Method> {
        let (namespace, rest) = name.split_once('.')?;
        if namespace == self.info.namespace {
            return self.own_methods().get(rest).cloned();
        }
        let entry = {
            let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
            registry.by_namespace.get(namespace).cloned()?
        };
        match entry.methods.get(rest) {
            Some(method) => Some(method.clone()),
            // A cycle of hubs ends here too: each step consumes one part of the name.
            None => entry.hub.and_then(|hub| hub.find(rest)),
        }
    }
}

/// A weak context of the hub, which an activation keeps. The hub may be gone when it is used.
#[derive(Clone, Default)]
pub struct HubContext {
    hub: Weak<Hub>,
}

impl HubContext {
    /// Calls a method of the hub.
    ///
    /// # Errors
    /// As [`Hub::call`]; `unavailable` when the hub is gone.
    pub async fn call(
        &self,
        call: Call,
        name: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Reply, CallError> {
        self.upgrade()?.call(call, name, params).await
    }

    /// Resolves a handle through the hub.
    ///
    /// # Errors
    /// As [`Hub::resolve_handle`]; `unavailable` when the hub is gone.
    pub async fn resolve_handle(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Value, CallError> {
        self.upgrade()?.resolve_handle(caller, handle).await
    }

    /// Has `watcher` hear of every call of the hub that fails. A hub has one; says whether this is it.
    pub fn watch_failures(&self, watcher: Weak<dyn FailureWatcher>) -> bool {
        self.hub.upgrade().is_some_and(|hub| hub.failures.set(watcher).is_ok())
    }

    fn upgrade(&self) -> Result<Arc<Hub>, CallError> {
        self.hub.upgrade().ok_or_else(|| CallError::unavailable("reach the hub: it has stopped"))
    }
}

/// What stands in the place of an activation that could not say how it is.
#[derive(Serialize)]
struct FailedHealth {
    error: CallError,
}

/// What a handle stands for, as its owner wrote it.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct AsResolved(#[schemars(with = "Resolved")] Value);

impl Hub {
    /// The hub's own methods. Built on demand: they are few, cheap, and called rarely.
    fn own_methods(&self) -> BTreeMap<&'static str, Method> {
        let hub = self.this.clone();
        let (resolving, listing, showing, reporting) = (hub.clone(), hub.clone(), hub.clone(), hub);
        MethodTable::new(self.info.namespace)
            .unary(
                wire::ResolveHandle::NAME,
                "Says what a handle stands for (an event, a message, an approval), wherever in the hub its owner is.",
                |d| d.hints.read_only = true,
                move |call: Call, params: ResolveParams| {
                    let hub = resolving.clone();
                    async move { HubContext { hub }.resolve_handle(&call.caller, &params.handle).await.map(AsResolved) }
                },
            )
            .serves::<wire::Methods, _, _>(
                "Lists the methods that you may call, with one line about each.",
                |d| {
                    d.hints.read_only = true;
                    d.audience = Audience::Everyone;
                },
                move |call: Call, _: NoParams| {
                    let hub = listing.clone();
                    async move {
                        let hub = HubContext { hub }.upgrade()?;
                        let methods =
                            hub.methods_for(&call.caller).iter().map(|method| entry(method, Detail::Line)).collect();
                        Ok(MethodList { methods })
                    }
                },
            )
            .serves::<wire::Schema, _, _>(
                "Shows the JSON Schemas of one method, or of all that you may call.",
                |d| {
                    d.hints.read_only = true;
                    d.audience = Audience::Everyone;
                },
                move |call: Call, params: SchemaParams| {
                    let hub = showing.clone();
                    async move {
                        let hub = HubContext { hub }.upgrade()?;
                        let mut methods = hub.methods_for(&call.caller);
                        if let Some(name) = &params.method {
                            methods.retain(|method| method.full_name() == *name);
                            if methods.is_empty() {
                                return Err(CallError::not_found(format_args!(
                                    "show the schema of {name:?}: there is no such method"
                                ))
                                .with_hint("plexus.methods lists what you may call"));
                            }
                        }
                        Ok(MethodList {
                            methods: methods.iter().map(|method| entry(method, Detail::Schemas)).collect(),
                        })
                    }
                },
            )
            .serves::<wire::Version, _, _>(
                "Says which version of Plexus this is.",
                |d| {
                    d.hints.read_only = true;
                    d.audience = Audience::Everyone;
                },
                |_: Call, _: NoParams| async move { Ok(Version { version: env!("CARGO_PKG_VERSION").into() }) },
            )
            .serves::<wire::Health, _, _>(
                "Says how the server and each of its activations are.",
                |d| {
                    d.hints.read_only = true;
                    d.audience = Audience::Operator;
                },
                move |_: Call, _: NoParams| {
                    let hub = reporting.clone();
                    async move { Ok(HubContext { hub }.upgrade()?.report().await) }
                },
            )
            .methods
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
        streaming: method.shape != crate::method::Shape::Unary,
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
        // Inside another hub, a hub's own methods stay reachable as `hub.method`, and its children as `hub.child.method`.
        let mut table = MethodTable::new(self.info.namespace);
        table.methods = self.own_methods();
        table
    }

    fn as_hub(self: Arc<Self>) -> Option<Arc<Hub>> {
        Some(self)
    }
}

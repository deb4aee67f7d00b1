//! The hub: routes calls to activations by path and handles to their owners, through hubs in hubs.
//!
//! A hub owns its activations; they hold it only weakly ([`HubContext`]). A hub has at most one
//! place in another hub, so hubs form a tree and every activation has one path. The topmost hub
//! keeps an [`Index`] of everything below it, and every lookup reads that.
//!
//! In reading order: `index` lists everything below the topmost hub, `resolve` finds the owner of a
//! handle, `context` is an activation's link to its hub, `panics` turns a panic of a method into an
//! error, `own` holds the hub's own methods.

mod context;
mod index;
mod own;
mod panics;
mod resolve;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use plexus_wire::{CallError, Caller, schema};
use serde_json::value::RawValue;

pub use self::context::HubContext;
use self::index::Index;
use self::panics::Panics;
use crate::activation::{Activation, ActivationInfo, FailureWatcher};
use crate::method::{Call, Door, Method, MethodDescriptor, Reply};

/// How deep hubs may be nested. A path is part of every name below it, and tool names are short.
pub const MAX_DEPTH: usize = 8;

/// How long a namespace or a method's name may be, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// How long the MCP name of a method may be, in bytes. APIs of models accept 128, and clients put
/// the server's name before it.
pub const MAX_TOOL_NAME_BYTES: usize = 100;

/// Routes calls and handles to the activations registered with it.
pub struct Hub {
    info: ActivationInfo,
    /// The hub that this one is registered with, if any.
    parent: RwLock<Option<Weak<Hub>>>,
    registry: RwLock<BTreeMap<&'static str, Registered>>,
    /// Everything below this hub, cached while it is the topmost one. A registration clears it.
    index: RwLock<Option<Arc<Index>>>,
    /// Is told of calls that failed. Weak, because a watcher is an activation and the registry owns
    /// those.
    failures: OnceLock<Weak<dyn FailureWatcher>>,
    /// Counts the panics of methods, while this is the topmost hub.
    panics: Panics,
    this: Weak<Hub>,
}

#[derive(Clone)]
struct Registered {
    activation: Arc<dyn Activation>,
    hub: Option<Arc<Hub>>,
    methods: Arc<BTreeMap<&'static str, Method>>,
}

/// Why an activation was not registered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegisterError {
    /// Another activation is there already: a handle must have one owner.
    #[error("register {path}: another activation is registered there")]
    Taken {
        /// The path that was refused.
        path: String,
    },
    /// A namespace or a method's name contains what some door cannot take, or is too long.
    #[error(
        "register {name:?}: a name has 1 to {MAX_NAME_BYTES} letters, digits, _ and -, and with \
         its path at most {MAX_TOOL_NAME_BYTES}"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Two methods would have the same name over MCP, where dots become underscores.
    #[error("register {method}: over MCP it would have the name of {other}")]
    Tool {
        /// The full name of the method that was refused.
        method: String,
        /// The full name of the method that has the name already.
        other: String,
    },
    /// A hub is registered already, would contain itself, or would be nested too deep.
    #[error(
        "register the hub {namespace}: a hub has one place, not within itself and at most \
         {MAX_DEPTH} deep"
    )]
    Place {
        /// The namespace of the hub.
        namespace: &'static str,
    },
    /// A method's schema would make MCP clients reject the whole list.
    #[error("register {method}: its parameter schema is not acceptable: {problem}")]
    Schema {
        /// The full name of the method.
        method: String,
        /// The problem and its place in the schema.
        problem: String,
    },
}

impl Hub {
    /// Makes a hub named `namespace`, for example `plexus`.
    #[must_use]
    pub fn new(info: ActivationInfo) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            info,
            parent: RwLock::default(),
            registry: RwLock::default(),
            index: RwLock::default(),
            failures: OnceLock::new(),
            panics: Panics::default(),
            this: this.clone(),
        })
    }

    /// Adds an activation, and gives it its place in this hub.
    ///
    /// # Errors
    /// When its path is taken, a name or a schema of its methods is not acceptable, or it is a hub
    /// that is registered already. Nothing is changed then.
    pub fn register<A: Activation>(&self, activation: Arc<A>) -> Result<(), RegisterError> {
        let info = activation.info();
        let methods = Arc::clone(&activation).methods().methods;
        check_name(info.namespace)?;
        for method in methods.values() {
            check_name(method.descriptor.name)?;
            schema::check_params(&method.descriptor.params).map_err(|problem| {
                RegisterError::Schema { method: method.descriptor.full_name(), problem }
            })?;
        }
        let hub = Arc::clone(&activation).as_hub();
        if let Some(hub) = &hub {
            hub.take_place(self)?;
        }
        let entry = Registered { activation: activation.clone(), hub, methods: Arc::new(methods) };
        if let Err(refused) = self.insert(info, &entry) {
            if let Some(hub) = &entry.hub {
                hub.leave_place();
            }
            return Err(refused);
        }
        activation.attach(HubContext::of(self.this.clone(), info));
        Ok(())
    }

    fn insert(&self, info: ActivationInfo, entry: &Registered) -> Result<(), RegisterError> {
        {
            let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
            if registry.contains_key(info.namespace) || info.namespace == self.info.namespace {
                return Err(RegisterError::Taken { path: self.path_of(info.namespace) });
            }
            registry.insert(info.namespace, entry.clone());
        }
        self.forget_index();
        // Names are checked from the topmost hub, because that is where they must be unique.
        let Some(problem) = self.index().problem.clone() else { return Ok(()) };
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        registry.remove(info.namespace);
        drop(registry);
        self.forget_index();
        Err(problem)
    }

    /// Makes `parent` the parent of this hub.
    fn take_place(&self, parent: &Hub) -> Result<(), RegisterError> {
        let refused = RegisterError::Place { namespace: self.info.namespace };
        {
            let mut place = self.parent.write().unwrap_or_else(PoisonError::into_inner);
            if place.as_ref().is_some_and(|place| place.upgrade().is_some()) {
                return Err(refused);
            }
            *place = Some(parent.this.clone());
        }
        // The parent is set before the check: when two hubs are put into each other at the same
        // time, both see the cycle.
        let mut above = parent.this.upgrade();
        for _ in 0..MAX_DEPTH {
            match above {
                None => return Ok(()),
                Some(hub) if std::ptr::eq(&raw const *hub, self) => break,
                Some(hub) => above = hub.parent(),
            }
        }
        self.leave_place();
        Err(refused)
    }

    fn leave_place(&self) {
        *self.parent.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn parent(&self) -> Option<Arc<Hub>> {
        let place = self.parent.read().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().and_then(Weak::upgrade)
    }

    /// Returns the path of this hub; `None` for the topmost one.
    fn path(&self) -> Option<String> {
        self.parent().map(|parent| parent.path_of(self.info.namespace))
    }

    /// Returns the path of the activation `namespace` in this hub.
    fn path_of(&self, namespace: &str) -> String {
        match self.path() {
            Some(path) => format!("{path}.{namespace}"),
            None => namespace.to_owned(),
        }
    }

    /// Returns the index of the topmost hub, and builds it if necessary.
    fn index(&self) -> Arc<Index> {
        if let Some(parent) = self.parent() {
            return parent.index();
        }
        let known = self.index.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.unwrap_or_else(|| {
            // Built under the write lock: a registration in the meantime clears it afterwards.
            let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(index.get_or_insert_with(|| Arc::new(Index::of(self))))
        })
    }

    /// Clears the index of this hub and of those above it.
    fn forget_index(&self) {
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(parent) = self.parent() {
            parent.forget_index();
        }
    }

    /// Calls a method by its full name: `namespace.method`, or `hub.namespace.method` for an
    /// activation of a hub inside the topmost one.
    ///
    /// Dropping the returned future, or the stream that it returns, cancels the work.
    ///
    /// # Errors
    /// The method's own errors; `-32601` for a method that does not exist; `forbidden` for one that
    /// is not for this caller.
    pub async fn call(
        &self,
        call: Call,
        name: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Reply, CallError> {
        let caller = call.caller;
        let answer = self.dispatch(call, name, params).await;
        if let Err(error) = &answer
            && let Some(watcher) = self.watcher()
        {
            watcher.failed(&caller, name, error).await;
        }
        answer
    }

    /// Returns the watcher of the topmost hub, which is told of failed calls.
    fn watcher(&self) -> Option<Arc<dyn FailureWatcher>> {
        match self.parent() {
            Some(parent) => parent.watcher(),
            None => self.failures.get().and_then(Weak::upgrade),
        }
    }

    async fn dispatch(
        &self,
        call: Call,
        name: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Reply, CallError> {
        let method = self.find(name).filter(|method| method.descriptor.door != Door::Internal);
        let method = method.ok_or_else(|| CallError::unknown_method(name))?;
        if !method.descriptor.admits(&call.caller) {
            return Err(not_for(&call.caller, name));
        }
        let params = match params {
            Some(params) => params,
            None => crate::method::raw(&serde_json::Map::new())?,
        };
        self.run(&method, name, call, params).await
    }

    /// Runs a method; a panic is an `internal` error.
    async fn run(
        &self,
        method: &Method,
        name: &str,
        call: Call,
        params: Box<RawValue>,
    ) -> Result<Reply, CallError> {
        self.panics().guard(name, async { (method.handler)(call, params).await }).await
    }

    /// Returns the panics that the topmost hub counts.
    fn panics(&self) -> Panics {
        match self.parent() {
            Some(parent) => parent.panics(),
            None => self.panics.clone(),
        }
    }

    /// Returns how many methods have panicked since the start.
    #[must_use]
    pub fn panic_count(&self) -> u64 {
        self.panics().count()
    }

    /// Calls a method that doors do not offer, for example the rejoin half of a resumable one. Its
    /// audience is still checked.
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
        if !method.descriptor.admits(&call.caller) {
            return Err(not_for(&call.caller, name));
        }
        self.run(&method, name, call, params).await
    }

    fn find(&self, name: &str) -> Option<Method> {
        self.index().methods.get(name).cloned()
    }

    /// Returns the descriptor of `name` if `caller` may call it.
    #[must_use]
    pub fn descriptor(&self, caller: &Caller, name: &str) -> Option<Arc<MethodDescriptor>> {
        let method = self.find(name).filter(|method| method.descriptor.door != Door::Internal)?;
        method.descriptor.admits(caller).then_some(method.descriptor)
    }

    /// Returns the method whose name over MCP is `tool`, whatever its audience. Internal methods
    /// have no such name.
    #[must_use]
    pub fn tool(&self, tool: &str) -> Option<Arc<MethodDescriptor>> {
        let index = self.index();
        let method = index.methods.get(index.tools.get(tool)?)?;
        (method.descriptor.door != Door::Internal).then(|| Arc::clone(&method.descriptor))
    }

    /// Lists what `caller` may call within this hub, by name, the hub's own methods included.
    #[must_use]
    pub fn methods_for(&self, caller: &Caller) -> Vec<Arc<MethodDescriptor>> {
        let mut all = self.all_methods();
        all.retain(|method| method.door != Door::Internal && method.admits(caller));
        all
    }

    /// Lists every method within this hub, internal ones included, for generating schemas.
    #[must_use]
    pub fn all_methods(&self) -> Vec<Arc<MethodDescriptor>> {
        let within = self.path();
        let index = self.index();
        let here = index
            .methods
            .values()
            .filter(|method| index::lies_within(&method.descriptor.namespace, within.as_deref()));
        here.map(|method| Arc::clone(&method.descriptor)).collect()
    }
}

/// The refusal of a method that is not for this caller.
fn not_for(caller: &Caller, name: &str) -> CallError {
    let refused = match caller {
        Caller::Device(_) => {
            format!("call {name}: a device may read and decide, and nothing else")
        }
        Caller::Operator | Caller::Session(_) | Caller::Child(_) => {
            format!("call {name}: it is not for you")
        }
    };
    CallError::forbidden(refused).with_hint("plexus.methods lists what you may call")
}

fn check_name(name: &str) -> Result<(), RegisterError> {
    let acceptable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(acceptable) {
        return Err(RegisterError::Name { name: name.to_owned() });
    }
    Ok(())
}

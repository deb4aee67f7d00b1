//! The index of the topmost hub: every method and every activation below it, by full name.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, Weak};

use plexus_wire::{Caller, HandleKindEntry, PluginEntry, PluginId};

use super::{Hub, MAX_TOOL_NAME_BYTES, Method, RegisterError, Registered};
use crate::activation::{Activation, ActivationInfo, HandleKind};
use crate::method::{Door, MethodDescriptor};

/// Everything below a hub, built from the registries once after each registration.
#[derive(Default)]
pub(super) struct Index {
    /// Every method by its full name.
    pub(super) methods: BTreeMap<String, Method>,
    /// The full names of methods by their names over MCP.
    pub(super) tools: HashMap<String, String>,
    /// Every activation by its path.
    pub(super) plugins: BTreeMap<String, Arc<Plugin>>,
    pub(super) by_id: HashMap<PluginId, Arc<Plugin>>,
    /// Activations inside hubs, by the id that the first releases gave them. That id ignores the
    /// path, so several activations of one namespace share it.
    pub(super) by_first_id: HashMap<PluginId, Vec<Arc<Plugin>>>,
    /// The conflict of names, if any. The registration that caused it is undone.
    pub(super) problem: Option<RegisterError>,
}

/// One activation and its place.
pub(super) struct Plugin {
    pub(super) path: String,
    pub(super) id: PluginId,
    pub(super) info: ActivationInfo,
    pub(super) kinds: &'static [HandleKind],
    /// Weak, because the index of the topmost hub lists that hub itself.
    pub(super) activation: Weak<dyn Activation>,
}

impl Index {
    /// Collects everything below `top`, and `top` itself.
    pub(super) fn of(top: &Hub) -> Self {
        let mut index = Self::default();
        let this: Weak<dyn Activation> = top.this.clone();
        let own = top.own_methods();
        index.add(top.info.namespace.to_owned(), top.info, top.kinds(), this, own.values());
        index.descend(top, None);
        index
    }

    fn descend(&mut self, hub: &Hub, path: Option<&str>) {
        let entries: Vec<(&'static str, Registered)> = {
            let registry = hub.registry.read().unwrap_or_else(PoisonError::into_inner);
            registry.iter().map(|(namespace, entry)| (*namespace, entry.clone())).collect()
        };
        for (namespace, entry) in entries {
            let path = match path {
                Some(path) => format!("{path}.{namespace}"),
                None => namespace.to_owned(),
            };
            let activation = &entry.activation;
            let (info, kinds) = (activation.info(), activation.handle_kinds());
            let weak = Arc::downgrade(activation);
            self.add(path.clone(), info, kinds, weak, entry.methods.values());
            if let Some(hub) = &entry.hub {
                self.descend(hub, Some(&path));
            }
        }
    }

    fn add<'a>(
        &mut self,
        path: String,
        info: ActivationInfo,
        kinds: &'static [HandleKind],
        activation: Weak<dyn Activation>,
        methods: impl Iterator<Item = &'a Method>,
    ) {
        for method in methods {
            self.add_method(&path, method);
        }
        let major = info.version.0;
        let plugin =
            Arc::new(Plugin { id: PluginId::of(&path, major), path, info, kinds, activation });
        self.by_id.insert(plugin.id, Arc::clone(&plugin));
        let first_id = PluginId::of(info.namespace, major);
        if first_id != plugin.id {
            self.by_first_id.entry(first_id).or_default().push(Arc::clone(&plugin));
        }
        self.plugins.insert(plugin.path.clone(), plugin);
    }

    fn add_method(&mut self, path: &str, method: &Method) {
        let mut method = method.clone();
        if method.descriptor.namespace != path {
            let placed = MethodDescriptor {
                namespace: path.to_owned().into(),
                ..MethodDescriptor::clone(&method.descriptor)
            };
            method.descriptor = Arc::new(placed);
        }
        let (name, tool) = (method.descriptor.full_name(), method.descriptor.tool_name());
        if tool.len() > MAX_TOOL_NAME_BYTES {
            self.problem.get_or_insert(RegisterError::Name { name: name.clone() });
        }
        if let Some(other) = self.tools.insert(tool, name.clone()) {
            self.problem.get_or_insert(RegisterError::Tool { method: name.clone(), other });
        }
        self.methods.insert(name, method);
    }

    /// Describes an activation to `caller`.
    pub(super) fn entry(&self, plugin: &Plugin, caller: &Caller) -> PluginEntry {
        let callable = |method: &&Method| {
            let method = &method.descriptor;
            method.namespace == plugin.path
                && method.door != Door::Internal
                && method.admits(caller)
        };
        let methods = self.methods.values().filter(callable);
        PluginEntry {
            path: plugin.path.clone(),
            plugin_id: plugin.id,
            version: plugin.info.version_text(),
            description: plugin.info.description.to_owned(),
            methods: methods.map(|method| method.descriptor.full_name()).collect(),
            handles: plugin.kinds.iter().map(kind_entry).collect(),
        }
    }
}

fn kind_entry(kind: &HandleKind) -> HandleKindEntry {
    HandleKindEntry {
        method: kind.method.to_owned(),
        meta: kind.meta.iter().map(|&part| part.to_owned()).collect(),
        description: kind.description.to_owned(),
    }
}

/// Returns whether `path` is `hub` or below it; everything is within the topmost hub.
pub(super) fn lies_within(path: &str, hub: Option<&str>) -> bool {
    let Some(hub) = hub else { return true };
    path.strip_prefix(hub).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

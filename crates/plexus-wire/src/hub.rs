//! The hub's own methods: `plexus.*`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::DecidedApproval;
use crate::arbor::{Node, Tree};
use crate::audit::AuditLine;
use crate::chat::Stream;
use crate::conversation::Role;
use crate::handle::Handle;
use crate::ids::{PluginId, SessionId};
use crate::json::Object;
use crate::reading::FollowedEvent;
use crate::rule::Rule;
use crate::said::Said;
use crate::schema::tagged;
use crate::session::{Session, SessionStatus};

/// No parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// A result that says only that it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Done", transform = tagged("ok"))]
pub struct Done {}

/// Parameters of `resolve_handle`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ResolveParams {
    /// The handle, as the object or in its text form `plugin_id@version::method:meta`.
    pub handle: Handle,
}

impl ResolveParams {
    /// Asks what this handle stands for.
    #[must_use]
    pub fn new(handle: Handle) -> Self {
        Self { handle }
    }
}

/// What a handle stands for, as its owner says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(untagged)]
pub enum Resolved {
    /// Something of ours.
    Known(Box<KnownThing>),
    /// Something of an activation that somebody else wrote.
    Other(Object),
}

/// What a handle of one of our activations stands for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KnownThing {
    /// An event of a chat.
    Event(FollowedEvent),
    /// The prompt of a chat.
    Message(PromptMessage),
    /// A permission request.
    Approval(DecidedApproval),
    /// A node of a tree.
    Node {
        /// The node.
        node: Node,
    },
    /// A session.
    Session(Box<Session>),
    /// A chat.
    Chat(Stream),
    /// A standing rule.
    Rule(Rule),
    /// A line of the audit.
    AuditLine(AuditLine),
    /// A tree.
    Tree {
        /// The tree.
        tree: Tree,
    },
    /// A hub, by a handle with its own plugin id.
    Hub(PluginEntry),
}

/// The prompt of a chat, and the status of the chat.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct PromptMessage {
    /// `user`.
    pub role: Said<Role>,
    /// The session.
    pub session_id: SessionId,
    /// The chat.
    pub chat: u32,
    /// The prompt; empty when it was removed.
    pub content: String,
    /// True when the prompt happened long ago and its text was removed. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
    /// The status of the chat, as `poll` shows it.
    pub status: Said<SessionStatus>,
    /// How many events it has.
    pub total_events: u32,
}

/// Parameters of `schema`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct SchemaParams {
    /// One method's full name; without it, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// A result of `methods` and `schema`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "MethodList", transform = tagged("ok"))]
pub struct MethodList {
    /// The methods that you may call, by name.
    pub methods: Vec<MethodEntry>,
}

/// One method as `methods` and `schema` list it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct MethodEntry {
    /// Its full name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Whether it may answer with a stream.
    pub streaming: bool,
    /// The JSON Schema of its parameters; only in `schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    pub params: Option<Value>,
    /// The JSON Schema of its result; only in `schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    pub result: Option<Value>,
}

/// A result of `plugins`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "PluginList", transform = tagged("ok"))]
pub struct PluginList {
    /// The activations of this server that you can use, by path.
    pub plugins: Vec<PluginEntry>,
}

/// One activation as `plugins` lists it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct PluginEntry {
    /// Where it is registered; the names of its methods begin with it: `claudecode`, `team.notes`.
    pub path: String,
    /// The id by which handles name it.
    pub plugin_id: PluginId,
    /// Its version.
    pub version: String,
    /// What it is for.
    pub description: String,
    /// The full names of its methods that you may call.
    pub methods: Vec<String>,
    /// The kinds of handles that it resolves.
    pub handles: Vec<HandleKindEntry>,
}

/// One kind of handles as `plugins` lists it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct HandleKindEntry {
    /// The `method` of such a handle.
    pub method: String,
    /// What its `meta` must have, in this order.
    pub meta: Vec<String>,
    /// What it stands for.
    pub description: String,
}

/// A result of `version`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Version", transform = tagged("ok"))]
pub struct Version {
    /// The version of Plexus.
    pub version: String,
}

/// How the server and its activations are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "HealthReport", transform = tagged("ok"))]
pub struct HealthReport {
    /// The version of Plexus.
    pub version: String,
    /// What each activation says, by path: nothing (`{}`) from one that only answers calls,
    /// `{"error": …}` from one that failed.
    pub activations: BTreeMap<String, Value>,
}

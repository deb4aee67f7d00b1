//! The vocabulary of Plexus: ids, handles, activations, hubs, callers and resolution; no I/O.
//!
//! In reading order:
//! - [`ids`]: every identifier as its own type, so that a session can never be passed where a tree is meant.
//! - [`handle`]: the name by which anything the hub knows can be resolved, and its text form.
//! - [`caller`]: who is calling, derived from a token and from nothing else.
//! - [`error`]: the one error shape that every door shows.
//! - [`method`]: what a method is: a name, a description, schemas, who may call it, and a typed handler.
//! - [`schema`]: JSON Schemas as MCP clients accept them.
//! - [`activation`]: a plugin with a namespace, methods, and perhaps handles and children.
//! - [`hub`]: an activation that routes calls and handles to others.
//! - [`auth`]: how a door turns a token into a [`Caller`].
//! - [`json`]: refuses JSON that would be read as something else than it says.
//! - [`digest`]: the digest that binds a decision to the input its decider saw.
//! - [`latency`]: how long something took, counted in buckets for the metrics.

pub mod activation;
pub mod auth;
pub mod caller;
pub mod digest;
pub mod error;
pub mod handle;
pub mod hub;
pub mod ids;
pub mod json;
pub mod latency;
pub mod method;
pub mod schema;

pub use activation::{Activation, ActivationInfo, FailureWatcher, Resolution};
pub use auth::{Answers, Authenticator, SecretToken};
pub use caller::{Audience, Caller};
pub use error::{CallError, ErrorKind};
pub use handle::{Handle, HandleParseError};
pub use hub::{Hub, HubContext, RegisterError};
pub use ids::{ApprovalId, EventId, NodeId, PluginId, RuleId, ServerId, SessionId, TreeId};
pub use latency::{Latency, LatencyReading};
pub use method::{
    Call, Door, Hints, MethodDescriptor, MethodTable, Progress, Reply, ReplyStream, ResourceForm,
    Resume, Shape, StreamItem, WireForm,
};

//! The vocabulary of the server: activations, hubs, callers and resolution; no I/O. The types of
//! `plexus-wire` that every part of the server names are exported here too.
//!
//! In reading order:
//! - [`caller`]: who may call.
//! - [`method`]: what a method is: a name, a description, schemas, who may call it, and a typed
//!   handler.
//! - [`answer`]: one answer of a method, and the change that takes effect when it is given.
//! - [`activation`]: a plugin with a namespace, methods, and perhaps handles and children.
//! - [`hub`]: an activation that routes calls and handles to others.
//! - [`auth`]: how a door turns a token into a [`Caller`].
//! - [`digest`]: the digest that binds a decision to the input its decider saw.
//! - [`latency`]: how long something took, counted in buckets for the metrics.

pub mod activation;
pub mod answer;
pub mod auth;
pub mod caller;
pub mod digest;
pub mod hub;
pub mod latency;
pub mod method;

pub use activation::{Activation, ActivationInfo, FailureWatcher, HandleKind};
pub use answer::{Answer, OnGiven};
pub use auth::{Answers, Authenticator, SignedIn};
pub use caller::Audience;
pub use hub::{Hub, HubContext, RegisterError};
pub use latency::{Latency, LatencyReading};
pub use method::{
    Call, Door, Hints, Listing, MethodDescriptor, MethodTable, Progress, Reader, Reply,
    ReplyStream, ResourceForm, Resume, Shape, StreamItem, WireForm,
};
pub use plexus_wire::{
    ApprovalId, CallError, Caller, DeviceId, ErrorKind, EventId, Handle, HandleParseError, NodeId,
    Origin, PluginId, RuleId, SecretToken, ServerId, SessionId, TreeId, private_keys, schema,
};

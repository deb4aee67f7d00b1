//! What the hub can do: claudecode, loopback, arbor, identity and health.
//!
//! In reading order:
//! - [`settings`]: what the activations are built from.
//! - [`identity`]: tokens, and the caller each stands for.
//! - [`authority`]: who may see, steer and decide what.
//! - [`claudecode`]: sessions, chats, runs.
//! - [`loopback`]: permission requests and what decides them.
//! - [`rules`]: what answers a permission request before anybody is asked; pure.
//! - [`hooks`]: what is told to somebody outside, and the answer that may come back.
//! - [`budget`]: what a session and everything below it may spend.
//! - [`node`]: this server among others that share its store.
//! - [`arbor`], [`health`], [`parents`]: trees for everybody, the server's state, and identities for parents outside.
//! - [`scrub`]: tokens of ours never reach an event.
//! - [`handler`]: a method becomes a line of a method table.
//! - [`activations`]: all of them over one store, for whoever wires a server.

mod activations;
pub mod arbor;
mod authority;
mod budget;
pub mod claudecode;
mod handler;
pub mod health;
pub mod hooks;
pub mod identity;
pub mod loopback;
pub mod node;
pub mod parents;
pub mod rules;
pub mod scrub;
pub mod settings;

pub use activations::Activations;
pub use identity::Identity;
pub use settings::{NodeSettings, ProgramLine, Settings};

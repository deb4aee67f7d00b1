//! The method tables of the hub: what a caller can ask of the engine. Thin: a method checks who
//! asks, lets the engine do the work, and shows the result. `docs/recipes.md` says how to add one.
//!
//! In reading order:
//! - [`claudecode`]: sessions, chats, events, as `agents` and as `claudecode`.
//! - [`loopback`]: permission requests and what decides them.
//! - [`arbor`], [`health`], [`identity`], `devices`: trees for everybody, the server's state, and
//!   identities for parents outside and for phones.
//! - [`handler`]: a method becomes a line of a method table.
//! - [`activations`]: registers them, for the program that wires a server.

mod activations;
pub mod arbor;
pub mod claudecode;
mod devices;
mod handler;
pub mod health;
pub mod identity;
pub mod loopback;

pub use activations::{
    register_all, register_arbor, register_health, register_identity, register_loopback,
    register_sessions,
};

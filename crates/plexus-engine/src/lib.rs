//! Supervision of any agent. This crate knows no vendor: code for one kind of agent implements
//! [`driver::Driver`].
//!
//! In reading order:
//! - [`settings`], [`session`]: what the engine is built from, and what a session was created with.
//! - [`wall`]: the wall around a child, described for the code that builds it.
//! - [`driver`], [`agents`]: what is particular to one kind of agent, and which ones there are.
//! - [`identity`], [`codes`], [`authority`], [`audit`]: tokens, one-time codes, who may do what,
//!   and the record of refused attempts.
//! - [`mcp`]: this server as an MCP configuration names it.
//! - [`start`], [`walled`], [`run`], [`supervisor`]: one child from its start to its end, and all
//!   of them.
//! - [`home`]: the directory of an agent's own settings and login, made ready.
//! - [`hold`], [`orphans`], [`sweep`], [`files`]: a shim held by a descriptor, leftover processes
//!   to end, and leftover files to remove.
//! - [`tools`]: a tool call in one form for every agent.
//! - [`approvals`], [`rulebook`]: permission requests, and what decides them;
//!   `docs/permission-path.md` walks through one.
//! - [`preview`]: what a waiting command would change.
//! - [`budget`]: what a session and everything below it may spend.
//! - [`hooks`]: what is told to somebody outside, and the answer that may come back.
//! - [`node`]: this server among others that share its store.
//! - [`parking`]: agents that wait for a decision without a process.
//! - [`reading`], [`deltas`], [`event`], [`prompt`]: events and live text, written and read.
//! - [`wait`]: waiting for a decision.
//! - [`replan`]: planning a change again after it lost against a concurrent one.
//! - [`handles`]: the names by which the hub finds what the wire shows.
//! - [`scrub`]: keeps our tokens out of events.
//! - [`engine`]: all of it built together.

pub mod agents;
pub mod approvals;
pub mod audit;
pub mod authority;
pub mod budget;
pub mod changes;
mod codes;
pub mod deltas;
pub mod driver;
pub mod engine;
pub mod event;
pub mod handles;
mod hold;
mod home;
pub mod hooks;
pub mod identity;
mod indexing;
mod instructions;
pub mod mcp;
pub mod node;
mod orphans;
pub mod parking;
pub mod preview;
pub mod prompt;
pub mod reading;
pub mod replan;
pub mod rulebook;
pub mod run;
pub mod scrub;
pub mod session;
pub mod settings;
pub mod start;
pub mod supervisor;
mod sweep;
pub mod tools;
pub mod wait;
pub mod wall;
mod walled;

pub use engine::Engine;
pub use identity::Identity;
pub use plexus_files as files;
pub use settings::{NodeSettings, ProgramLine, Settings};

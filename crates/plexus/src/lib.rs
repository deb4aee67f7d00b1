//! Plexus as a program and as a library: configuration, wiring, command line, dashboard and
//! shutdown.
//!
//! To embed Plexus in a program of your own, start at [`PlexusBuilder`]. In reading order:
//! - [`wiring`]: the builder, and what it builds.
//! - [`config`]: flags over variables over `plexus.toml` over defaults.
//! - [`data_dir`]: the directory's modes, the operator's token, `server.json`.
//! - [`agent`]: which program plays the agent.
//! - [`serve`]: `plexus serve`: listening, logging, signals, pages that belong to no door.
//! - [`wall`]: the walls of this machine, and the process that is a confined agent's network.
//! - [`hooks`]: sends what waits in the outbox to the configured receivers.
//! - [`cli`]: every other command.
//! - [`cone`]: a conversation with a model itself, as a program that the server starts.
//! - `acp`: a session for an editor, as an agent of the Agent Client Protocol.
//! - `instructions`: what an MCP client is told.

mod acp;
pub mod agent;
pub mod cli;
pub mod cone;
pub mod config;
pub mod data_dir;
pub mod hooks;
mod instructions;
pub mod serve;
pub mod wall;
pub mod wiring;

pub use plexus_engine::settings::ProgramLine;
pub use wall::egress::{egress, is_egress};
pub use wiring::{BuildError, Membership, Plexus, PlexusBuilder, Stopped};

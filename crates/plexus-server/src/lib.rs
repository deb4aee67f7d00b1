//! The server as a library: everything that `plexus serve` is.
//!
//! To embed Plexus in a program of your own, start at [`PlexusBuilder`]. In reading order:
//! - [`wiring`]: the builder, and what it builds.
//! - [`config`]: flags over variables over `plexus.toml` over defaults.
//! - [`data_dir`]: the directory's modes, the operator's token, `server.json`.
//! - [`agent`]: which program plays the agent.
//! - [`serve`]: `plexus serve`: listening, logging, signals, pages that belong to no transport.
//! - [`wall`]: the walls of this machine, and the process that is a confined agent's network.
//! - [`command`]: the commands that need the machine of the server, with their arguments:
//!   `confine`, `doctor`, and `upkeep` of a store without a server.
//! - `instructions`: what an MCP client is told.

pub mod agent;
pub mod command;
pub mod config;
mod confine;
pub mod data_dir;
mod doctor;
mod instructions;
pub mod serve;
mod upkeep;
pub mod wall;
pub mod wiring;

pub use plexus_engine::settings::ProgramLine;
pub use wall::egress::{egress, is_egress};
pub use wiring::{BuildError, Membership, Plexus, PlexusBuilder, Stopped};

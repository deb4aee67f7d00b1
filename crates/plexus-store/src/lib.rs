//! Everything durable: Arbor trees, sessions, chats, events, approvals, cursors and rules.
//!
//! In reading order:
//! - [`contract`]: everything that other crates need: the [`Store`] trait, whose documentation is
//!   the contract, and the plain data that it takes and returns.
//! - `tables`: the schema and the queries that all engines share.
//! - [`sqlite`]: the engine for a server on one machine.
//! - [`postgres`]: the engine for several servers that share a database.
//! - `memory`: SQLite without a file, for unit tests; only with the feature of that name.

pub mod contract;
#[cfg(feature = "memory")]
mod memory;
pub mod postgres;
mod queue;
pub mod sqlite;
mod tables;

pub use contract::*;
#[cfg(feature = "memory")]
pub use memory::MemoryStore;
pub use postgres::{PostgresOptions, PostgresStore};
pub use sqlite::{Durability, SqliteOptions, SqliteStore};

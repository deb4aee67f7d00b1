//! Everything durable: Arbor trees, sessions, chats, events, approvals, cursors and rules.
//!
//! In reading order:
//! - [`contract`]: the whole of what others need: the [`Store`] trait, whose documentation is the contract, and the plain data it takes and gives.
//! - [`sqlite`]: the engine of a server on one machine.
//! - [`postgres`]: the engine of several servers that share a database.
//! - [`memory`]: the same contract over ordinary maps, for unit tests.

pub mod contract;
pub mod memory;
pub mod postgres;
mod queue;
pub mod sqlite;

pub use contract::*;
pub use memory::MemoryStore;
pub use postgres::{PostgresOptions, PostgresStore};
pub use sqlite::{Durability, SqliteOptions, SqliteStore};

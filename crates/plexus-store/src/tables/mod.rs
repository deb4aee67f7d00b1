//! The tables: what a store keeps, as SQL that every engine runs.
//!
//! In reading order:
//! - `sql`: the little that an engine must be able to do for the tables.
//! - `schema`: the steps that make the tables, and the words in which the engines' dialects differ.
//! - `codes`, `keys`: how enums, amounts and places become numbers.
//! - `tx`: one list of changes while it is applied.
//! - one module for each subject (`sessions`, `chats`, `events`, …): the statements.
//! - `upkeep`: counting, checking, pruning.
//! - `store`: implements the contract by calling the modules above or the engine.
//!
//! Everything here is generic over [`Sql`](sql::Sql) and written once. How changes get in (writers,
//! group commit, locks, leases, notifications) belongs to each engine.

pub(crate) mod approvals;
pub(crate) mod arbor;
pub(crate) mod audit;
pub(crate) mod budget;
pub(crate) mod chats;
mod codes;
pub(crate) mod consumers;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod parking;
pub(crate) mod rules;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod sql;
pub(crate) mod store;
pub(crate) mod tokens;
pub(crate) mod tx;
pub(crate) mod upkeep;

//! Several servers on one PostgreSQL: answers and readers on any of them, and what happens when a
//! server, the database or the connection between them dies.
//!
//! Every test has a database of its own in a cluster that this program starts; those that kill the
//! cluster start one of their own. Where PostgreSQL is not installed they say so and show nothing.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod answers;
mod cluster;
mod database;
mod death;
mod due;
mod history;
mod hosts;
mod migrate;
mod parked;

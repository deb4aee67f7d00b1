//! Sessions and chats through a whole hub, with simulated children: what a parent sees, across
//! cancels, restarts and accidents.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

/// Whether an answer fits a schema.
#[path = "../../../plexus/tests/schema_calls/answers.rs"]
mod answers;
#[path = "../common/mod.rs"]
mod common;

mod accidents;
mod background;
mod bad_input;
mod breach;
mod cancel;
mod costs;
mod crowded;
mod flow;
mod forks;
mod leftovers;
mod long_lines;
mod many;
mod names;
mod network;
mod parked;
mod planted;
mod prestart;
mod pruned;
mod puppet;
mod readers;
mod refused;
mod restart;
mod search;
mod statuses;
mod targets;
mod walls;
mod woken;

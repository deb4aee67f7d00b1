//! The simulator as its users see it: a program with flags, pipes, signals and exit codes.
//!
//! `shapes_*` compares it with recorded runs of the real CLI; the other modules check one subject
//! each.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test is allowed to stop loudly, helpers included"
)]

mod control;
mod driver;
mod permit;
mod permit_server;
mod process;
mod script;
mod shape;
mod shapes_control;
mod shapes_mcp;

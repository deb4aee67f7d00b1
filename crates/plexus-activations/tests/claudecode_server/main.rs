//! A real `plexus serve` that is killed with `SIGKILL` and started again while its children live; and the MCP channel, which needs its doors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod killed;
mod mcp;
mod site;

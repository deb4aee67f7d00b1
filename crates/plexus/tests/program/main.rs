//! The whole program, from outside: as a server, from scripts, and in a terminal.
//!
//! [`mod@installation`] is what each test runs in, [`piped`] a command that talks JSON lines,
//! [`pty`] a terminal with a keyboard.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test, a panic is the answer")]

mod acp;
mod answers;
mod changes;
mod commands;
mod conversation;
mod devices;
mod doctor;
mod installation;
mod logs;
mod mcp;
mod metrics;
mod older_store;
mod parking;
mod piped;
#[path = "../support/pty.rs"]
mod pty;
mod search;
mod serve;
mod shell;
#[cfg(feature = "otel")]
mod telemetry;
mod terminal;
mod tls;

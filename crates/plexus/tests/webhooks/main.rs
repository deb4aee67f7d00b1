//! Webhooks, against a real server and receivers of every kind: deaf, slow, rude, dead, and one
//! that answers.
//!
//! [`receiver`] is a program that listens; [`server_with_receivers`] is a server that tells it.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the answer"
)]

mod answers;
mod delivery;
mod documented;
mod notify;
mod over_tls;
mod receiver;
mod reload;
mod server_with_receivers;

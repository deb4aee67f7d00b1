//! Permission requests through a hub: who is asked, who may answer, that it is decided once, and
//! that nothing waits unseen.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod allowed_tools;
mod attacks;
mod authority;
mod bad_permits;
mod budget;
mod childless_hub;
mod deadlines;
mod decisions;
mod files;
mod hidden;
mod http;
mod listing;
mod person_only;
mod preview;
mod questions;
mod races;
mod rules;
mod session_token;
mod suggest;
mod tokens;
mod true_input;
mod with_children;

//! What only several servers on one database can show: that they hear of each other, that one of
//! them wins, and that a database or a network that fails in the worst moment makes nobody tell a
//! lie. What every engine must do is in the conformance suite.

#![expect(clippy::expect_used, reason = "a case may stop loudly, also in the helpers it calls")]

#[path = "../common/mod.rs"]
mod common;
mod failures;
mod fence;
mod fixture;
mod import;
mod opening;
mod tls;
mod together;

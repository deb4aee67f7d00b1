//! Cases that need several servers on one database: they learn of each other's commits, one of them
//! wins a race, and a failure of database or network at the worst moment makes nobody report a
//! wrong outcome. Cases for every engine are in the conformance suite.

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

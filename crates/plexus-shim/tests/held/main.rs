//! Real shims with real children: everything that a server and a user can notice of them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test may stop loudly, and so may what it is made of"
)]

mod ends;
mod harness;
mod inbox;
mod lease;
mod leftovers;
mod output;
mod start;

//! What the hub can do: claudecode, loopback, arbor and health.
//!
//! - [`rules`]: what answers a permission request before anybody is asked.

pub mod rules;

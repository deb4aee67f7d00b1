//! `loopback`: permission requests that reach the right parent, once, and cannot be forged.
//!
//! In reading order:
//! - [`answer`]: the exact words that a child is told.
//! - [`approvals`]: from the question to the answer; both channels open approvals here.
//! - [`rulebook`]: the standing rules in force.
//! - [`deadlines`]: expiry, reminders and escalation, by stored times.
//! - [`params`], [`activation`], [`permit`], [`rules`]: the methods.

pub(crate) mod activation;
pub mod answer;
pub(crate) mod approvals;
pub(crate) mod deadlines;
pub mod params;
mod permit;
pub(crate) mod rulebook;
mod rules;

pub use activation::Loopback;

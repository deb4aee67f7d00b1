//! `loopback`: permission requests that reach the right parent, once, and cannot be forged.
//!
//! In reading order:
//! - [`answer`]: the exact words that a child is told.
//! - [`input`]: what the input of a tool call may hold.
//! - [`approvals`]: from the question to the answer; both channels open approvals here.
//! - [`shown`]: approvals as the wire shows them.
//! - [`rulebook`], [`judge`]: the standing rules in force, and what they and modes say of a call.
//! - [`deadlines`]: expiry, reminders and escalation, by stored times.
//! - [`rejudge`]: rules and modes that came through another server.
//! - [`waited`]: how long questions waited, for the metrics.
//! - [`audit`]: the record of refused attempts.
//! - [`activation`], [`permit`], [`listening`], [`rules`], [`preview`]: the methods.

pub(crate) mod activation;
pub(crate) mod answer;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod deadlines;
pub(crate) mod input;
mod judge;
mod listening;
mod permit;
mod preview;
mod rejudge;
pub(crate) mod rulebook;
mod rules;
pub(crate) mod shown;
mod waited;

pub use activation::Loopback;

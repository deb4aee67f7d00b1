//! The agents that this crate can run, each behind a feature of its own.
//!
//! No type of the crate that does the running appears in what is public here: a backend may be replaced, or its crate may
//! change, and no caller notices.

#[cfg(feature = "claude_code")]
pub mod claude_code;

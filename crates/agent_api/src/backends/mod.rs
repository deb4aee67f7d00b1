//! The agents that this crate can run, each behind a feature of its own.
//!
//! No type of the crate that does the running appears in what is public here: a backend may be
//! replaced, or its crate may change, and no caller notices.

#[cfg(feature = "acp")]
pub mod acp;
#[cfg(feature = "claude_code")]
pub mod claude_code;
#[cfg(feature = "codex")]
pub mod codex;
#[cfg(any(feature = "claude_code", feature = "codex", feature = "acp"))]
#[cfg_attr(
    not(all(feature = "claude_code", feature = "codex", feature = "acp")),
    allow(dead_code, reason = "each backend uses its own part of this")
)]
mod shared;

//! The agents that this crate can run, each with a feature of its own.
//!
//! The public interface contains no type of the crates that run the agents: a backend can be
//! replaced, or its crate can change, without changes to callers.

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

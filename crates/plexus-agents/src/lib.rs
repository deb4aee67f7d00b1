//! The drivers: what is particular to each kind of agent, one folder each. Each implements
//! [`Driver`](plexus_engine::driver::Driver).
//!
//! - [`claude`]: Claude Code.
//! - [`codex`]: the driver of Codex.
//! - [`acp`]: the driver of every agent of the Agent Client Protocol.
//! - [`cone`]: the agent behind `cone`, which talks to a model itself: a program of its own.
//! - `forms`: forms that an agent or an MCP server wants its user to fill in.

pub mod acp;
pub mod claude;
pub mod codex;
pub mod cone;
mod forms;

pub use acp::Acp;
pub use claude::ClaudeCode;
pub use codex::{Codex, CodexOptions};

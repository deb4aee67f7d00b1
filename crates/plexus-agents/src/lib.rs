//! What is particular to each kind of agent, one folder each, behind
//! [`Driver`](plexus_engine::driver::Driver).
//!
//! - [`claude`]: Claude Code.

pub mod claude;

pub use claude::ClaudeCode;

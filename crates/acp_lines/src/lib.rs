//! Speaks the Agent Client Protocol, version 1, in typed lines: runs any agent of that protocol,
//! and helps to implement one.
//!
//! In reading order:
//!
//! - [`AcpParser`] turns one line of an agent into one [`AgentLine`]; [`event`] describes its
//!   contents.
//! - [`send`] holds the lines of a client: requests, and answers to the agent's questions. They can
//!   be written and read.
//! - [`serve`] holds the lines that an agent writes, for a program that implements an agent.
//! - [`AcpClient`] starts an agent and yields its lines; dropping the connection ends everything
//!   the child started. [`Sender`] answers its questions, and never allows a cancelled one.
//!
//! Everything that is not particular to this protocol (the JSON scanner, line cutting, journals, a
//! child with its descendants) is in [`agent_lines`].
#![doc = concat!("\n", include_str!("../README.md"))]

mod client;
pub mod event;
mod parser;
pub mod send;
pub mod serve;
mod words;

pub use agent_lines::LineError as AcpLineError;
pub use agent_lines::rpc::{Answer, Outcome, RequestId, RpcError};
pub use client::{
    AcpClient, AcpConnection, AcpError, Answered, CALL_TIMEOUT, CLOSE_GRACE, CallError,
    DecideError, Decision, HandshakeError, MAX_HELD_LINES, MAX_OPEN_QUESTIONS, SendError, Sender,
    UNSUPERVISED_METHODS,
};
pub use event::{AgentBody, AgentLine, AgentRequest, Notification, SessionUpdate};
pub use parser::AcpParser;
pub use send::{ClientBody, ClientLine, ClientRequest};
pub use serve::ServedLine;
pub use words::{OptionKind, StopReason, ToolKind, ToolStatus};

/// The version of the protocol that this crate speaks.
pub const PROTOCOL_VERSION: u64 = 1;

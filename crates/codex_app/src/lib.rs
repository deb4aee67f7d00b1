//! Runs `codex app-server` and speaks its protocol in typed lines while the child lives.
//!
//! In reading order:
//!
//! - [`CodexParser`] turns one line of the server into one [`ServerLine`]; [`event`] describes its
//!   contents.
//! - [`send`] holds the lines to the server: requests, and answers to its questions.
//! - [`Launch`] is the command line that keeps the repository, and most settings of the user, from
//!   deciding what runs.
//! - [`CodexClient`] starts the server and yields its lines; dropping the connection ends
//!   everything the child started.
//!
//! Everything that is not particular to Codex (the JSON scanner, line cutting, journals, a child
//! with its descendants) is in [`agent_lines`].
#![doc = concat!("\n", include_str!("../README.md"))]

mod client;
pub mod event;
mod parser;
pub mod send;

pub use agent_lines::LineError as CodexLineError;
pub use agent_lines::rpc::RequestId;
pub use client::{
    CALL_TIMEOUT, CLOSE_GRACE, CallError, CodexClient, CodexConnection, CodexError, Launch,
    LaunchError, MAX_HELD_LINES, OLDEST_SUPPORTED_VERSION, ProbeError, ProbedCodex, SendError,
    Sender, TESTED_VERSION, Trust, probe_version,
};
pub use event::{Answer, Notification, Outcome, RpcError, ServerBody, ServerLine, ServerRequest};
pub use parser::CodexParser;
pub use send::{ClientBody, ClientLine, ClientRequest, Decision};

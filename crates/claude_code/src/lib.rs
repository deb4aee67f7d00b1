//! Runs the Claude Code CLI and yields its stream-json as typed events while the child lives.
//!
//! In reading order:
//!
//! - [`ClaudeStreamJsonParser`] turns one line into one [`ClaudeStreamJsonEvent`]; [`event`]
//!   describes its contents.
//! - [`ClaudeClient`] starts the CLI and yields its events; dropping the handle ends everything the
//!   child started.
//! - [`journal`] reads the same lines from files that another process writes, and continues after a
//!   restart.
//! - [`control`] builds the lines that the CLI reads, and speaks the control channel over any pair
//!   of streams.
//!
//! Types that grow with the CLI are `#[non_exhaustive]`: a match on them needs an arm for future
//! variants, which is best treated like `Unknown`.
//!
//! Everything that is not particular to the CLI (the JSON scanner, line cutting, a child with its
//! descendants) is in [`agent_lines`].
#![doc = concat!("\n", include_str!("../README.md"))]

mod client;
pub mod control;
pub mod event;
pub mod journal;
mod parser;

pub use agent_lines::json::{RawJson, Text};
pub use agent_lines::{DEFAULT_MAX_LINE_BYTES, SKIPPED_HEAD_BYTES};
pub use client::{
    ClaudeClient, ClaudeClientBuilder, ClaudeCodeError, ClaudeCompletion, ClaudeEventStream,
    ClaudePrintOutput, ClaudePrintRequest, ClaudePrintStreamJsonHandle, CliVersion,
    DEFAULT_TERMINATION_GRACE, EVENT_CHANNEL_CAPACITY, Environment, MAX_BUFFERED_BYTES,
    MAX_PROMPT_ARGUMENT_BYTES, OLDEST_SUPPORTED_VERSION, ProbeError, ProbedCli, STDERR_TAIL_BYTES,
    StderrTail, TESTED_VERSION, TerminationHandle, probe_version,
};
pub use event::{ClaudeStreamJsonEvent, EventBody, Repairs};
pub use parser::{
    ClaudeStreamJsonParseError, ClaudeStreamJsonParseErrorCode, ClaudeStreamJsonParser, Envelope,
};

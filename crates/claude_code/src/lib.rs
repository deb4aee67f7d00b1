//! Runs the Claude Code CLI and yields its stream-json as typed events while the child lives.

pub mod control;
pub mod event;
pub mod journal;
mod json;
mod line;
mod parser;

pub use event::{ClaudeStreamJsonEvent, EventBody, Repairs};
pub use json::{RawJson, Text};
pub use line::{DEFAULT_MAX_LINE_BYTES, SKIPPED_HEAD_BYTES};
pub use parser::{ClaudeStreamJsonParseError, ClaudeStreamJsonParseErrorCode, ClaudeStreamJsonParser, Envelope};

//! Approvals, tool calls and changes as text for people, safe to show on a terminal.
//!
//! The command line, the editor transport and the notifications all describe the same things. Each
//! description is here once, and depends on the shapes of the wire alone. In reading order:
//! - [`sanitize`]: text of agents, made safe to show.
//! - [`screen`]: the width and the colours of a terminal; durations, amounts and counts.
//! - [`tool_call`]: what a tool call does: its command, its diff, its address; who decided it.
//! - [`question`]: questions of an agent to its user, and the answers that a line means.
//! - [`changed_files`]: lists of changed files, and the result of a preview.
//! - [`receiver`]: the state of a receiver of notifications.
//! - [`live`]: streamed pieces of a text beside the event that brings the same text whole.
//! - [`error`]: errors as one sentence.

pub mod changed_files;
pub mod error;
pub mod live;
pub mod question;
pub mod receiver;
pub mod sanitize;
pub mod screen;
pub mod tool_call;

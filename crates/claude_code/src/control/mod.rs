//! The control channel: the lines that we write to the CLI, and a duplex over any pair of byte
//! streams.
//!
//! [`crate::event::control`] has the lines that the CLI writes.

mod duplex;
mod lines;

pub use duplex::{Duplex, DuplexError, DuplexEvent, MAX_QUEUED_BYTES, PermissionRequest};
pub use lines::{
    AfterDeny, ControlLine, PermissionAnswer, answer_error, answer_permission, answer_unnamed,
    control_request, initialize, interrupt, set_model, set_permission_mode, user_prompt,
    user_prompt_blocks,
};

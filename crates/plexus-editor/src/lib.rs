//! An agent of the Agent Client Protocol on stdin and stdout. An editor talks to it
//! as to any agent; behind it is a session of the server, which goes on without the editor and
//! which others watch and answer at the same time.
//!
//! In reading order:
//! - [`door`]: the loop; requests of the editor, and everything that comes back.
//! - [`opening`]: finds or creates the session that a request names; [`servers`]: the MCP servers
//!   that the editor gives to its agent.
//! - [`fronted`]: one open session: its turn, its dialogs, its options.
//! - [`reader`]: the history and the events of a session, in order; [`history`]: what a fork goes
//!   on from.
//! - [`view`]: events as updates; [`call`] and [`blocks`] draw tool calls and their results.
//! - [`questions`]: which answers of the editor decide; [`prompt`]: what a prompt may hold;
//!   [`options`]: modes and models.
//! - [`hands`], [`server`], [`refusal`]: the editor's pipe and tasks, a server that may be away,
//!   errors.

mod blocks;
mod call;
mod door;
mod fronted;
mod hands;
mod history;
mod opening;
mod options;
mod prompt;
mod questions;
mod reader;
mod refusal;
mod server;
mod servers;
mod view;

pub use door::serve;
pub use opening::Settings;

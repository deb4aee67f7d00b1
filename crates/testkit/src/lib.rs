//! Tests only: test server, fixtures, a stand-in for the Messages API, fault helpers.
//!
//! Nothing outside of tests and benchmarks uses this crate, and it uses none of ours. In reading
//! order:
//!
//! - [`wait`]: waits for something to come true, with a deadline that names what did not come.
//! - [`cases`](mod@cases): test programs whose cases are ignored where a machine lacks what they
//!   need.
//! - [`fixtures`]: the recorded logs of the real CLI, and other files of the workspace.
//! - [`edits`]: recorded lines with pieces changed, for property tests.
//! - [`process`]: what a process has started, holds open and weighs; proof that nothing was left
//!   behind.
//! - [`scripted`]: a shell script in place of an agent.
//! - [`proxy`]: a TCP relay that can be slowed, stalled, half closed and cut.
//! - [`postgres`]: a throw-away PostgreSQL that can be killed and started again.
//! - [`netns`]: moves a whole test program into a network that has only loopback.
//! - [`messages_api`]: a scripted stand-in for the Anthropic Messages API.
//! - [`responses_api`]: a scripted stand-in for the OpenAI Responses API.
//! - [`receivers`]: stand-ins for ntfy, Telegram, Slack and a push service.
//! - [`permit_server`]: a minimal MCP server with one permission tool; [`mcp_tool`]: one with one
//!   tool, on stdin and stdout.
//! - [`picture`]: a picture that every agent can read.
//! - [`real_cli`]: finds the real CLI of an agent, and runs suites that need it; [`real_claude`],
//!   [`real_codex`] and [`real_acp`] are those of Claude Code, of Codex and of agents of the Agent
//!   Client Protocol, each with its sandbox.
//! - [`small_disk`]: a file system of a few megabytes that can be filled, in a namespace of its
//!   own.
//! - [`server`]: a real `plexus serve` in a directory of its own.

pub mod cases;
pub mod edits;
pub mod fixtures;
pub mod mcp_tool;
pub mod messages_api;
#[cfg(target_os = "linux")]
pub mod netns;
pub mod permit_server;
pub mod picture;
#[cfg(target_os = "linux")]
pub mod postgres;
#[cfg(target_os = "linux")]
pub mod process;
pub mod proxy;
pub mod real_acp;
pub mod real_claude;
pub mod real_cli;
pub mod real_codex;
pub mod receivers;
pub mod responses_api;
pub mod scripted;
pub mod server;
#[cfg(target_os = "linux")]
pub mod small_disk;
pub mod wait;

pub use wait::{eventually, eventually_async};

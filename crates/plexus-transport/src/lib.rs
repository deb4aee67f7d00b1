//! The doors: MCP, JSON-RPC and SSE, with identity and limits.
//!
//! A door turns bytes into a call of the hub and its reply into bytes. It names no method: whatever
//! is special about one is in its [`MethodDescriptor`](plexus_core::MethodDescriptor). In reading
//! order:
//! - [`limits`]: every bound of the doors, with its reason.
//! - [`doors`]: what the doors are built from, and the router that holds them all.
//! - `identity`: the token, `Host` and `Origin` of a request, and the caller that they make.
//! - `shares`: how much of one thing each caller may hold, and the part that is the operator's.
//! - `connections`: who has which connection, and which is pushed out when all places are taken.
//! - `body`: a request's body, bounded in bytes and in time.
//! - `leftover`: what is left of a body that nobody read, and the end of its connection.
//! - `stats`: what the doors count, for the metrics.
//! - `envelope`: JSON-RPC 2.0, read and written.
//! - `rpc`: `POST /rpc`, one call or a batch.
//! - `socket`: `/rpc` as a WebSocket, many calls and streams at once; `outbox` is what waits to be
//!   written to it.
//! - `events`: `/events`, the stream of events as SSE.
//! - `mcp`: `/mcp`, the hub's methods as the tools of an MCP server, with calls that survive a
//!   restart.
//! - `sign_in`: the dashboard's one-time code becomes a token.
//! - `hooks`: answers to webhooks, each with the one-time token it was told.
//! - `bridge`: MCP over stdio, towards a running server; a restart of the server is invisible to
//!   the parent.
//! - `wire`: the bytes of one connection, with its place and a client's patience to read.
//! - `listen`: the listener: connections bounded, slow clients timed out.

mod body;
mod bridge;
mod connections;
pub mod doors;
mod envelope;
mod events;
mod hooks;
mod identity;
mod leftover;
pub mod limits;
mod listen;
mod mcp;
mod outbox;
mod rpc;
mod shares;
mod sign_in;
mod socket;
mod stats;
mod wire;

pub use bridge::{BridgeError, ToolList, Whereabouts, bridge, bridge_stdio};
pub use doors::{Doors, router};
pub use identity::AllowedHosts;
pub use limits::Limits;
pub use listen::serve;
pub use mcp::FULL_QUERY;
pub use stats::Stats;

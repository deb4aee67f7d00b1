//! The doors: MCP, JSON-RPC and SSE, with identity and limits.
//!
//! A door turns bytes into a call of the hub and its reply into bytes. It names no method:
//! everything special about a method is in its [`MethodDescriptor`](plexus_core::MethodDescriptor).
//! In reading order:
//! - [`limits`]: every bound of the doors, with its reason.
//! - [`doors`]: the parts that the doors are built from, and the router that holds them all.
//! - `identity`: the token, `Host` and `Origin` of a request, and the caller they identify.
//! - `shares`: how much of each resource a caller may hold, and the operator's reserved part.
//! - `connections`: the connections of each caller, and which one is closed when there are too
//!   many.
//! - `body`: a request's body, bounded in bytes and in time.
//! - `leftover`: the unread rest of a body, and the end of its connection.
//! - `stats`: the counters of the doors, for the metrics.
//! - `envelope`: JSON-RPC 2.0, read and written.
//! - `rpc`: `POST /rpc`, one call or a batch.
//! - `socket`: `/rpc` as a WebSocket, many calls and streams at once; `outbox` is its write queue.
//! - `events`: `/events`, the stream of events as SSE.
//! - `mcp`: `/mcp`, the hub's methods as the tools of an MCP server, with calls that survive a
//!   restart.
//! - `sign_in`: exchanges the dashboard's one-time code for a token.
//! - `hooks`: answers to webhooks, each with its one-time token.
//! - `bridge`: MCP over stdio, towards a running server; a restart of the server is invisible to
//!   the parent.
//! - `wire`: the bytes of one connection, which counts as open until closed, with a write timeout.
//! - `listen`: the listeners, plain and TLS: connections bounded, slow clients timed out.

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
pub use listen::{Listener, serve, serve_all};
pub use mcp::FULL_QUERY;
pub use stats::Stats;

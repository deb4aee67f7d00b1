//! The doors over a real listener: MCP, resumable calls, streams, and all kinds of hostile or
//! broken clients.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod floods;
mod hostile;
mod hubs;
mod mcp;
mod mcp_client;
mod panics;
mod resources;
mod resumable;
mod sockets;
mod stdio;
mod streams;
mod support;

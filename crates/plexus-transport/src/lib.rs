//! The doors: MCP, JSON-RPC and SSE, with identity and limits.

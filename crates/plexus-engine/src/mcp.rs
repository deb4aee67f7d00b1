//! This server as an MCP configuration names it.

use plexus_core::SecretToken;
use plexus_wire::McpServer;

/// The server that a child asks through, by its name in the child's MCP configuration.
pub const PERMIT_SERVER: &str = "plexus";

/// The server that a child supervises children of its own with.
pub const HUB_SERVER: &str = "plexus_hub";

/// The timeout that we configure in the client for one call. It is a day, because a question may
/// wait that long and progress reports do not extend the client's timeout.
const LONGEST_CALL_MS: u64 = 24 * 3_600 * 1_000;

/// This server, for calls that are answered soon.
#[must_use]
pub fn mcp_server(url: &str, token: &SecretToken) -> McpServer {
    let authorization = format!("Bearer {}", token.expose());
    McpServer {
        r#type: "http".to_owned(),
        url: format!("{url}/mcp"),
        headers: [("Authorization".to_owned(), authorization)].into(),
        timeout: None,
    }
}

/// The same for a child that asks through it, and may wait.
#[must_use]
pub fn mcp_permit_server(url: &str, token: &SecretToken) -> McpServer {
    McpServer { timeout: Some(LONGEST_CALL_MS), ..mcp_server(url, token) }
}

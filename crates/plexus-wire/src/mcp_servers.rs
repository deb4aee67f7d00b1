//! MCP servers that the creator of a session gives to its agent.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// How many MCP servers a session may be given: each of them is a process or a connection.
pub const MAX_MCP_SERVERS: usize = 32;

/// How long the name of an MCP server may be: models read it before the name of each of its tools,
/// and their services bound the whole.
pub const MAX_MCP_NAME_BYTES: usize = 48;

/// The names under which a child knows this server begin so.
const OURS: &str = "plexus";

/// One MCP server for an agent. Arguments, variables, addresses and headers may be secret, so it is
/// never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentMcpServer {
    /// A program that the agent starts, and talks to on its stdin and stdout.
    Stdio {
        /// The program.
        #[serde(deserialize_with = "crate::text::one::<crate::text::SomeText, _>")]
        command: String,
        /// Its arguments.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::text::maybe_list::<crate::text::Text, _>"
        )]
        #[schemars(length(max = 1_000))]
        args: Option<Vec<String>>,
        /// Variables for its environment.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::text::maybe_variables"
        )]
        env: Option<BTreeMap<String, String>>,
    },
    /// A server over HTTP.
    Http {
        /// Its address.
        #[serde(deserialize_with = "crate::text::one::<crate::text::HttpAddress, _>")]
        url: String,
        /// What every request carries.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::text::maybe_headers"
        )]
        headers: Option<BTreeMap<String, String>>,
    },
}

impl AgentMcpServer {
    /// Returns how the agent reaches it: `stdio` or `http`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
        }
    }
}

impl fmt::Debug for AgentMcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentMcpServer({})", self.transport())
    }
}

/// Says what is wrong with the name of an MCP server.
///
/// # Errors
/// When an agent could not name its tools by it, or could take it for this server.
pub fn check_mcp_name(name: &str) -> Result<(), String> {
    let fits = !name.is_empty()
        && name.len() <= MAX_MCP_NAME_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        // Two of them stand between the name of a server and that of a tool.
        && !name.contains("__");
    if !fits {
        return Err(format!(
            "{name:?} is not a name for an MCP server: use 1 to {MAX_MCP_NAME_BYTES} letters, \
             digits, hyphens and single underscores"
        ));
    }
    if name.starts_with(OURS) {
        return Err(format!("{name:?} is not a name for an MCP server: {OURS}… names this server"));
    }
    Ok(())
}

/// Reads the MCP servers of a session, which may be left out.
pub(crate) fn maybe_servers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, AgentMcpServer>>, D::Error> {
    let servers = Option::<BTreeMap<String, AgentMcpServer>>::deserialize(deserializer)?;
    let Some(servers) = servers else { return Ok(None) };
    if servers.len() > MAX_MCP_SERVERS {
        let found = servers.len();
        return Err(D::Error::custom(format!(
            "{found} MCP servers are too many: at most {MAX_MCP_SERVERS}"
        )));
    }
    for name in servers.keys() {
        check_mcp_name(name).map_err(D::Error::custom)?;
    }
    Ok(Some(servers))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_never_printed_and_keeps_what_it_was_given() {
        for (value, shown) in [
            (
                json!({"type": "stdio", "command": "tool", "args": ["--key", "secret"],
                    "env": {"KEY": "secret"}}),
                "AgentMcpServer(stdio)",
            ),
            (
                json!({"type": "http", "url": "https://secret.example/mcp",
                    "headers": {"Authorization": "secret"}}),
                "AgentMcpServer(http)",
            ),
        ] {
            let server: AgentMcpServer = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(format!("{server:?}"), shown);
            assert_eq!(serde_json::to_value(&server).unwrap(), value);
        }
    }

    #[test]
    fn names_and_parts_that_an_agent_could_not_take_are_refused() {
        #[derive(Debug, Deserialize)]
        struct Params {
            #[serde(deserialize_with = "maybe_servers")]
            servers: Option<BTreeMap<String, AgentMcpServer>>,
        }
        let good = json!({"type": "stdio", "command": "tool"});
        let read = |servers| serde_json::from_value::<Params>(json!({"servers": servers}));
        assert_eq!(read(json!({"a-b_c": good})).unwrap().servers.unwrap().len(), 1);
        let many: BTreeMap<String, _> = (0..33).map(|n| (format!("s{n}"), good.clone())).collect();
        for (servers, words) in [
            (json!({"a b": good}), "\"a b\""),
            (json!({"a__b": good}), "\"a__b\""),
            (json!({"plexus_hub": good}), "names this server"),
            (json!({"": good}), "1 to 48"),
            (json!(many), "33 MCP servers are too many"),
            (json!({"a": {"type": "stdio", "command": ""}}), "empty"),
            (json!({"a": {"type": "stdio", "command": "x", "cwd": "/"}}), "cwd"),
            (json!({"a": {"type": "stdio", "command": "x", "env": {"A=": "1"}}}), "A="),
            (json!({"a": {"type": "http", "url": "ftp://x"}}), "http"),
            (json!({"a": {"type": "http", "url": "http://x", "headers": {"a": "b\r\nc"}}}), "line"),
            (json!({"a": {"type": "sse", "url": "http://x"}}), "sse"),
        ] {
            let error = read(servers).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

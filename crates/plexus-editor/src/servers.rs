//! The MCP servers of the editor: which of them the agent gets, and what the editor is told of the
//! others. What they carry may be secret, so only names are ever said.

use std::collections::BTreeMap;

use plexus_client::wire::{AgentMcpServer, MAX_MCP_NAME_BYTES, MAX_MCP_SERVERS, check_mcp_name};
use serde_json::Value;

use crate::refusal::Refusal;

/// MCP servers that an editor named, by the names that a session takes.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Servers {
    pub(crate) given: BTreeMap<String, AgentMcpServer>,
    /// Why others are not given.
    left_out: Vec<String>,
}

impl Servers {
    /// Reads the list of a request.
    pub(crate) fn of(list: &[Value]) -> Result<Self, Refusal> {
        let mut servers = Self::default();
        for entry in list {
            let named = entry["name"].as_str();
            let name = named.ok_or_else(|| Refusal::params("an MCP server has no name"))?;
            let wrong = |what: &str| Refusal::params(format!("the MCP server {name:?} {what}"));
            let server = match entry["type"].as_str() {
                None | Some("stdio") => AgentMcpServer::Stdio {
                    command: text(entry, "command").ok_or_else(|| wrong("has no command"))?,
                    args: Some(args(&entry["args"]).ok_or_else(|| wrong("has odd arguments"))?),
                    env: Some(pairs(&entry["env"]).ok_or_else(|| wrong("has odd variables"))?),
                },
                Some("http") => AgentMcpServer::Http {
                    url: text(entry, "url").ok_or_else(|| wrong("has no url"))?,
                    headers: Some(
                        pairs(&entry["headers"]).ok_or_else(|| wrong("has odd headers"))?,
                    ),
                },
                Some(other) => {
                    let why = format!("{name} speaks {other:?}, which was not announced");
                    servers.left_out.push(why);
                    continue;
                }
            };
            servers.take(name, server);
        }
        Ok(servers)
    }

    fn take(&mut self, name: &str, server: AgentMcpServer) {
        let fitting = fitting(name);
        if let Err(why) = check_mcp_name(&fitting) {
            self.left_out.push(why);
        } else if self.given.contains_key(&fitting) {
            self.left_out.push(format!("{name} has the name of another one"));
        } else if self.given.len() == MAX_MCP_SERVERS {
            self.left_out.push(format!("{name} is one more than {MAX_MCP_SERVERS}"));
        } else {
            self.given.insert(fitting, server);
        }
    }

    /// Leaves all of them out, for an agent that cannot be given any.
    pub(crate) fn without_given(mut self, why: &str) -> Self {
        let names = std::mem::take(&mut self.given).into_keys();
        self.left_out.extend(names.map(|name| format!("{name}: {why}")));
        self
    }

    /// Leaves all of them out, for a session that keeps the servers it was created with. The editor
    /// is not told of a server that the session has already.
    pub(crate) fn beyond(mut self, known: &[String]) -> Self {
        self.given.retain(|name, _| !known.contains(name));
        self.without_given("the session keeps the servers that it was created with")
    }

    /// Returns what the editor is told.
    pub(crate) fn notes(&self) -> Vec<String> {
        if self.left_out.is_empty() {
            return Vec::new();
        }
        vec![format!("the agent does not get these MCP servers: {}", self.left_out.join("; "))]
    }
}

/// A name that a session takes: editors allow other characters.
fn fitting(name: &str) -> String {
    let mut fitting = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if c != '_' || !fitting.ends_with('_') {
            fitting.push(c);
        }
    }
    fitting.truncate(MAX_MCP_NAME_BYTES);
    fitting
}

fn text(entry: &Value, field: &str) -> Option<String> {
    entry[field].as_str().map(str::to_owned)
}

fn args(list: &Value) -> Option<Vec<String>> {
    match list {
        Value::Null => Some(Vec::new()),
        Value::Array(list) => list.iter().map(|arg| arg.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Names with values, as the protocol lists them.
fn pairs(list: &Value) -> Option<BTreeMap<String, String>> {
    match list {
        Value::Null => Some(BTreeMap::new()),
        Value::Array(list) => {
            list.iter().map(|pair| Some((text(pair, "name")?, text(pair, "value")?))).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_taken_as_editors_send_them() {
        let list = [
            json!({"name": "My tools (v2)", "command": "run", "args": ["a"],
                "env": [{"name": "KEY", "value": "secret"}]}),
            json!({"type": "http", "name": "web", "url": "https://there",
                "headers": [{"name": "X", "value": "secret"}]}),
            json!({"type": "sse", "name": "old", "url": "https://there", "headers": []}),
            json!({"name": "plexus", "command": "plexus", "args": ["mcp"], "env": []}),
            json!({"name": "web", "command": "again", "args": [], "env": []}),
        ];
        let servers = Servers::of(&list).unwrap();
        let expected = json!({
            "My_tools_v2_": {"type": "stdio", "command": "run", "args": ["a"],
                "env": {"KEY": "secret"}},
            "web": {"type": "http", "url": "https://there", "headers": {"X": "secret"}},
        });
        assert_eq!(serde_json::to_value(&servers.given).unwrap(), expected);
        let notes = servers.notes().join("");
        assert!(["old", "plexus", "web"].iter().all(|name| notes.contains(name)), "{notes}");
        assert!(!format!("{servers:?}").contains("secret"));
        let beyond = servers.beyond(&["web".to_owned()]);
        assert!(beyond.given.is_empty() && beyond.notes()[0].contains("My_tools_v2_: the session"));
        assert!(Servers::default().notes().is_empty());
    }

    #[test]
    fn a_server_that_cannot_be_read_is_refused_by_its_name() {
        for (entry, words) in [
            (json!({"command": "x"}), "no name"),
            (json!({"name": "a"}), "\"a\" has no command"),
            (json!({"name": "a", "command": "x", "args": [1]}), "\"a\" has odd arguments"),
            (json!({"name": "a", "command": "x", "env": {"A": "b"}}), "\"a\" has odd variables"),
            (json!({"type": "http", "name": "a"}), "\"a\" has no url"),
        ] {
            let refusal = Servers::of(&[entry]).unwrap_err();
            assert!(refusal.message().contains(words), "{refusal:?}");
        }
    }
}

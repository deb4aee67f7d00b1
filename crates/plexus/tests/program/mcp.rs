//! `plexus mcp`: a parent on stdin and stdout, and a server that comes and goes.

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::piped::Piped;
use crate::serve::Server;

/// A parent agent that started `plexus mcp`.
struct Parent(Piped);

impl Parent {
    fn start(installation: &Installation) -> Self {
        Self::with(installation, &[])
    }

    fn with(installation: &Installation, more: &[&str]) -> Self {
        let mut piped =
            Piped::start(installation.command(&[&["mcp", "--as", "planner"], more].concat()));
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        let begun = piped.ask(0, "initialize", params);
        assert_eq!(begun["result"]["serverInfo"]["name"], "plexus", "{begun}");
        piped.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        Self(piped)
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        let answer = self.0.ask(id, "tools/call", json!({"name": tool, "arguments": arguments}));
        answer["result"]["structuredContent"].clone()
    }

    /// Calls a tool that refuses; returns its error.
    fn refused(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        let answer = self.0.ask(id, "tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    }

    fn tools(&mut self, id: u64) -> Vec<Value> {
        let listed = self.0.ask(id, "tools/list", json!({}));
        listed["result"]["tools"].as_array().unwrap().clone()
    }
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn the_default_list_of_tools_is_short_and_the_full_one_has_everything() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let short = Parent::start(&installation).tools(1);
    assert_eq!(
        names(&short),
        [
            "agents_cancel",
            "agents_chat_async",
            "agents_create",
            "agents_delete",
            "agents_get",
            "agents_poll",
            "loopback_pending",
            "loopback_respond",
            "loopback_wait_for_approval",
            "plexus_methods",
            "plexus_call",
        ]
    );
    let of = |tool: &Value, key: &str| match &tool[key] {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    let bytes = short
        .iter()
        .map(|tool| of(tool, "name") + of(tool, "description") + of(tool, "inputSchema"));
    // What a model reads before its first turn.
    let bytes: usize = bytes.sum();
    assert!(bytes <= 12 * 1024, "{bytes} bytes");

    let full = Parent::with(&installation, &["--tools", "full"]).tools(1);
    let listed = names(&full);
    for tool in ["agents_list", "agents_fork", "loopback_rule_add", "arbor_tree_get"] {
        assert!(listed.contains(&tool), "{tool} is not in {listed:?}");
    }
    assert!(!listed.contains(&"plexus_call"), "everything is listed already");
    assert!(full.iter().any(|tool| tool["outputSchema"].is_object()));
    server.kill_9();
}

#[test]
fn a_method_that_is_not_listed_is_called_by_its_name() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let mut parent = Parent::start(&installation);
    let create = json!({"name": "child", "working_dir": installation.work()});
    let created = parent.call(1, "agents_create", create);
    // By a tool that is not in the list, by its JSON-RPC name, and by its MCP name.
    let directly = parent.call(2, "agents_list", json!({}));
    assert_eq!(directly["sessions"][0]["id"], created["id"], "{directly}");
    for (id, method) in [(3, "agents.list"), (4, "agents_list")] {
        let relayed = parent.call(id, "plexus_call", json!({"method": method, "params": {}}));
        assert_eq!(relayed, directly, "{method}");
    }
    let listed = parent.call(5, "plexus_methods", json!({}));
    let methods = listed["methods"].as_array().unwrap();
    assert!(methods.iter().any(|method| method["name"] == "agents.list"), "{listed}");

    let refused = [
        (json!({}), "invalid", json!("method")),
        (json!({"method": "agents.list", "params": 1}), "invalid", json!("params")),
        (json!({"method": "agents.list", "limit": 1}), "invalid", json!("limit")),
        (json!({"method": "agents.list", "params": {"limit": 0}}), "invalid", json!("limit")),
        (json!({"method": "agents.follow"}), "invalid", json!("method")),
        (json!({"method": "no.such"}), "not_found", Value::Null),
        (json!({"method": "server.stop"}), "forbidden", Value::Null),
        (json!({"method": "loopback.permit"}), "invalid", json!("method")),
    ];
    for (id, (arguments, kind, field)) in (6..).zip(refused) {
        let error = parent.refused(id, "plexus_call", arguments.clone());
        let told = (error["kind"].as_str().unwrap(), &error["field"]);
        assert_eq!(told, (kind, &field), "{arguments}: {error}");
    }
    server.kill_9();
}

#[test]
fn a_server_that_comes_back_on_another_port_is_found_again() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let first = server.url.clone();
    let mut parent = Parent::start(&installation);
    let created = parent.call(
        1,
        "claudecode_create",
        json!({"name": "child", "working_dir": installation.work()}),
    );
    server.kill_9();

    // Another process has the old port by now: a call that still goes there gets no answer.
    let _taken = std::net::TcpListener::bind(first.strip_prefix("http://").unwrap()).unwrap();
    let server = Server::start(&installation, &[]);
    assert_ne!(server.url, first);
    let listed = parent.call(2, "claudecode_list", json!({}));
    assert_eq!(listed["sessions"][0]["id"], created["id"], "{listed}");
    server.kill_9();
}

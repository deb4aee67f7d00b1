//! `plexus mcp`: a parent on stdin and stdout, and a server that comes and goes.

use serde_json::{Value, json};

use crate::piped::Piped;
use crate::place::Place;
use crate::serve::Server;

/// A parent agent that started `plexus mcp`.
struct Parent(Piped);

impl Parent {
    fn start(place: &Place) -> Self {
        let mut piped = Piped::start(place.command(&["mcp", "--as", "planner"]));
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
}

#[test]
fn a_server_that_comes_back_on_another_port_is_found_again() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let first = server.url.clone();
    let mut parent = Parent::start(&place);
    let created =
        parent.call(1, "claudecode_create", json!({"name": "child", "working_dir": place.work()}));
    server.kill_9();

    // Somebody else has the old port by now: whoever still goes there is not answered.
    let _taken = std::net::TcpListener::bind(first.strip_prefix("http://").unwrap()).unwrap();
    let server = Server::start(&place, &[]);
    assert_ne!(server.url, first);
    let listed = parent.call(2, "claudecode_list", json!({}));
    assert_eq!(listed["sessions"][0]["id"], created["id"], "{listed}");
    server.kill_9();
}

//! `plexus mcp`: a parent on stdin and stdout, and a server that comes and goes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::place::{DEADLINE, Place};
use crate::serve::Server;

/// A parent agent that started `plexus mcp`.
struct Parent {
    process: Child,
    to: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Parent {
    fn start(place: &Place) -> Self {
        let mut command = place.command(&["mcp", "--as", "planner"]);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("plexus mcp");
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut parent = Self { process, to, lines };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        let begun = parent.ask(0, "initialize", params);
        assert_eq!(begun["result"]["serverInfo"]["name"], "plexus", "{begun}");
        parent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        parent
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
        self.to.flush().unwrap();
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = self
                .lines
                .recv_timeout(DEADLINE)
                .unwrap_or_else(|_| panic!("no answer to {method}"));
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        let answer = self.ask(id, "tools/call", json!({"name": tool, "arguments": arguments}));
        answer["result"]["structuredContent"].clone()
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
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

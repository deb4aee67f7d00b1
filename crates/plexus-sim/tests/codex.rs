//! Compares the simulator as Codex with recorded conversations of the real one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A simulator that plays Codex.
struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    said: Vec<Value>,
    thread: String,
}

impl Server {
    fn start(folder: &Path, open: &str, more: &Value) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_plexus-sim"))
            .args(["--as", "codex", "app-server"])
            .env("CODEX_HOME", folder)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let stdout = BufReader::new(stdout);
        let mut server = Self { child, stdin, stdout, said: Vec::new(), thread: String::new() };
        server.send(&json!({"id": 1, "method": "initialize", "params": {}}));
        server.until(|line| line["id"] == 1);
        let mut params = json!({
            "cwd": folder, "approvalPolicy": "untrusted", "sandbox": "danger-full-access",
            "approvalsReviewer": "user",
        });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        server.send(&json!({"method": "initialized"}));
        server.send(&json!({"id": 2, "method": open, "params": params}));
        let opened = server.until(|line| line["id"] == 2);
        server.thread = opened["result"]["thread"]["id"].as_str().unwrap_or_default().to_owned();
        server
    }

    fn send(&mut self, line: &Value) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Reads until a line matches.
    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "it ended after {:?}",
                self.said
            );
            let line: Value = serde_json::from_str(&line).unwrap();
            self.said.push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
    }

    fn prompt(&mut self, text: &str) {
        let input = json!([{"type": "text", "text": text}]);
        let params =
            json!({"threadId": self.thread, "input": input, "clientUserMessageId": "chat-0"});
        self.send(&json!({"id": 3, "method": "turn/start", "params": params}));
    }

    fn question(&mut self) -> Value {
        self.until(|line| line["method"].is_string() && line["id"].is_u64())
    }

    fn decide(&mut self, question: &Value, decision: &str) {
        self.send(&json!({"id": question["id"], "result": {"decision": decision}}));
    }

    fn end_of_turn(&mut self) -> Value {
        self.until(|line| line["method"] == "turn/completed")["params"]["turn"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines whose position differs from call to call, or that only some machines have.
const ANYWHERE: [&str; 6] = [
    "account/",
    "remoteControl/",
    "thread/readState",
    "thread/status",
    "configWarning",
    "mcpServer/",
];

/// Summarizes a line: its method, and the kind and state of its item.
fn about(line: &Value) -> Option<String> {
    let method = line["method"].as_str()?;
    let item = &line["params"]["item"];
    let words = [&item["type"], &item["status"], &line["params"]["turn"]["status"]];
    let words = words.into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    Some(format!("{method} {words}"))
}

/// Summarizes the lines in order. Repeated pieces of a text become one.
fn shape(lines: &[Value]) -> Vec<String> {
    let mut words: Vec<String> = lines.iter().filter_map(about).collect();
    words.retain(|words| !ANYWHERE.iter().any(|start| words.starts_with(start)));
    words.dedup();
    words
}

fn recorded(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/codex-0.169.0");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let out = lines.filter(|line| line["dir"] == "out");
    out.map(|line| serde_json::from_str(line["line"].as_str().unwrap()).unwrap()).collect()
}

/// Collects the paths of all fields of a value.
fn fields(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    if let Value::Object(object) = value {
        for (name, value) in object {
            let path = format!("{at}.{name}");
            fields(value, &path, into);
            into.insert(path);
        }
    }
}

/// Checks a conversation against its recording: the same lines in the same order, and no field that
/// the real one lacks.
fn is_as_recorded(said: &[Value], name: &str) {
    let real = recorded(name);
    assert_eq!(shape(said), shape(&real), "{name}");
    for line in said {
        let same = |other: &&Value| {
            about(other) == about(line) && other["id"].is_null() == line["id"].is_null()
        };
        let Some(other) = real.iter().find(same) else { continue };
        let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
        fields(line, "", &mut ours);
        fields(other, "", &mut theirs);
        let made_up: Vec<_> = ours.difference(&theirs).collect();
        assert!(
            line.get("method").is_none() || made_up.is_empty(),
            "{name}: {made_up:?} in {line}"
        );
    }
}

const TOUCH: &str = "sim:\ntool Bash {\"command\":\"echo ran >> a.txt\"}\nsay Done.";

#[test]
fn an_accepted_and_a_declined_command_read_as_the_recorded_ones() {
    for (decision, name, ran) in
        [("accept", "accept_command", true), ("decline", "decline_command", false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::start(folder.path(), "thread/start", &json!({}));
        server.prompt(TOUCH);
        let question = server.question();
        assert_eq!(question["params"]["command"], "/bin/bash -lc 'echo ran >> a.txt'");
        assert!(!folder.path().join("a.txt").exists());
        server.decide(&question, decision);
        assert_eq!(server.end_of_turn()["status"], "completed");
        assert_eq!(folder.path().join("a.txt").exists(), ran);
        is_as_recorded(&server.said, name);
    }
}

#[test]
fn an_interrupt_gives_up_the_question() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), "thread/start", &json!({}));
    server.prompt(TOUCH);
    server.question();
    let params = json!({"threadId": server.thread, "turnId": "any"});
    server.send(&json!({"id": 4, "method": "turn/interrupt", "params": params}));
    assert_eq!(server.end_of_turn()["status"], "interrupted");
    server.until(|line| line["method"] == "serverRequest/resolved");
    is_as_recorded(&server.said, "interrupt_open_question");
    server.prompt("sim:\nsay still here");
    assert_eq!(server.end_of_turn()["status"], "completed");
}

#[test]
fn a_thread_is_resumed_and_forked() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Server::start(folder.path(), "thread/start", &json!({}));
    first.prompt("sim:\nsay one");
    let one = first.end_of_turn()["id"].clone();
    first.prompt("sim:\nsay two");
    first.end_of_turn();
    let thread = json!({"threadId": first.thread});
    let said = |server: &Server| {
        let items = server.said.iter().filter(|line| line["method"] == "item/completed");
        items.filter_map(|line| line["params"]["item"]["text"].as_str()).collect::<String>()
    };
    let mut resumed = Server::start(folder.path(), "thread/resume", &thread);
    resumed.prompt("sim:\nrecall");
    resumed.end_of_turn();
    assert_eq!(said(&resumed), "sim:\nsay one\nsim:\nsay two");
    let fork = json!({"threadId": first.thread, "lastTurnId": one});
    let mut forked = Server::start(folder.path(), "thread/fork", &fork);
    forked.prompt("sim:\nrecall");
    forked.end_of_turn();
    assert_eq!(said(&forked), "sim:\nsay one");
    assert_ne!(forked.thread, first.thread);
}

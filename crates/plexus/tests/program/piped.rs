//! A command that talks JSON lines on its stdin and stdout, as a bridge does.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::installation::DEADLINE;

/// The command, and what it has said. Dropping it kills it.
pub(crate) struct Piped {
    process: Child,
    to: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
    /// Every message that was read.
    pub(crate) heard: Vec<Value>,
}

impl Piped {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a bridge");
        let (to, from) = (process.stdin.take(), process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("a line of JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { process, to, lines, heard: Vec::new() }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    pub(crate) fn write(&mut self, line: &str) {
        let to = self.to.as_mut().expect("an open pipe");
        writeln!(to, "{line}").unwrap();
        to.flush().unwrap();
    }

    /// Sends a request.
    pub(crate) fn request(&mut self, id: u64, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.request(id, method, params);
        self.answer(id)
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.until(&format!("an answer to {id}"), |it| it["id"] == id && it.get("method").is_none())
    }

    /// Waits for a message, or finds it among those that came.
    pub(crate) fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(found) = self.heard.iter().find(|it| fits(it)) {
            return found.clone();
        }
        loop {
            let message = self.lines.recv_timeout(DEADLINE);
            let message = message.unwrap_or_else(|_| panic!("no {what}: {:#?}", self.heard));
            self.heard.push(message.clone());
            if fits(&message) {
                return message;
            }
        }
    }

    /// Closes its stdin and waits for its end.
    pub(crate) fn close(&mut self) -> std::process::ExitStatus {
        self.to = None;
        crate::installation::eventually("the end of a bridge", || self.process.try_wait().unwrap())
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

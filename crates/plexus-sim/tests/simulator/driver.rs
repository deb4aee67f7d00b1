//! Starts the simulator and talks to it over pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The timeout of everything on a busy machine; a test then names what it waited for.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A command that ends when the test creates a file: see [`Sandbox::tell`].
pub(crate) const UNTIL_TOLD: &str = "while ! test -e told; do sleep 0.05; done; echo BG";

/// The home and the working directory of one test.
pub(crate) struct Sandbox {
    folder: TempDir,
}

/// How the simulator ended.
pub(crate) struct Finished {
    pub(crate) lines: Vec<Value>,
    /// The raw lines of stdout, including those that are not JSON.
    pub(crate) raw: Vec<String>,
    pub(crate) stderr: String,
    pub(crate) status: ExitStatus,
}

impl Finished {
    pub(crate) fn result(&self) -> &Value {
        self.lines
            .iter()
            .rfind(|line| line["type"] == "result")
            .expect("the run has no result line")
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// A running simulator.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: thread::JoinHandle<String>,
    /// Everything that was read so far.
    pub(crate) seen: Vec<Value>,
    raw: Vec<String>,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder }
    }

    /// Returns the working directory of the simulator.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    /// Creates the file that [`UNTIL_TOLD`] waits for.
    pub(crate) fn tell(&self) {
        std::fs::write(self.work().join("told"), "").unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus-sim"));
        command
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path().join("home"))
            .env("TMPDIR", self.folder.path())
            .env("SIM_TEST_TOKEN", "token-of-the-test")
            .env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1");
        command
    }

    /// Runs one prompt with stream-json on stdout and no permission channel.
    pub(crate) fn run(&self, args: &[&str], prompt: &str) -> Finished {
        let mut all = vec!["--print", "--output-format", "stream-json", "--verbose"];
        all.extend(args);
        all.extend(["--", prompt]);
        self.start(&all, Stdin::Closed).finish()
    }

    /// Starts the simulator with the control channel.
    pub(crate) fn control(&self, args: &[&str]) -> Running {
        let mut all = vec![
            "--print",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-prompt-tool",
            "stdio",
            "--replay-user-messages",
        ];
        all.extend(args);
        self.start(&all, Stdin::Piped)
    }

    pub(crate) fn start(&self, args: &[&str], stdin: Stdin) -> Running {
        Running::new(self.command(args), stdin)
    }
}

/// The stdin of the simulator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdin {
    Closed,
    Piped,
}

impl Running {
    pub(crate) fn new(mut command: Command, stdin: Stdin) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if stdin == Stdin::Piped { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, stderr, seen: Vec::new(), raw: Vec::new() }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends JSON lines in one write.
    pub(crate) fn send(&mut self, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.send_text(&text);
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("stdin was closed before");
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Returns the last raw line.
    pub(crate) fn last_raw(&self) -> &str {
        self.raw.last().expect("nothing was read yet")
    }

    /// Reads to the end of stdout.
    pub(crate) fn until_end(&mut self) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.extend(serde_json::from_str::<Value>(&line));
                    self.raw.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    panic!("the end of stdout did not come; seen: {:#?}", self.seen);
                }
            }
        }
    }

    /// Reads up to the first line that matches, and returns it.
    pub(crate) fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.raw.push(line.clone());
                    let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
                    self.seen.push(line.clone());
                    if fits(&line) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{what} did not come; seen: {:#?}", self.seen)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{what} did not come before the end; seen: {:#?}", self.seen)
                }
            }
        }
    }

    pub(crate) fn until_idle(&mut self) -> Value {
        self.until("the idle state", |line| line["state"] == "idle")
    }

    pub(crate) fn until_question(&mut self) -> Value {
        self.until("a permission question", |line| line["type"] == "control_request")
    }

    pub(crate) fn until_result(&mut self) -> Value {
        self.until("a result", |line| line["type"] == "result")
    }

    /// Reads to the end of stdout and waits for the exit.
    pub(crate) fn finish(mut self) -> Finished {
        self.stdin = None;
        self.until_end();
        let status = self.child.wait().unwrap();
        let stderr = self.stderr.join().unwrap();
        Finished { lines: self.seen, raw: self.raw, stderr, status }
    }
}

/// Returns a prompt with an id chosen by the sender.
pub(crate) fn prompt(uuid: &str, text: &str) -> Value {
    json!({
        "type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null,
        "session_id": "default", "uuid": uuid,
    })
}

pub(crate) fn request(id: &str, request: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

pub(crate) fn interrupt(id: &str) -> Value {
    request(id, &json!({"subtype": "interrupt"}))
}

/// Returns an answer to a question.
pub(crate) fn answer(question: &Value, answer: &Value) -> Value {
    json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"], "response": answer,
    }})
}

/// Returns the answer that allows a tool with its original input.
pub(crate) fn allow(question: &Value) -> Value {
    answer(question, &json!({"behavior": "allow", "updatedInput": question["request"]["input"]}))
}

pub(crate) fn deny(question: &Value, message: &str) -> Value {
    answer(question, &json!({"behavior": "deny", "message": message}))
}

/// Waits until a file exists.
pub(crate) fn wait_for_file(path: &Path) {
    let deadline = Instant::now() + DEADLINE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} did not appear", path.display());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the tool results of a run.
pub(crate) fn tool_results(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["message"]["content"][0]["type"] == "tool_result").collect()
}

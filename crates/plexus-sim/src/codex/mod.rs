//! Plays Codex: `plexus sim --as codex app-server` speaks the app-server protocol on stdio.
//!
//! Prompts are the same stories and scripts as for Claude Code. `Bash` and `Read` become commands
//! of Codex, `Write` and `Edit` its patches; `breach` runs a command without permission. Under the
//! policy `untrusted` every one of them asks; under any other policy only those whose input has
//! `"escalate": true`. MCP servers, subagents and hooks are not simulated.
//!
//! - this file: requests and answers, and the loop that listens while a turn plays;
//! - `thread`: conversations on disk, in `CODEX_HOME`;
//! - `turn`: plays the steps of a script;
//! - `tools`: the commands and file changes that really run;
//! - `wire`: the lines.

mod thread;
mod tools;
mod turn;
mod wire;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use self::thread::Thread;
use crate::out::Out;
use crate::run::Exit;
use crate::stdin;

/// The version of the real CLI whose lines are imitated.
const VERSION: &str = "0.169.0";

/// The state that the loop and the turn share.
pub(super) struct Server {
    out: Out,
    thread: RefCell<Option<Thread>>,
    /// Questions that wait for an answer, by their numbers.
    questions: RefCell<HashMap<u64, oneshot::Sender<Value>>>,
    asked: Cell<u64>,
    /// Prompts that arrived during a turn, with their ids.
    steers: RefCell<VecDeque<Prompt>>,
    /// The turn under way.
    turn: RefCell<Option<String>>,
}

/// A prompt, and the id that its client gave it.
pub(super) struct Prompt {
    text: String,
    client_id: Option<String>,
}

/// Why a turn under way must stop.
enum News {
    Interrupted,
    Closed,
}

/// Runs the simulator with the words after `--as codex`.
pub(crate) async fn run(args: impl IntoIterator<Item = OsString>) -> io::Result<Exit> {
    let out = Out::start()?;
    if args.into_iter().any(|word| word == "--version" || word == "-V") {
        out.raw(format!("codex-cli {VERSION}").into_bytes());
        out.flush().await;
        return Ok(Exit::Code(0));
    }
    let server = Server {
        out,
        thread: RefCell::default(),
        questions: RefCell::default(),
        asked: Cell::new(0),
        steers: RefCell::default(),
        turn: RefCell::default(),
    };
    let exit = server.serve().await?;
    server.out.flush().await;
    Ok(exit)
}

impl Server {
    async fn serve(&self) -> io::Result<Exit> {
        let mut lines = stdin::lines()?;
        let mut waiting: VecDeque<Value> = VecDeque::new();
        loop {
            let line = match waiting.pop_front() {
                Some(line) => line,
                None => match lines.recv().await {
                    Some(batch) => {
                        waiting.extend(batch.iter().filter_map(|line| read(line)));
                        continue;
                    }
                    None => return Ok(Exit::Code(0)),
                },
            };
            let Some(prompt) = self.request(&line) else { continue };
            let (stop, mut stopped) = oneshot::channel();
            let mut stop = Some(stop);
            let mut turn = std::pin::pin!(self.play(prompt, &mut stopped));
            let exit = loop {
                let batch = tokio::select! {
                    exit = &mut turn => break exit,
                    batch = lines.recv(), if stop.is_some() => batch,
                };
                let Some(batch) = batch else {
                    // The end of the input ends the process, and everything it runs.
                    if let Some(stop) = stop.take() {
                        let _ = stop.send(News::Closed);
                    }
                    continue;
                };
                for line in batch.iter().filter_map(|line| read(line)) {
                    let interrupts = line["method"] == "turn/interrupt";
                    if interrupts && let Some(stop) = stop.take() {
                        self.answer(&line, json!({}));
                        let _ = stop.send(News::Interrupted);
                    } else if stop.is_none() {
                        waiting.push_back(line);
                    } else if let Some(prompt) = self.request(&line) {
                        self.steers.borrow_mut().push_back(prompt);
                    }
                }
            };
            if let Some(exit) = exit {
                return Ok(exit);
            }
        }
    }

    /// Handles one line. Returns the prompt if the line starts a turn.
    fn request(&self, line: &Value) -> Option<Prompt> {
        let params = &line["params"];
        let Some(method) = line["method"].as_str() else {
            self.take_answer(line);
            return None;
        };
        match method {
            "initialized" => {}
            "initialize" => self.answer(line, wire::initialized()),
            "account/read" => {
                self.answer(line, json!({ "account": null, "requiresOpenaiAuth": false }));
            }
            "thread/start" | "thread/resume" | "thread/fork" => self.open(method, line),
            "thread/backgroundTerminals/clean" => self.answer(line, json!({})),
            "turn/start" | "turn/steer" => {
                let text = params["input"][0]["text"].as_str().unwrap_or_default().to_owned();
                let client_id = params["clientUserMessageId"].as_str().map(str::to_owned);
                let playing = self.turn.borrow().clone();
                let Some(id) = playing.or_else(|| (method == "turn/start").then(wire::new_id))
                else {
                    self.refuse(line, "no active turn to steer");
                    return None;
                };
                if method == "turn/start" {
                    self.answer(line, json!({ "turn": wire::turn(&id, "inProgress", None) }));
                } else {
                    self.answer(line, json!({ "turnId": id }));
                }
                *self.turn.borrow_mut() = Some(id);
                return Some(Prompt { text, client_id });
            }
            "turn/interrupt" => self.refuse(line, "no active turn to interrupt"),
            _ => self.refuse(line, "Invalid request: unknown variant"),
        }
        None
    }

    fn open(&self, method: &str, line: &Value) {
        let params = &line["params"];
        match Thread::open(method, params) {
            Ok(thread) => {
                self.answer(line, thread.opened());
                let told = json!({ "thread": thread.shown() });
                let usage = thread.usage();
                let (id, last) = (thread.id.clone(), thread.last_turn());
                *self.thread.borrow_mut() = Some(thread);
                self.tell("thread/started", told);
                if let Some(turn) = last {
                    let usage = json!({ "threadId": id, "turnId": turn, "tokenUsage": usage });
                    self.tell("thread/tokenUsage/updated", usage);
                }
            }
            Err(error) => self.refuse(line, &error),
        }
    }

    /// Asks a question, and waits for the answer; returns `None` when the question is withdrawn.
    async fn ask(&self, method: &str, params: Value) -> Option<Value> {
        let id = self.asked.replace(self.asked.get() + 1);
        let (answer, answered) = oneshot::channel();
        self.questions.borrow_mut().insert(id, answer);
        let thread = params["threadId"].clone();
        self.out.line(&json!({ "method": method, "id": id, "params": params }));
        let answer = answered.await.ok();
        self.tell("serverRequest/resolved", json!({ "threadId": thread, "requestId": id }));
        answer
    }

    /// Takes an answer. A second answer to a question, or an answer to no question, is ignored.
    fn take_answer(&self, line: &Value) {
        let question = line["id"].as_u64().and_then(|id| self.questions.borrow_mut().remove(&id));
        if let Some(question) = question {
            // The asker may have stopped waiting.
            let _ = question.send(line["result"].clone());
        }
    }

    fn answer(&self, request: &Value, result: Value) {
        self.out.line(&json!({ "id": request["id"], "result": result }));
    }

    fn refuse(&self, request: &Value, message: &str) {
        let error = json!({ "code": -32600, "message": message });
        self.out.line(&json!({ "error": error, "id": request["id"] }));
    }

    fn tell(&self, method: &str, params: Value) {
        let at = wire::now_ms();
        self.out.line(&json!({ "method": method, "params": params, "emittedAtMs": at }));
    }
}

/// Reads a line. A line that is not JSON is dropped, as by the real CLI.
fn read(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok()
}

//! Plays an agent of the Agent Client Protocol: `plexus sim --as acp` speaks it on stdio.
//!
//! Prompts are the same stories and scripts as for Claude Code. `Bash`, `Read`, `Write` and `Edit`
//! ask and really run; `breach` runs without a question. It has one mode, `ask`, and goes on with
//! an ended conversation by `session/resume`. MCP servers, forms and images are not simulated.
//!
//! - this file: requests and answers, and the loop that listens while a turn plays;
//! - `turn`: plays the steps of a script;
//! - `kept`: conversations on disk, below the home directory.

mod kept;
mod turn;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use self::kept::Conversation;
use crate::out::Out;
use crate::run::Exit;
use crate::stdin;

/// The version that it says it has.
const VERSION: &str = "1.0.0";
/// The one mode of its sessions.
const MODE: &str = "ask";

/// The state that the loop and the turn share.
struct Agent {
    out: Out,
    conversation: RefCell<Option<Conversation>>,
    /// Questions that wait for an answer, by their numbers.
    questions: RefCell<HashMap<u64, oneshot::Sender<Value>>>,
    asked: Cell<u64>,
    calls: Cell<u64>,
}

/// A prompt, and the id of the request that its answer ends the turn with.
struct Prompt {
    id: Value,
    text: String,
}

/// Why a turn under way must stop.
enum News {
    Cancelled,
    Closed,
}

/// Runs the simulator with the words after `--as acp`.
pub(crate) async fn run(args: impl IntoIterator<Item = OsString>) -> io::Result<Exit> {
    let out = Out::start()?;
    if args.into_iter().any(|word| word == "--version" || word == "-V") {
        out.raw(format!("plexus-sim-acp {VERSION}").into_bytes());
        out.flush().await;
        return Ok(Exit::Code(0));
    }
    let agent = Agent {
        out,
        conversation: RefCell::default(),
        questions: RefCell::default(),
        asked: Cell::new(0),
        calls: Cell::new(0),
    };
    let exit = agent.serve().await?;
    agent.out.flush().await;
    Ok(exit)
}

impl Agent {
    async fn serve(&self) -> io::Result<Exit> {
        let mut lines = stdin::lines()?;
        let mut waiting: VecDeque<Value> = VecDeque::new();
        loop {
            let Some(line) = waiting.pop_front() else {
                match lines.recv().await {
                    Some(batch) => waiting.extend(batch.iter().filter_map(|line| read(line))),
                    None => return Ok(Exit::Code(0)),
                }
                continue;
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
                    if line["method"] == "session/cancel" {
                        if let Some(stop) = stop.take() {
                            let _ = stop.send(News::Cancelled);
                        }
                    } else if line.get("method").is_none() {
                        self.take_answer(&line);
                    } else {
                        waiting.push_back(line);
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
            "initialize" => self.answer(&line["id"], initialized()),
            "session/new" => self.open(line, Ok(Conversation::new(params))),
            "session/resume" => self.open(line, Conversation::load(params)),
            "session/prompt" if self.conversation.borrow().is_some() => {
                let text = params["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                return Some(Prompt { id: line["id"].clone(), text });
            }
            // A turn that is over cannot be cancelled.
            "session/cancel" => {}
            _ => self.refuse(&line["id"], -32601, "Method not found"),
        }
        None
    }

    fn open(&self, line: &Value, opened: Result<Conversation, String>) {
        match opened {
            Ok(conversation) => {
                let modes = json!({
                    "currentModeId": MODE, "availableModes": [{ "id": MODE, "name": "Ask" }],
                });
                let answer = json!({ "sessionId": conversation.id, "modes": modes });
                *self.conversation.borrow_mut() = Some(conversation);
                self.answer(&line["id"], answer);
            }
            Err(error) => self.refuse(&line["id"], -32002, &error),
        }
    }

    /// Asks a question, and waits for the answer; returns `None` when the turn is over.
    async fn ask(&self, method: &str, params: Value) -> Option<Value> {
        let id = self.asked.replace(self.asked.get() + 1);
        let (answer, answered) = oneshot::channel();
        self.questions.borrow_mut().insert(id, answer);
        self.line(json!({ "id": id, "method": method, "params": params }));
        answered.await.ok()
    }

    /// Takes an answer. A second answer to a question, or an answer to no question, is ignored.
    fn take_answer(&self, line: &Value) {
        let question = line["id"].as_u64().and_then(|id| self.questions.borrow_mut().remove(&id));
        if let Some(question) = question {
            // The asker may have stopped waiting.
            let _ = question.send(line["result"].clone());
        }
    }

    fn answer(&self, id: &Value, result: Value) {
        self.line(json!({ "id": id, "result": result }));
    }

    fn refuse(&self, id: &Value, code: i64, message: &str) {
        self.line(json!({ "id": id, "error": { "code": code, "message": message } }));
    }

    fn update(&self, update: Value) {
        let params = json!({ "sessionId": self.session(), "update": update });
        self.line(json!({ "method": "session/update", "params": params }));
    }

    fn line(&self, mut line: Value) {
        line["jsonrpc"] = "2.0".into();
        self.out.line(&line);
    }

    fn session(&self) -> String {
        self.conversation.borrow().as_ref().map_or_else(String::new, |it| it.id.clone())
    }
}

fn initialized() -> Value {
    let capabilities = json!({
        "loadSession": false,
        "promptCapabilities": { "image": false, "audio": false, "embeddedContext": false },
        "sessionCapabilities": { "resume": {} },
    });
    json!({
        "protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": [],
        "agentInfo": { "name": "plexus-sim", "title": "Simulator", "version": VERSION },
    })
}

/// Reads a line. A line that is not JSON is dropped.
fn read(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok()
}

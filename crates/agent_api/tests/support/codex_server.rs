//! A scripted `codex app-server`: plays the scenario in its prompt, in lines like those of the real
//! one.
//!
//! It keeps threads in files below `CODEX_HOME`, created by their first turn as in the real one.

use std::{
    env, fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use agent_api::conformance::Scenario;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::kept::{Kept, new_id};

/// The environment variable with a [`Fault`], as JSON.
pub(crate) const FAULT: &str = "AGENT_API_CODEX_FAULT";

/// How a server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    OtherPolicy,
    OtherSandbox,
    OtherReviewer,
    RefusesTheHandshake,
    RefusesThePrompt,
    AsksSomethingNew,
    EndsAnotherThread,
    WritesGarbage,
    Interrupts,
    Crashes,
}

/// Serves until its input ends. It writes the model that a thread should use to `model_file`.
pub(crate) fn serve(model_file: &Path) -> ExitCode {
    let kept = Kept(PathBuf::from(env::var_os("CODEX_HOME").unwrap()));
    let lines = io::stdin().lines();
    let out = BufWriter::new(io::stdout());
    let model_file = model_file.to_owned();
    let fault = env::var(FAULT).ok().map(|fault| serde_json::from_str(&fault).unwrap());
    let mut server = Server { kept, lines, out, model_file, fault, thread: None, items: 0 };
    while let Some(line) = server.read() {
        server.request(&line);
        server.out.flush().unwrap();
    }
    ExitCode::SUCCESS
}

struct Server {
    kept: Kept,
    lines: io::Lines<io::StdinLock<'static>>,
    out: BufWriter<io::Stdout>,
    model_file: PathBuf,
    fault: Option<Fault>,
    thread: Option<Thread>,
    items: u64,
}

/// A thread, and whether it is stored yet.
#[derive(Clone)]
struct Thread {
    id: String,
    cwd: String,
}

impl Server {
    fn read(&mut self) -> Option<Value> {
        let line = self.lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    }

    fn write(&mut self, line: Value) {
        writeln!(self.out, "{line}").unwrap();
    }

    fn request(&mut self, line: &Value) {
        let params = &line["params"];
        let refused = Err("no".to_owned());
        let result = match line["method"].as_str().unwrap() {
            "initialized" => return,
            "initialize" if self.fault == Some(Fault::RefusesTheHandshake) => refused,
            "initialize" => Ok(json!({"userAgent": "stand_in/0.169.0"})),
            "account/read" => Ok(json!({"account": null, "requiresOpenaiAuth": false})),
            "thread/list" => Ok(json!({"data": self.list(params["cwd"].as_str().unwrap())})),
            "thread/start" => Ok(self.open(new_id(), params)),
            "thread/resume" => self.known(params).map(|id| self.open(id, params)),
            "thread/fork" => self.known(params).map(|_| self.open(new_id(), params)),
            "turn/start" if self.fault == Some(Fault::RefusesThePrompt) => refused,
            "turn/start" => {
                Ok(json!({"turn": {"id": "turn-1", "items": [], "status": "inProgress"}}))
            }
            other => panic!("the stand-in does not know {other}"),
        };
        let is_taken = result.is_ok();
        match result {
            Ok(result) => self.write(json!({"id": line["id"], "result": result})),
            Err(message) => {
                let error = json!({"code": -32600, "message": message});
                self.write(json!({"id": line["id"], "error": error}));
            }
        }
        if line["method"] == "turn/start" && is_taken {
            self.keep();
            let prompt = params["input"][0]["text"].as_str().unwrap().to_owned();
            self.turn(&prompt);
        }
    }

    /// Lists the threads of a directory, newest first.
    fn list(&self, cwd: &str) -> Vec<Value> {
        let ids = self.kept.list(cwd).into_iter();
        ids.map(|id| json!({"id": id, "cwd": cwd})).collect()
    }

    /// Returns the id of a stored thread.
    fn known(&self, params: &Value) -> Result<String, String> {
        let id = params["threadId"].as_str().unwrap();
        if id.contains(' ') {
            return Err(format!("invalid session id: {id}"));
        }
        let is_kept = self.kept.has(id);
        is_kept.then(|| id.to_owned()).ok_or(format!("no rollout found for thread id {id}"))
    }

    fn open(&mut self, id: String, params: &Value) -> Value {
        if let Some(model) = params["model"].as_str() {
            fs::write(&self.model_file, model).unwrap();
        }
        let sandbox = match params["sandbox"].as_str().unwrap() {
            "workspace-write" => "workspaceWrite",
            "danger-full-access" => "dangerFullAccess",
            other => panic!("no such sandbox: {other}"),
        };
        let mut answer = json!({
            "thread": {"id": id, "cwd": params["cwd"], "status": {"type": "idle"}, "turns": []},
            "model": params["model"],
            "cwd": params["cwd"],
            "approvalPolicy": params["approvalPolicy"],
            "approvalsReviewer": params["approvalsReviewer"],
            "sandbox": {"type": sandbox},
        });
        match self.fault {
            Some(Fault::OtherPolicy) => answer["approvalPolicy"] = "never".into(),
            Some(Fault::OtherSandbox) => answer["sandbox"]["type"] = "dangerFullAccess".into(),
            Some(Fault::OtherReviewer) => answer["approvalsReviewer"] = "auto_review".into(),
            _ => {}
        }
        self.thread = Some(Thread { id, cwd: params["cwd"].as_str().unwrap().to_owned() });
        answer
    }

    fn keep(&self) {
        let thread = self.thread.as_ref().unwrap();
        self.kept.keep(&thread.id, &thread.cwd);
    }

    fn turn(&mut self, prompt: &str) {
        self.tell("turn/started", json!({"turn": turn("inProgress", Value::Null)}));
        let scenario = serde_json::from_str(prompt).unwrap_or(Scenario::Say { text: "ok".into() });
        self.misbehave();
        let failure = self.play(&scenario);
        let status = match (&failure, self.fault) {
            (_, Some(Fault::Crashes)) => {
                self.out.flush().unwrap();
                std::process::exit(3);
            }
            (_, Some(Fault::Interrupts)) => "interrupted",
            (Some(_), _) => "failed",
            (None, _) => "completed",
        };
        self.tell("turn/completed", json!({"turn": turn(status, failure.unwrap_or_default())}));
    }

    /// Plays the fault that comes before the scenario.
    fn misbehave(&mut self) {
        match self.fault {
            Some(Fault::AsksSomethingNew) => {
                self.write(json!({"id": 0, "method": "item/dance/request", "params": {}}));
                self.out.flush().unwrap();
                let answer = self.read().unwrap();
                assert_eq!(answer["error"]["code"], -32601, "{answer}");
            }
            Some(Fault::EndsAnotherThread) => {
                let other = json!({"threadId": "another", "turn": turn("failed", Value::Null)});
                self.write(json!({"method": "turn/completed", "params": other}));
            }
            Some(Fault::WritesGarbage) => writeln!(self.out, "not json").unwrap(),
            _ => {}
        }
    }

    /// Plays the scenario and returns why the turn failed, if it did.
    fn play(&mut self, scenario: &Scenario) -> Option<Value> {
        match scenario {
            Scenario::Say { text } => self.say(text),
            Scenario::UseTool { before, secret, after } => {
                self.say(before);
                self.run(secret);
                self.say(after);
            }
            Scenario::NeedLeave { text } => {
                self.say(text);
                self.ask();
                self.say("I go on without it");
            }
            Scenario::Hang { text } => {
                self.say(text);
                self.out.flush().unwrap();
                loop {
                    std::thread::park();
                }
            }
            Scenario::Flood { messages, bytes } => {
                let text = "x".repeat(*bytes);
                (0..*messages).for_each(|_| self.say(&text));
            }
            Scenario::Fail { secret } => {
                let error = json!({
                    "message": secret,
                    "codexErrorInfo": "badRequest",
                    "additionalDetails": secret,
                });
                self.tell("error", json!({"error": error, "willRetry": false}));
                eprintln!("password={secret}");
                return Some(error);
            }
            Scenario::Leak { text, secret } => {
                self.leak(secret);
                self.run(secret);
                self.say(text);
            }
        }
        None
    }

    /// Writes a secret wherever no reader of events should see it.
    fn leak(&mut self, secret: &str) {
        writeln!(self.out, "{secret} is not json").unwrap();
        let thought = json!({"type": "reasoning", "id": "r", "summary": [secret], "content": []});
        self.tell("item/started", json!({ "item": thought }));
        self.tell("item/reasoning/summaryTextDelta", json!({"itemId": "r", "delta": secret}));
        self.tell("item/completed", json!({ "item": thought }));
        self.tell("warning", json!({ "message": secret }));
        self.tell("deprecationNotice", json!({"summary": secret, "details": secret}));
        self.tell("turn/diff/updated", json!({ "diff": secret }));
        self.tell(secret, json!({ secret: secret }));
        self.tell("item/started", json!({"item": {"type": secret, "id": secret}}));
        let retry = json!({"message": secret, "codexErrorInfo": "other"});
        self.tell("error", json!({"error": retry, "willRetry": true}));
        eprintln!("password={secret} and again {secret}");
    }

    fn say(&mut self, text: &str) {
        self.items += 1;
        let id = format!("msg-{}", self.items);
        let item = |text: &str| json!({"item": {"type": "agentMessage", "id": id, "text": text}});
        self.tell("item/started", item(""));
        let half = text.floor_char_boundary(text.len() / 2);
        for part in [&text[..half], &text[half..]] {
            self.tell("item/agentMessage/delta", json!({"itemId": id, "delta": part}));
        }
        self.tell("item/completed", item(text));
    }

    /// Runs a command that needs no permission.
    fn run(&mut self, secret: &str) {
        self.items += 1;
        let mut item = command(self.items, &format!("cat {secret}.txt"), "inProgress");
        self.tell("item/started", json!({ "item": item }));
        item["status"] = "completed".into();
        item["exitCode"] = 0.into();
        item["aggregatedOutput"] = secret.into();
        self.tell("item/completed", json!({ "item": item }));
    }

    /// Asks for a command that needs permission.
    fn ask(&mut self) {
        self.items += 1;
        let mut item = command(self.items, "touch made", "inProgress");
        self.tell("item/started", json!({ "item": item }));
        let thread = &self.thread.as_ref().unwrap().id;
        let params = json!({"threadId": thread, "turnId": "turn-1", "itemId": item["id"]});
        let method = "item/commandExecution/requestApproval";
        self.write(json!({"id": 0, "method": method, "params": params}));
        self.out.flush().unwrap();
        let answer = self.read().unwrap();
        assert_eq!(answer, json!({"id": 0, "result": {"decision": "decline"}}));
        item["status"] = "declined".into();
        self.tell("item/completed", json!({ "item": item }));
    }

    fn tell(&mut self, method: &str, mut params: Value) {
        params["threadId"] = self.thread.as_ref().unwrap().id.as_str().into();
        if params.get("turn").is_none() {
            params["turnId"] = "turn-1".into();
        }
        self.write(json!({"method": method, "params": params, "emittedAtMs": 0}));
    }
}

fn turn(status: &str, error: Value) -> Value {
    json!({"id": "turn-1", "items": [], "status": status, "error": error})
}

fn command(number: u64, command: &str, status: &str) -> Value {
    json!({
        "type": "commandExecution", "id": format!("call-{number}"), "command": command,
        "cwd": "/", "status": status, "processId": null, "source": "agent",
        "aggregatedOutput": null, "exitCode": null,
    })
}

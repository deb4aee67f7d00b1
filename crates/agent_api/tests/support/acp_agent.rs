//! A scripted agent of the Agent Client Protocol: plays the scenario in its prompt, in lines like
//! those of real agents.
//!
//! It keeps sessions in files below [`ACP_HOME`](super::stand_in::ACP_HOME), created by their first
//! turn.

use std::{
    env, fs,
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

use agent_api::conformance::Scenario;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    kept::{Kept, new_id},
    stand_in::ACP_HOME,
};

/// The environment variable with a [`Fault`], as JSON.
pub(crate) const FAULT: &str = "AGENT_API_ACP_FAULT";

/// How an agent misbehaves, or differs from most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    SpeaksAnotherVersion,
    RefusesTheHandshake,
    RefusesTheSession,
    RefusesThePrompt,
    OpensInAnotherMode,
    MovesItsMode,
    MovesItsModeByOption,
    OffersNothing,
    HasNoCodeForUnknownSessions,
    LoadsWithHistory,
    AsksSomethingNew,
    AsksForFiles,
    AsksWithoutOptions,
    AnswersAnotherRequest,
    AnswersTwice,
    EndsForAnUnknownReason,
    ReachesItsTokens,
    WritesGarbage,
    TellsAfterTheEnd,
    StaysAfterTheEnd,
    Interrupts,
    Crashes,
}

/// Serves until its input ends. It writes the model and the directories that a session should use
/// to these files.
pub(crate) fn serve(model_file: PathBuf, dirs_file: PathBuf) -> ExitCode {
    let kept = Kept(PathBuf::from(env::var_os(ACP_HOME).unwrap()));
    let fault = env::var(FAULT).ok().map(|fault| serde_json::from_str(&fault).unwrap());
    let mut agent = Agent {
        kept,
        lines: io::stdin().lines(),
        out: BufWriter::new(io::stdout()),
        model_file,
        dirs_file,
        fault,
        session: None,
        items: 0,
        asked: 0,
    };
    while let Some(line) = agent.read() {
        agent.request(&line);
        agent.out.flush().unwrap();
    }
    if fault == Some(Fault::StaysAfterTheEnd) {
        loop {
            std::thread::park();
        }
    }
    ExitCode::SUCCESS
}

struct Agent {
    kept: Kept,
    lines: io::Lines<io::StdinLock<'static>>,
    out: BufWriter<io::Stdout>,
    model_file: PathBuf,
    dirs_file: PathBuf,
    fault: Option<Fault>,
    session: Option<(String, String)>,
    items: u64,
    asked: u64,
}

/// An answer; a refusal is its error code.
type Answer = Result<Value, i64>;

impl Agent {
    fn read(&mut self) -> Option<Value> {
        let line = self.lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    }

    fn write(&mut self, mut line: Value) {
        line["jsonrpc"] = "2.0".into();
        writeln!(self.out, "{line}").unwrap();
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn request(&mut self, line: &Value) {
        assert_eq!(line["jsonrpc"], "2.0", "{line}");
        let params = &line["params"];
        let answer = match line["method"].as_str().unwrap() {
            "initialize" => self.initialize(params),
            "session/list" => Ok(self.list(params)),
            "session/new" if self.has(Fault::RefusesTheSession) => Err(-32603),
            "session/new" => Ok(self.open(new_id(), params)),
            "session/resume" => self.known(params).map(|id| self.open(id, params)),
            "session/load" => self.known(params).map(|id| self.load(id, params)),
            "session/fork" => self.known(params).map(|_| self.open(new_id(), params)),
            "session/set_config_option" => {
                assert_eq!(params["configId"], "the model");
                fs::write(&self.model_file, params["value"].as_str().unwrap()).unwrap();
                Ok(json!({"configOptions": []}))
            }
            "session/prompt" if self.has(Fault::RefusesThePrompt) => Err(-32000),
            "session/prompt" => self.prompt(params),
            other => panic!("the stand-in does not know {other}"),
        };
        match answer {
            Ok(result) => self.write(json!({"id": line["id"], "result": result})),
            Err(code) => {
                let error = json!({"code": code, "message": "no"});
                self.write(json!({"id": line["id"], "error": error}));
            }
        }
        match self.fault {
            Some(Fault::TellsAfterTheEnd) if line["method"] == "session/prompt" => {
                self.call_ends("c-1", "late");
            }
            Some(Fault::AnswersTwice) if line["method"] == "session/prompt" => {
                self.write(json!({"id": line["id"], "result": {"stopReason": "end_turn"}}));
            }
            _ => {}
        }
    }

    fn initialize(&self, params: &Value) -> Answer {
        assert_eq!(params["protocolVersion"], 1);
        assert_eq!(params["clientCapabilities"]["fs"]["writeTextFile"], false);
        let mut sessions = json!({"list": {}, "fork": {}, "additionalDirectories": {}});
        match self.fault {
            Some(Fault::RefusesTheHandshake) => return Err(-32603),
            Some(Fault::SpeaksAnotherVersion) => return Ok(json!({"protocolVersion": 2})),
            Some(Fault::OffersNothing) => return Ok(json!({"protocolVersion": 1})),
            Some(Fault::LoadsWithHistory) => {}
            _ => sessions["resume"] = json!({}),
        }
        let capabilities = json!({"loadSession": true, "sessionCapabilities": sessions});
        Ok(json!({"protocolVersion": 1, "agentCapabilities": capabilities}))
    }

    /// Lists the sessions of the directory, one on each page, and one of another directory.
    fn list(&self, params: &Value) -> Value {
        let cwd = params["cwd"].as_str().unwrap();
        let mut sessions = vec![json!({"sessionId": "elsewhere", "cwd": "/elsewhere"})];
        // The oldest comes first, so that only its time shows which is the last.
        for (at, id) in self.kept.list(cwd).into_iter().rev().enumerate() {
            let updated = format!("2026-01-01T00:00:{at:02}Z");
            sessions.push(json!({"sessionId": id, "cwd": cwd, "updatedAt": updated}));
        }
        let at: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let next = (at + 1 < sessions.len()).then(|| (at + 1).to_string());
        json!({"sessions": sessions.get(at).into_iter().collect::<Vec<_>>(), "nextCursor": next})
    }

    fn known(&self, params: &Value) -> Result<String, i64> {
        let id = params["sessionId"].as_str().unwrap();
        let code = if self.has(Fault::HasNoCodeForUnknownSessions) { -32603 } else { -32002 };
        self.kept.has(id).then(|| id.to_owned()).ok_or(code)
    }

    fn load(&mut self, id: String, params: &Value) -> Value {
        let answer = self.open(id, params);
        self.chunk("user_message_chunk", "what was asked before", None);
        self.chunk("agent_message_chunk", "what was said before", None);
        self.call_begins("old", "before");
        self.call_ends("old", "before");
        answer
    }

    fn open(&mut self, id: String, params: &Value) -> Value {
        assert!(params["mcpServers"].is_array(), "{params}");
        if let Some(dirs) = params.get("additionalDirectories") {
            fs::write(&self.dirs_file, dirs.to_string()).unwrap();
        }
        self.session = Some((id.clone(), params["cwd"].as_str().unwrap().to_owned()));
        let mode = if self.has(Fault::OpensInAnotherMode) { "yolo" } else { "ask" };
        let model = json!({"id": "the model", "category": "model", "currentValue": "m"});
        let options = if self.has(Fault::OffersNothing) { json!([]) } else { json!([model]) };
        json!({
            "sessionId": id,
            "modes": {"currentModeId": mode, "availableModes": []},
            "configOptions": options,
        })
    }

    fn prompt(&mut self, params: &Value) -> Answer {
        let (id, cwd) = self.session.clone().unwrap();
        assert_eq!(params["sessionId"], *id);
        self.kept.keep(&id, &cwd);
        let prompt = params["prompt"][0]["text"].as_str().unwrap();
        let scenario = serde_json::from_str(prompt).unwrap_or(Scenario::Say { text: "ok".into() });
        self.misbehave();
        let code = self.play(&scenario);
        let reason = match self.fault {
            Some(Fault::Crashes) => {
                self.out.flush().unwrap();
                std::process::exit(3);
            }
            Some(Fault::Interrupts | Fault::AnswersTwice) => "cancelled",
            Some(Fault::ReachesItsTokens) => "max_tokens",
            Some(Fault::EndsForAnUnknownReason) => "bored",
            _ => "end_turn",
        };
        code.map_or_else(|| Ok(json!({"stopReason": reason})), Err)
    }

    /// Plays the fault that comes before the scenario.
    fn misbehave(&mut self) {
        let mode = json!({"id": "mode", "category": "mode", "currentValue": "yolo"});
        match self.fault {
            Some(Fault::AsksSomethingNew) => {
                let answer = self.ask("session/dance", json!({}));
                assert_eq!(answer["error"]["code"], -32601, "{answer}");
            }
            Some(Fault::AsksForFiles) => {
                for method in ["fs/write_text_file", "fs/read_text_file", "terminal/create"] {
                    let answer = self.ask(method, json!({}));
                    assert_eq!(answer["error"]["code"], -32601, "{answer}");
                }
            }
            Some(Fault::AsksWithoutOptions) => {
                let call = json!({"toolCallId": "q"});
                let params = json!({"toolCall": call, "options": []});
                let answer = self.ask("session/request_permission", params);
                assert_eq!(answer["error"]["code"], -32601, "{answer}");
            }
            Some(Fault::MovesItsMode) => {
                self.update("current_mode_update", json!({"currentModeId": "yolo"}));
                self.wait_for_the_end();
            }
            Some(Fault::MovesItsModeByOption) => {
                self.update("config_option_update", json!({"configOptions": [mode]}));
                self.wait_for_the_end();
            }
            Some(Fault::AnswersAnotherRequest) => {
                self.write(json!({"id": 4711, "result": {"stopReason": "refusal"}}));
                self.write(json!({"id": null, "error": {"code": -32700, "message": "what?"}}));
            }
            Some(Fault::WritesGarbage) => writeln!(self.out, "not json").unwrap(),
            Some(Fault::TellsAfterTheEnd) => self.call_begins("c-1", "late"),
            _ => {}
        }
    }

    /// Plays the scenario and returns the error code that ends the turn, if any.
    fn play(&mut self, scenario: &Scenario) -> Option<i64> {
        match scenario {
            Scenario::Say { text } => self.say(text),
            Scenario::UseTool { before, secret, after } => {
                self.say(before);
                self.run(secret);
                self.say(after);
            }
            Scenario::NeedLeave { text } => {
                self.say(text);
                self.need_leave();
                self.say("I go on without it");
            }
            Scenario::Hang { text } => {
                self.say(text);
                self.wait_for_the_end();
            }
            Scenario::Flood { messages, bytes } => {
                let text = "x".repeat(*bytes);
                (0..*messages).for_each(|_| self.say(&text));
            }
            Scenario::Fail { secret } => {
                eprintln!("password={secret}");
                self.update("notice", json!({"severity": "error", "title": secret}));
                return Some(500);
            }
            Scenario::Leak { text, secret } => {
                self.leak(secret);
                self.run(secret);
                self.say(text);
            }
        }
        None
    }

    fn wait_for_the_end(&mut self) {
        self.out.flush().unwrap();
        loop {
            std::thread::park();
        }
    }

    /// Writes a secret wherever no reader of events should see it.
    fn leak(&mut self, secret: &str) {
        writeln!(self.out, "{secret} is not json").unwrap();
        self.chunk("agent_thought_chunk", secret, None);
        self.chunk("user_message_chunk", secret, None);
        self.update("plan", json!({"entries": [{"content": secret}]}));
        self.update("notice", json!({"title": secret}));
        self.update("session_info_update", json!({"title": secret}));
        self.update("available_commands_update", json!({"availableCommands": [secret]}));
        self.update(secret, json!({ secret: secret }));
        self.write(json!({"method": format!("_{secret}"), "params": {secret: secret}}));
        self.write(json!({"method": secret, "params": {secret: secret}}));
        self.write(json!({"id": null, "error": {"code": -1, "message": secret}}));
        eprintln!("password={secret} and again {secret}");
    }

    /// Writes a text in two parts, as a message of its own.
    fn say(&mut self, text: &str) {
        self.items += 1;
        let id = format!("m-{}", self.items);
        let half = text.floor_char_boundary(text.len() / 2);
        for part in [&text[..half], &text[half..]] {
            self.chunk("agent_message_chunk", part, Some(&id));
        }
    }

    fn chunk(&mut self, kind: &str, text: &str, message_id: Option<&str>) {
        let content = json!({"type": "text", "text": text});
        self.update(kind, json!({"content": content, "messageId": message_id}));
    }

    /// Makes a call that needs no permission.
    fn run(&mut self, secret: &str) {
        self.items += 1;
        let id = format!("c-{}", self.items);
        self.call_begins(&id, secret);
        let changed = json!({"toolCallId": id, "status": "in_progress", "title": secret});
        self.update("tool_call_update", changed);
        self.call_ends(&id, secret);
    }

    fn call_begins(&mut self, id: &str, secret: &str) {
        let input = json!({"command": format!("cat {secret}")});
        self.update(
            "tool_call",
            json!({
                "toolCallId": id, "title": secret, "kind": "execute", "status": "pending",
                "rawInput": input,
            }),
        );
    }

    fn call_ends(&mut self, id: &str, secret: &str) {
        let ended = json!({"toolCallId": id, "status": "completed", "rawOutput": secret});
        self.update("tool_call_update", ended);
    }

    /// Makes a call that needs permission.
    fn need_leave(&mut self) {
        let option = |id: &str, kind: &str| json!({"optionId": id, "kind": kind, "name": id});
        let options = json!([
            option("for ever", "allow_always"),
            option("now", "allow_once"),
            option("not now", "reject_once"),
        ]);
        let call = json!({"toolCallId": "asked", "title": "touch made", "kind": "execute"});
        let params = json!({"toolCall": call, "options": options});
        let answer = self.ask("session/request_permission", params);
        let outcome = &answer["result"]["outcome"];
        assert_eq!(outcome["outcome"], "selected", "{answer}");
        let status = match outcome["optionId"].as_str().unwrap() {
            "now" => "completed",
            "not now" => "failed",
            other => panic!("{other} was chosen"),
        };
        self.update("tool_call_update", json!({"toolCallId": "asked", "status": status}));
    }

    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        let id = self.asked;
        self.asked += 1;
        params["sessionId"] = self.session.as_ref().unwrap().0.as_str().into();
        self.write(json!({"id": id, "method": method, "params": params}));
        self.out.flush().unwrap();
        let answer = self.read().unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn update(&mut self, kind: &str, mut update: Value) {
        update["sessionUpdate"] = kind.into();
        let session_id = &self.session.as_ref().unwrap().0;
        let params = json!({"sessionId": session_id, "update": update});
        self.write(json!({"method": "session/update", "params": params}));
    }
}

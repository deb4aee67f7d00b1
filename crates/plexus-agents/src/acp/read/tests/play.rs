//! A driver with its memory, and the steps that followed from the lines it read.

use acp_lines::{ClientBody, ClientLine, ClientRequest};
use agent_lines::journal::LineContent;
use plexus_engine::driver::{Driver as _, Memory as _, OutLine, Say, Step};
use plexus_wire::{ChatEvent, PermitAnswer};
use serde_json::{Value, json};
use testkit::fixtures::acp::{Direction, Recorded};
use uuid::Uuid;

use crate::acp::memory::Handshake;
use crate::acp::{Acp, AcpMemory, Homes, Profile, write};

/// A run of an agent, without a process.
pub(super) struct Play {
    driver: Acp,
    pub(super) memory: AcpMemory,
    pub(super) steps: Vec<Step>,
}

impl Play {
    /// A run of a known agent that has said nothing.
    pub(super) fn of(name: &str) -> Self {
        let known = Profile::known().into_iter().find(|(known, _)| *known == name);
        let (_, profile) = known.expect("a known agent");
        Self::with(profile)
    }

    pub(super) fn with(profile: Profile) -> Self {
        let driver = Acp::new(profile, Homes::default());
        Self { driver, memory: AcpMemory::default(), steps: Vec::new() }
    }

    /// A run of a known agent whose session `s` is open and has a turn.
    pub(super) fn in_a_turn(name: &str) -> Self {
        let mut play = Self::of(name);
        play.memory.begin_turn(Some(Uuid::nil()));
        let images = json!({"promptCapabilities": {"image": true}});
        let hello = json!({"protocolVersion": 1, "agentCapabilities": images});
        play.read(&json!({"id": "plexus-hello", "result": hello}));
        let mode = play.driver.profile().modes[0].clone();
        let modes = json!({"currentModeId": mode, "availableModes": []});
        play.read(&json!({"id": "plexus-open", "result": {"sessionId": "s", "modes": modes}}));
        assert_eq!(play.steps.pop(), Some(Step::Ready));
        play.steps.clear();
        play
    }

    pub(super) fn read(&mut self, line: &Value) -> Vec<Step> {
        self.read_text(&line.to_string())
    }

    pub(super) fn read_text(&mut self, line: &str) -> Vec<Step> {
        let line = LineContent::Whole(line.as_bytes().into());
        let steps = self.driver.read(&mut self.memory, &line);
        if steps.contains(&Step::TurnEnded) {
            self.memory.end_turn();
        }
        self.steps.extend(steps.clone());
        steps
    }

    /// An update of the session `s`.
    pub(super) fn update(&mut self, update: Value) -> Vec<Step> {
        let params = json!({"sessionId": "s", "update": update});
        self.read(&json!({"method": "session/update", "params": params}))
    }

    /// A question about the call `c`, with the usual options.
    pub(super) fn ask(&mut self, id: Value, input: Value) -> Vec<Step> {
        let options = json!([
            {"optionId": "always", "kind": "allow_always", "name": "Always"},
            {"optionId": "yes", "kind": "allow_once", "name": "Yes"},
            {"optionId": "no", "kind": "reject_once", "name": "No"},
        ]);
        self.ask_with(id, input, options)
    }

    pub(super) fn ask_with(&mut self, id: Value, input: Value, options: Value) -> Vec<Step> {
        let call = json!({"toolCallId": "c", "title": "shell", "rawInput": input});
        let params = json!({"sessionId": "s", "toolCall": call, "options": options});
        self.read(&json!({"id": id, "method": "session/request_permission", "params": params}))
    }

    /// The key of the newest question that was asked.
    pub(super) fn asked(&self) -> String {
        let asks = self.steps.iter().rev().find_map(|step| match step {
            Step::Asked(ask) => Some(ask.request_id.clone()),
            _ => None,
        });
        asks.expect("a question")
    }

    /// Returns the lines that are written for a decision.
    pub(super) fn decide(&self, request_id: &str, allow: bool) -> Vec<Value> {
        let answer = match allow {
            true => PermitAnswer::Allow { updated_input: json!({}).into() },
            false => PermitAnswer::deny("not here"),
        };
        self.write(&Say::Answer { request_id, answer: &answer })
    }

    pub(super) fn write(&self, say: &Say<'_>) -> Vec<Value> {
        let lines = self.driver.write(&self.memory, say).into_iter().map(OutLine::into_text);
        lines.map(|line| serde_json::from_str(&line).expect("a line")).collect()
    }

    /// Returns the message of the failure with which the turn ended.
    pub(super) fn failure(&mut self, lines: &[Value]) -> String {
        self.memory.begin_turn(Some(Uuid::nil()));
        for line in lines {
            let text = LineContent::Whole(line.to_string().as_bytes().into());
            let steps = self.driver.read(&mut self.memory, &text);
            if steps.contains(&Step::TurnEnded) {
                let turn = self.memory.report().turn.expect("a turn");
                return turn.outcome.expect("an end").expect_err("a failure");
            }
        }
        panic!("the turn has not ended")
    }

    /// Plays a line of a recording: requests of the client become calls of the engine, and the
    /// agent's answers get the ids of our own requests. `restart` is called before each line.
    pub(super) fn recorded(&mut self, recording: &[Recorded], mut restart: impl FnMut(&mut Self)) {
        let mut ids: Vec<(Value, String)> = Vec::new();
        for line in recording {
            restart(self);
            if line.direction == Direction::In {
                self.sent(&line.line, &mut ids);
                continue;
            }
            let mut told: Value = serde_json::from_str(&line.line).expect("JSON");
            let is_answer = told.get("method").is_none();
            let known = ids.iter().rev().find(|(id, _)| is_answer && told["id"] == *id);
            if let Some((_, ours)) = known {
                told["id"] = json!(ours);
            }
            self.read(&told);
        }
    }

    fn sent(&mut self, line: &str, ids: &mut Vec<(Value, String)>) {
        let line = ClientLine::parse(line).expect("a line of a client");
        let ClientBody::Request { id, request } = line.body else { return };
        let ours = match *request {
            ClientRequest::Initialize(_) => {
                // A new process.
                self.memory = AcpMemory::default();
                ids.clear();
                write::HELLO.to_owned()
            }
            ClientRequest::SessionNew(_) => write::OPEN.to_owned(),
            ClientRequest::SessionLoad(reopen) => {
                self.memory.session = Some(reopen.session_id);
                write::OPEN.to_owned()
            }
            ClientRequest::Prompt(_) => {
                if self.memory.handshake == Handshake::Replays {
                    let error = json!({"code": -32601, "message": "Method not found"});
                    self.read(&json!({"id": write::REPLAYED, "error": error}));
                }
                let prompt = Uuid::from_u128(ids.len() as u128);
                self.memory.begin_turn(Some(prompt));
                prompt.to_string()
            }
            _ => return,
        };
        let id = serde_json::to_value(id).expect("an id");
        ids.push((id, ours));
    }
}

/// One line for each step; live text and long texts are left out.
pub(super) fn shown(steps: &[Step]) -> String {
    let shown = steps.iter().filter_map(|step| match step {
        Step::Event(ChatEvent::Passthrough { event_type, .. }) => Some(format!("({event_type})")),
        Step::Event(event) => Some(short(serde_json::to_value(event).expect("JSON"))),
        Step::Asked(ask) => {
            let input = ask.input.to_value().expect("JSON");
            let question = json!({"asked": ask.tool_name, "input": input, "of": ask.description});
            Some(short(question))
        }
        Step::Send(lines) => {
            let lines = lines.iter().cloned().map(OutLine::into_text).collect::<Vec<_>>();
            Some(format!("send {}", lines.join(" ")))
        }
        Step::Delta(_) | Step::DeltaStart | Step::DeltaEnd => None,
        step => Some(format!("{step:?}")),
    });
    shown.map(|line| line + "\n").collect()
}

fn short(value: Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(300) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

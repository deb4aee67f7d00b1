//! The recorded conversations, read as the server reads them.

use codex_app::send::ClientBody;
use codex_app::{ClientLine, RequestId};
use plexus_engine::driver::{Driver as _, Memory as _, Step};
use plexus_wire::{ChatEvent, Usage};
use serde_json::Value;
use testkit::fixtures::codex::{Direction, Recorded, all, read as recorded};
use uuid::Uuid;

use super::super::memory::Mode;
use super::super::write::Ours;
use super::super::{Codex, CodexMemory, CodexOptions, Price};
use super::*;

/// A recorded conversation while it is read. The recorded ids of requests are replaced by ours.
struct Replay {
    codex: Codex,
    memory: CodexMemory,
    sent: Vec<(RequestId, Ours)>,
    prompts: u128,
    steps: Vec<Step>,
    /// What the turn that ended last has used.
    ended: Option<Usage>,
}

impl Replay {
    fn of(recording: &[Recorded]) -> Self {
        let mut replay = Self::begin();
        recording.iter().for_each(|line| replay.line(line));
        replay
    }

    fn begin() -> Self {
        let price = Price { input: 1.0, cached_input: 0.0, output: 10.0 };
        let prices = [("gpt-5.5".to_owned(), price)].into();
        let codex = Codex::new(CodexOptions { prices, ..CodexOptions::default() });
        Self {
            codex,
            memory: CodexMemory { tokens: Some(Tokens::default()), ..CodexMemory::default() },
            sent: vec![("cleaned".into(), Ours::Clean)],
            prompts: 0,
            steps: Vec::new(),
            ended: None,
        }
    }

    fn line(&mut self, line: &Recorded) {
        match line.direction {
            Direction::In => self.sent(&line.line),
            Direction::Out => self.said(&line.line),
        }
    }

    /// Replays a line of the recorded client as the request that we would have sent.
    fn sent(&mut self, line: &str) {
        let Ok(ClientLine { body: ClientBody::Request { id, request } }) = ClientLine::parse(line)
        else {
            return;
        };
        let params = serde_json::from_str::<Value>(line).unwrap()["params"].take();
        let ours = match request.method() {
            "initialize" => Ours::Initialize,
            "thread/start" | "thread/resume" | "thread/fork" => {
                self.memory.mode = match params["approvalPolicy"].as_str() {
                    Some("untrusted") => Mode::Strict,
                    _ => Mode::Sandboxed,
                };
                if request.method() != "thread/start" {
                    self.memory.tokens = None;
                }
                Ours::Thread
            }
            "turn/start" => {
                self.prompts += 1;
                let prompt = Uuid::from_u128(self.prompts);
                if self.memory.turn.is_none() {
                    self.memory.begin_turn(Some(prompt));
                }
                Ours::Prompt(prompt)
            }
            "thread/backgroundTerminals/clean" => Ours::Clean,
            _ => return,
        };
        self.sent.push((id, ours));
    }

    fn said(&mut self, line: &str) {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if value.get("method").is_none() {
            let id: RequestId = serde_json::from_value(value["id"].clone()).unwrap();
            let Some((_, ours)) = self.sent.iter().find(|(sent, _)| *sent == id) else { return };
            value["id"] = serde_json::to_value(ours.id()).unwrap();
        }
        let content = LineContent::Whole(value.to_string().into_bytes());
        let mut steps = self.read(&content);
        if steps == [Step::TurnBegan] {
            self.memory.begin_turn(None);
            steps = self.read(&content);
        }
        for step in steps {
            let cleans = |step: &Step| {
                matches!(step, Step::Send(lines) if lines.iter().any(
                |line| String::from_utf8_lossy(line.as_bytes()).contains("Terminals/clean")))
            };
            let clean = cleans(&step);
            let ended = step == Step::TurnEnded;
            self.steps.push(step);
            if ended {
                self.ended = self.memory.report().turn.map(|turn| turn.usage);
                self.memory.end_turn();
            }
            if clean {
                self.said("{\"id\":\"cleaned\",\"result\":{}}");
            }
        }
    }

    /// Reads a line with the memory and with its stored copy: both must give the same steps.
    fn read(&mut self, line: &LineContent) -> Vec<Step> {
        let stored = serde_json::to_string(&self.memory).unwrap();
        let mut recalled: CodexMemory = serde_json::from_str(&stored).unwrap();
        let steps = self.codex.read(&mut self.memory, line);
        assert_eq!(self.codex.read(&mut recalled, line), steps);
        assert_eq!(recalled, self.memory);
        steps
    }

    /// The steps in a few words each.
    fn words(&self) -> Vec<String> {
        let words = self.steps.iter().filter_map(|step| {
            Some(match step {
                Step::Event(ChatEvent::ToolUse { tool_name, .. }) => format!("use {tool_name}"),
                Step::Event(ChatEvent::ToolResult { is_error: true, .. }) => "failed".to_owned(),
                Step::Event(ChatEvent::Passthrough { event_type, .. }) => event_type.clone(),
                Step::Event(event) => event.type_name().to_owned(),
                Step::Asked(ask) => {
                    let whom = if ask.person_only.is_some() { "ask a person" } else { "ask" };
                    format!("{whom} {} {}", ask.request_id, ask.tool_name)
                }
                Step::Settled { request_id } => format!("settled {request_id}"),
                Step::Withdrawn { request_id } => format!("withdrawn {request_id}"),
                Step::Ran { request_id: Some(id), .. } => format!("ran {id}"),
                Step::Ran { request_id: None, .. } => "ran unasked".to_owned(),
                Step::Breach(_) => "breach".to_owned(),
                Step::Refused { .. } => "refused".to_owned(),
                Step::Send(_) => "send".to_owned(),
                Step::Conversation(_) => "conversation".to_owned(),
                Step::Ready => "ready".to_owned(),
                Step::TurnEnded => "ended".to_owned(),
                Step::Unreadable { .. } => "unreadable".to_owned(),
                _ => return None,
            })
        });
        words.collect()
    }
}

/// Every recording, as [`Replay::words`] describes it, without its handshake and its texts.
const MEANINGS: &[(&str, &str)] = &[
    (
        "accept_command",
        "use exec_command, ask 0 exec_command, settled 0, tool_result, ran 0, ended",
    ),
    (
        "bad_answers",
        "use exec_command, ask 0 exec_command, settled 0, failed, ended, \
         use exec_command, ask 1 exec_command, settled 1, failed, ended, \
         use exec_command, ask 2 exec_command, settled 2, failed, ended, \
         use exec_command, ask 3 exec_command, settled 3, failed, ended, \
         use exec_command, ask 4 exec_command, settled 4, tool_result, ran 4, ended",
    ),
    ("cancel_command", "use exec_command, ask 0 exec_command, settled 0, failed, send, ended"),
    (
        "code_mode_accept",
        "use exec_command, ask 0 exec_command, use exec_command, ask 1 exec_command, settled 1, \
         settled 0, failed, tool_result, ran 0, ended",
    ),
    ("code_mode_steer_open", "use exec_command, ask 0 exec_command, settled 0, failed, ended"),
    (
        "command_outlives_turn",
        "use exec_command, ask 0 exec_command, settled 0, ended, tool_result, ran 0",
    ),
    ("compaction", "ended, ended, ended"),
    ("decline_command", "use exec_command, ask 0 exec_command, settled 0, failed, ended"),
    ("deny_reason_steer_after", "use exec_command, ask 0 exec_command, settled 0, failed, ended"),
    ("deny_reason_steer_first", "use exec_command, ask 0 exec_command, settled 0, failed, ended"),
    // The recorded client accepted one of the two, and one ran.
    (
        "duplicate_call_id",
        "use exec_command, ask 0 exec_command, refused, withdrawn 0, send, tool_result, breach, \
         ended",
    ),
    (
        "file_changes",
        "use apply_patch, ask 0 apply_patch, settled 0, tool_result, ran 0, use apply_patch, \
         ask 1 apply_patch, settled 1, failed, ended",
    ),
    ("fork_at_turn", "ended, ended, ended, ended, ended"),
    (
        "human_accept",
        "ask a person 0 exec_command, settled 0, use exec_command, ran 0, tool_result, ran 0, ended",
    ),
    ("human_cancel", "ask a person 0 exec_command, settled 0, send, ended"),
    ("human_decline", "ask a person 0 exec_command, settled 0, ended"),
    ("human_deny_reason", "ask a person 0 exec_command, settled 0, ended"),
    ("human_interrupt", "ask a person 0 exec_command, withdrawn 0, send, ended"),
    (
        "human_outlives_turn",
        "ask a person 0 exec_command, settled 0, use exec_command, ran 0, ended, tool_result, ran 0",
    ),
    (
        "human_parallel",
        "ask a person 0 exec_command, ask a person 1 exec_command, use exec_command, \
         ask 2 exec_command, settled 2, settled 0, settled 1, use exec_command, ran 1, tool_result, \
         ran 1, tool_result, ran 2, ended",
    ),
    // The recorded client accepted one of the two, and one ran.
    (
        "human_same_id",
        "ask a person 0 exec_command, refused, withdrawn 0, send, use exec_command, ran 0, \
         tool_result, breach, ended",
    ),
    ("human_without_capability", "ended"),
    (
        "interrupt_leaves_command",
        "use exec_command, ask 0 exec_command, settled 0, send, ended, failed, ran 0",
    ),
    ("interrupt_open_question", "use exec_command, ask 0 exec_command, withdrawn 0, send, ended"),
    (
        "items_of_a_turn",
        "thinking, webSearch, use exec_command, ask 0 exec_command, settled 0, tool_result, ran 0, \
         ended",
    ),
    (
        "mcp_tool",
        "use mcp__t__read_thing, ask 0 mcp__t__read_thing, settled 0, tool_result, ran 0, \
         use mcp__t__write_thing, ask 1 mcp__t__write_thing, settled 1, failed, \
         use mcp__t__ask_thing, ask 2 mcp__t__ask_thing, settled 2, ask 3 mcp_elicitation, \
         settled 3, tool_result, ran 2, ended",
    ),
    ("model_errors", "ended, ended, ended, ended"),
    (
        "parallel_approvals",
        "use exec_command, ask 0 exec_command, use exec_command, ask 1 exec_command, settled 1, \
         failed, settled 0, tool_result, ran 0, use apply_patch, ask 2 apply_patch, settled 2, \
         tool_result, ran 2, ended",
    ),
    (
        "permissions_request",
        "ask 0 request_permissions, settled 0, ended, ask 1 request_permissions, settled 1, \
         use exec_command, tool_result, ended",
    ),
    (
        "prompt_while_running",
        "use exec_command, ask 0 exec_command, settled 0, tool_result, ran 0, ended",
    ),
    (
        "redacted_items",
        "use exec_command, ask 0 exec_command, settled 0, tool_result, ran 0, ended",
    ),
    ("resume_after_kill", "ended, use exec_command, ask 0 exec_command"),
    ("resume_after_kill.2", "ended"),
    ("sandbox_denied_has_no_item", "ended"),
    // In the sandbox only calls that were asked about need an allow.
    (
        "sandboxed_runs_unasked",
        "use exec_command, tool_result, use apply_patch, tool_result, use exec_command, \
         ask 0 exec_command, settled 0, tool_result, ran 0, ended",
    ),
    (
        "subagent",
        "subagent, subagent, use exec_command, ask 0 exec_command, settled 0, tool_result, ran 0, \
         subagent, subagent, subagent, tool, ended",
    ),
    (
        "terminal_typed_unasked",
        "use exec_command, ask 0 exec_command, settled 0, ran unasked, ran unasked, tool_result, \
         ran 0, ended",
    ),
    ("user_input", "ask 0 request_user_input, settled 0, plan, ended"),
    (
        "write_stdin_asks",
        "use exec_command, ask 0 exec_command, settled 0, ask 1 write_stdin, settled 1, ran 1, \
         tool_result, ran 0, ended",
    ),
];

#[test]
fn every_recording_means_the_same_from_every_starting_point() {
    for (name, recording) in all().unwrap() {
        let words = Replay::of(&recording).words();
        let meaning = MEANINGS.iter().find(|(of, _)| *of == name);
        let (_, meaning) = meaning.unwrap_or_else(|| panic!("{name} is new: say what it means"));
        let unsaid = ["ready", "notice", "content", "conversation"];
        let told: Vec<&str> =
            words.iter().map(String::as_str).filter(|word| !unsaid.contains(word)).collect();
        assert_eq!(told.join(", "), *meaning, "{name}");
    }
}

#[test]
fn tokens_are_counted_once_and_a_thread_that_goes_on_starts_from_what_it_tells() {
    let usage = |name: &str| {
        let usage = Replay::of(&recorded(name).unwrap()).ended.unwrap();
        (usage.input_tokens, usage.output_tokens, usage.num_turns, usage.cost_usd)
    };
    assert_eq!(usage("accept_command"), (200, 40, 2, 0.000_6));
    // The thread had used as much before it was resumed.
    assert_eq!(usage("resume_after_kill.2"), (100, 20, 1, 0.000_3));
}

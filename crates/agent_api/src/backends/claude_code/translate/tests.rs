//! Translates recorded logs of the real CLI.

use claude_code::ClaudeStreamJsonParser;
use serde_json::{Value, json};

use super::*;
use crate::capabilities::{SESSION_HANDLE, TOOLS_STRUCTURED};

fn kind() -> AgentWrapperKind {
    AgentWrapperKind::new("claude_code").unwrap()
}

struct Played {
    events: Vec<AgentWrapperEvent>,
    told: Told,
}

impl Played {
    fn of(log: &str) -> Self {
        let mut parser = ClaudeStreamJsonParser::new();
        let mut translator = Translator::new(kind());
        let mut events = Vec::new();
        for line in log.lines() {
            match parser.parse_line(line) {
                Ok(Some(line)) => events.extend(translator.line(&line)),
                Ok(None) => {}
                Err(_) => events.extend(translator.unreadable()),
            }
        }
        Self { events, told: translator.told().1 }
    }

    fn fixture(name: &str) -> Self {
        Self::of(&testkit::fixtures::read(name).unwrap())
    }

    fn text(&self) -> String {
        self.events.iter().filter_map(|event| event.text.as_deref()).collect()
    }

    fn count(&self, kind: AgentWrapperEventKind) -> usize {
        self.events.iter().filter(|event| event.kind == kind).count()
    }

    fn tools(&self, kind: AgentWrapperEventKind) -> Vec<Value> {
        let of_kind = self.events.iter().filter(|event| event.kind == kind);
        of_kind.map(|event| event.data.as_ref().unwrap()["tool"].clone()).collect()
    }
}

/// Returns the model's text on its main thread, read from the log in the simplest way.
fn said_in(log: &str) -> String {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_said = |line: &Value| {
        line["type"] == "assistant"
            && line["parent_tool_use_id"].is_null()
            && line["error"].is_null()
    };
    let texts = |line: Value| {
        let blocks = line["message"]["content"].as_array().cloned().unwrap_or_default();
        blocks
            .iter()
            .filter_map(|block| block["text"].as_str().map(str::to_owned))
            .collect::<String>()
    };
    lines.filter(is_said).map(texts).collect()
}

#[test]
fn every_recorded_run_says_what_the_model_said_once() {
    for (name, log) in testkit::fixtures::all().unwrap() {
        let played = Played::of(&log);
        assert_eq!(played.text(), said_in(&log), "{name}");
        assert_eq!(
            played.count(AgentWrapperEventKind::Error),
            0,
            "{name} has a line that could not be read"
        );
    }
}

#[test]
fn every_recorded_run_has_one_call_for_each_use_and_one_result_for_each_result() {
    for (name, log) in testkit::fixtures::all().unwrap() {
        let played = Played::of(&log);
        let blocks = |block_type: &str| {
            let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let content = lines
                .filter(|line| line["type"] != "stream_event")
                .filter_map(|line| line["message"]["content"].as_array().cloned());
            content.flatten().filter(|block| block["type"] == block_type).count()
        };
        assert_eq!(played.count(AgentWrapperEventKind::ToolCall), blocks("tool_use"), "{name}");
        assert_eq!(
            played.count(AgentWrapperEventKind::ToolResult),
            blocks("tool_result"),
            "{name}"
        );
    }
}

#[test]
fn every_recorded_run_tells_its_session_once_and_first() {
    for (name, log) in testkit::fixtures::all().unwrap() {
        let played = Played::of(&log);
        let is_handle = |event: &&AgentWrapperEvent| {
            event.data.as_ref().is_some_and(|data| data["schema"] == SESSION_HANDLE)
        };
        let told: Vec<_> = played.events.iter().filter(is_handle).collect();
        if name.contains("resume_unknown") {
            assert!(
                told.is_empty() && played.told.session.is_none(),
                "{name} tells of a session that is not there"
            );
            continue;
        }
        assert_eq!(told.len(), 1, "{name}");
        assert_eq!(told[0].data, played.told.session, "{name}");
    }
}

#[test]
fn streamed_text_arrives_as_it_is_written() {
    let played = Played::fixture("h_partial");
    let pieces: Vec<_> = played.events.iter().filter_map(|event| event.text.as_deref()).collect();
    assert_eq!(pieces[..4], ["I wi", "ll r", "un i", "t."]);
    assert_eq!(played.text(), "I will run it.many small deltas here");
    assert_eq!(played.told.final_text.as_deref(), Some("many small deltas here"));
}

#[test]
fn a_tool_is_told_by_name_and_use_and_size() {
    let played = Played::fixture("h_partial");
    let calls = played.tools(AgentWrapperEventKind::ToolCall);
    assert_eq!(calls.len(), 1);
    assert_eq!(
        calls[0],
        json!({
            "backend_item_id": "toolu_fake000003", "thread_id": null, "turn_id": "msg_fake000001",
            "kind": "tool_use", "phase": "start", "status": "running", "exit_code": null,
            "bytes": {"stdout": 0, "stderr": 0, "diff": 0, "result": 0},
            "tool_name": "Bash", "tool_use_id": "toolu_fake000003",
        })
    );
    let results = played.tools(AgentWrapperEventKind::ToolResult);
    assert_eq!(results[0]["tool_name"], "Bash");
    assert_eq!(results[0]["status"], "completed");
    assert_eq!(results[0]["bytes"]["result"], "RAN-OK".len());
    let told = format!("{:?}", played.events);
    assert!(
        told.contains(TOOLS_STRUCTURED) && !told.contains("RAN-OK") && !told.contains("touch"),
        "{told}"
    );
}

#[test]
fn a_refused_tool_is_a_result_that_failed() {
    let results = Played::fixture("h_denied").tools(AgentWrapperEventKind::ToolResult);
    assert_eq!(results[0]["phase"], "fail");
    assert_eq!(results[0]["status"], "failed");
}

#[test]
fn a_subagent_speaks_to_the_agent_and_not_to_the_reader() {
    let played = Played::fixture("h_task");
    assert!(!played.text().contains("sub done"), "{}", played.text());
    let calls = played.tools(AgentWrapperEventKind::ToolCall);
    let of_subagent: Vec<_> = calls.iter().filter(|tool| !tool["thread_id"].is_null()).collect();
    assert_eq!(of_subagent.len(), 1);
    assert_eq!(of_subagent[0]["thread_id"], calls[0]["tool_use_id"]);
}

#[test]
fn synthetic_messages_of_the_cli_are_not_shown_as_the_models() {
    for name in ["h_err400", "h_err401_max1"] {
        let played = Played::fixture(name);
        assert_eq!(played.text(), "", "{name}");
        assert_eq!(played.told.final_text, None, "{name}");
    }
}

#[test]
fn an_unknown_line_is_an_event_without_content() {
    let log = r#"{"type":"from_tomorrow","session_id":"s","secret":"hunter2"}
{"type":"system","subtype":"from_tomorrow","session_id":"s","secret":"hunter2"}
{"type":"assistant","message":{"id":"m","content":[{"type":"from_tomorrow","secret":"hunter2"}]}}"#;
    let played = Played::of(log);
    assert_eq!(played.count(AgentWrapperEventKind::Unknown), 3);
    assert!(!format!("{:?}", played.events).contains("hunter2"));
}

#[test]
fn an_unreadable_line_is_an_error_without_content_and_the_run_goes_on() {
    let log = "hunter2 is not json\n{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":\"hello\"}}";
    let played = Played::of(log);
    assert_eq!(played.count(AgentWrapperEventKind::Error), 1);
    assert_eq!(played.text(), "hello");
    assert!(!format!("{:?}", played.events).contains("hunter2"));
}

#[test]
fn a_last_line_that_cannot_be_read_is_left_to_the_end_of_the_run() {
    let bad_twice = "{\"type\":\"assis\nhunter2";
    let played = Played::of(bad_twice);
    assert_eq!(
        played.count(AgentWrapperEventKind::Error),
        1,
        "the first of two is told at the second"
    );
    assert_eq!(played.told.unreadable.unwrap().kind, AgentWrapperEventKind::Error);
    assert!(Played::fixture("text").told.unreadable.is_none());
}

#[test]
fn the_session_is_told_before_what_the_same_line_says() {
    let log = r#"{"type":"assistant","session_id":"s","message":{"id":"m","content":"hello"}}"#;
    let played = Played::of(log);
    assert_eq!(played.events[0].kind, AgentWrapperEventKind::Status);
    assert_eq!(played.events[1].text.as_deref(), Some("hello"));
}

#[test]
fn thinking_is_told_once_and_not_shown() {
    for name in ["h_thinking", "h_partial"] {
        let played = Played::fixture(name);
        let thinking = played
            .events
            .iter()
            .filter(|event| event.message.as_deref() == Some("thinking"))
            .count();
        assert_eq!(thinking, 1, "{name}");
        assert!(!format!("{:?}", played.events).contains("let me"), "{name}");
    }
}

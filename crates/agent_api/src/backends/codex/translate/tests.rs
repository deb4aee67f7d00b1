//! Translates recorded conversations of the real CLI, and lines that were not recorded.

use codex_app::{CodexParser, ServerBody};
use testkit::fixtures::codex::{Direction, all, read};

use super::*;
use crate::backends::shared::seen::{text, tools};

/// Translates all notifications of a recording, as if every thread in it were the run's own.
fn translated(recording: &str) -> (Vec<AgentWrapperEvent>, Told) {
    let lines = read(recording).unwrap().into_iter();
    translate(lines.filter(|line| line.direction == Direction::Out).map(|line| line.line))
}

fn translate(lines: impl Iterator<Item = String>) -> (Vec<AgentWrapperEvent>, Told) {
    let mut translator = Translator::new(AgentWrapperKind::new("codex").unwrap());
    let mut parser = CodexParser::new();
    let mut events = Vec::new();
    for line in lines {
        let Some(line) = parser.parse_line(&line).unwrap() else { continue };
        if let ServerBody::Notification(told) = &line.body {
            events.extend(translator.notification(told, &line));
        }
    }
    (events, translator.told().1)
}

#[test]
fn text_is_said_once_and_the_last_message_is_the_final_text() {
    let (events, told) = translated("items_of_a_turn");
    assert_eq!(text(&events), "Looking.Final.");
    assert_eq!(told.final_text.as_deref(), Some("Final."));
}

#[test]
fn calls_are_told_with_their_results() {
    use AgentWrapperEventKind::{ToolCall, ToolResult};
    let of = |name: &str, status: &str| {
        [
            (ToolCall, name.to_owned(), "running".to_owned()),
            (ToolResult, name.to_owned(), status.to_owned()),
        ]
    };
    let (events, _) = translated("accept_command");
    assert_eq!(tools(&events), of("shell", "completed"));
    let facet = events.iter().find(|event| event.kind == ToolResult).unwrap();
    assert_eq!(facet.data.as_ref().unwrap()["tool"]["exit_code"], 0);
    let (events, _) = translated("decline_command");
    assert_eq!(tools(&events), of("shell", "failed"));
    let (events, _) = translated("file_changes");
    assert_eq!(tools(&events)[..2], of("apply_patch", "completed"));
    let (events, _) = translated("mcp_tool");
    assert_eq!(tools(&events)[..2], of("t.read_thing", "completed"));
}

#[test]
fn no_recording_holds_anything_unknown_and_none_leaks_a_command() {
    for (name, lines) in all().unwrap() {
        let out = lines.into_iter().filter(|line| line.direction == Direction::Out);
        let (events, _) = translate(out.map(|line| line.line));
        let unknown = events.iter().filter(|event| event.kind == AgentWrapperEventKind::Unknown);
        assert_eq!(unknown.count(), 0, "{name}");
        let shown = format!("{events:?}");
        assert!(!shown.contains("/bin/bash") && !shown.contains("*** Begin"), "{name}: {shown}");
    }
}

#[test]
fn a_broken_answer_is_not_said_twice() {
    let line = |method: &str, item: &str| format!(r#"{{"method":"{method}","params":{item}}}"#);
    let started = line("item/started", r#"{"item":{"type":"agentMessage","id":"m","text":""}}"#);
    let delta = |text: &str| {
        line("item/agentMessage/delta", &format!(r#"{{"itemId":"m","delta":"{text}"}}"#))
    };
    let whole = |text: &str| {
        let item = format!(r#"{{"item":{{"type":"agentMessage","id":"m","text":"{text}"}}}}"#);
        line("item/completed", &item)
    };
    // The same text comes again: the part that was seen is held back.
    let again = [
        started.clone(),
        delta("hello "),
        started.clone(),
        delta("hello "),
        delta("world"),
        whole("hello world"),
    ];
    let (events, told) = translate(again.into_iter());
    assert_eq!(text(&events), "hello world");
    assert_eq!(told.final_text.as_deref(), Some("hello world"));
    // Another text comes: it is forwarded from its beginning, after a status that says so.
    let other = [started.clone(), delta("hello "), started, delta("good day"), whole("good day")];
    let (events, _) = translate(other.into_iter());
    assert_eq!(text(&events), "hello good day");
    assert!(
        events.iter().any(|event| {
            event.message.as_deref() == Some("an answer broke off and begins again")
        })
    );
}

#[test]
fn an_unknown_line_is_an_unknown_event() {
    let new = r#"{"method":"turn/dance","params":{"secret":"x"}}"#.to_owned();
    let item =
        r#"{"method":"item/started","params":{"item":{"type":"dance","id":"1"}}}"#.to_owned();
    let (events, _) = translate([new, item].into_iter());
    let kinds: Vec<_> = events.iter().map(|event| (event.kind, event.data.is_some())).collect();
    assert_eq!(kinds, [(AgentWrapperEventKind::Unknown, false); 2]);
}

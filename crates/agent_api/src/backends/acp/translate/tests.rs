//! Translates recorded conversations of real agents, and lines that were not recorded.

use acp_lines::{AcpParser, AgentBody, AgentLine, AgentRequest, Notification};
use testkit::fixtures::acp::{Direction, all, read};

use super::*;
use crate::backends::shared::seen::{text, tools};

/// Translates all lines of the agent in a recording, as if they were one turn.
fn translated(recording: &str) -> (Vec<AgentWrapperEvent>, Told) {
    let lines = read(recording).unwrap().into_iter();
    translate(lines.filter(|line| line.direction == Direction::Out).map(|line| line.line))
}

fn translate(lines: impl Iterator<Item = String>) -> (Vec<AgentWrapperEvent>, Told) {
    let mut translator = Translator::new(AgentWrapperKind::new("acp").unwrap());
    let mut parser = AcpParser::new();
    let mut events = Vec::new();
    for line in lines {
        let Some(AgentLine { body, .. }) = parser.parse_line(&line).unwrap() else { continue };
        match body {
            AgentBody::Notification(told) => match *told {
                Notification::Update(update) => events.extend(translator.update(&update)),
                Notification::Unknown { .. } => events.push(translator.unknown()),
                _ => {}
            },
            AgentBody::Request { request, .. } => {
                if let AgentRequest::Permission(asked) = *request {
                    events.extend(translator.asked(&asked.tool_call));
                }
            }
            AgentBody::Answer(_) | AgentBody::Complaint(_) => {}
        }
    }
    (events, translator.told().1)
}

fn update(update: &str) -> String {
    format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#)
}

fn chunk(text: &str, message_id: &str) -> String {
    update(&format!(
        r#"{{"sessionUpdate":"agent_message_chunk","messageId":{message_id},"content":{{"type":"text","text":"{text}"}}}}"#
    ))
}

#[test]
fn text_is_said_once_and_the_last_message_is_the_final_text() {
    for agent in ["opencode-allow", "goose-allow", "claude-agent-acp-allow", "gemini-allow"] {
        let (events, told) = translated(agent);
        assert_eq!(text(&events), "I will run it.Done.", "{agent}");
        assert_eq!(told.final_text.as_deref(), Some("Done."), "{agent}");
    }
}

#[test]
fn a_message_ends_with_another_id_or_a_call() {
    let call = update(r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t"}"#);
    let final_text = |lines: Vec<String>| translate(lines.into_iter()).1.final_text;
    let parts = vec![chunk("a", "null"), chunk("b", "null")];
    assert_eq!(final_text(parts).as_deref(), Some("ab"));
    let ids = vec![chunk("a", "\"1\""), chunk("b", "\"2\""), chunk("b", "\"2\"")];
    assert_eq!(final_text(ids).as_deref(), Some("bb"));
    let calls = vec![chunk("a", "null"), call, chunk("a", "null")];
    let (events, told) = translate(calls.into_iter());
    assert_eq!((text(&events).as_str(), told.final_text.as_deref()), ("aa", Some("a")));
}

#[test]
fn every_agents_calls_are_told_once_with_their_results() {
    use AgentWrapperEventKind::{ToolCall, ToolResult};
    let of = |names: [&str; 3]| {
        let call = |name: &str| {
            [
                (ToolCall, name.to_owned(), "running".to_owned()),
                (ToolResult, name.to_owned(), "completed".to_owned()),
            ]
        };
        names.map(call).concat()
    };
    for (agent, names) in [
        ("claude-agent-acp-allow", ["Bash", "Write", "Edit"]),
        ("goose-allow", ["shell", "write", "edit"]),
        // They report the kind of tool, and its name only in fields of their own.
        ("opencode-allow", ["execute", "edit", "edit"]),
        ("gemini-allow", ["execute", "edit", "edit"]),
    ] {
        assert_eq!(tools(&translated(agent).0), of(names), "{agent}");
    }
    // A denied call has failed, if the agent reports it at all.
    let denied = |agent: &str| tools(&translated(agent).0).last().cloned().unwrap();
    assert_eq!(denied("opencode-deny"), (ToolResult, "execute".into(), "failed".into()));
    assert_eq!(denied("gemini-deny"), (ToolCall, "execute".into(), "running".into()));
}

#[test]
fn a_call_that_goes_on_after_its_end_is_not_told_again() {
    let call = |update_kind: &str, status: &str| {
        update(&format!(
            r#"{{"sessionUpdate":"{update_kind}","toolCallId":"c","status":"{status}"}}"#
        ))
    };
    let told = |lines: &[String]| tools(&translate(lines.iter().cloned()).0).len();
    let once = [
        call("tool_call", "pending"),
        call("tool_call_update", "completed"),
        call("tool_call_update", "completed"),
        call("tool_call_update", "in_progress"),
    ];
    assert_eq!(told(&once), 2);
    // A model may give the same id to another call.
    let again = [&once[..], &[call("tool_call", "completed")]].concat();
    assert_eq!(told(&again), 4);
}

#[test]
fn no_recording_holds_anything_unknown_and_none_leaks_a_command() {
    for (name, lines) in all().unwrap() {
        let out = lines.into_iter().filter(|line| line.direction == Direction::Out);
        let (events, _) = translate(out.map(|line| line.line));
        let unknown = events.iter().filter(|event| event.kind == AgentWrapperEventKind::Unknown);
        assert_eq!(unknown.count(), 0, "{name}");
        let shown: String =
            events.iter().map(|event| format!("{:?} {:?}", event.message, event.data)).collect();
        assert!(!shown.contains("echo") && !shown.contains("note.txt"), "{name}: {shown}");
    }
}

#[test]
fn an_unknown_line_is_an_unknown_event() {
    let new = update(r#"{"sessionUpdate":"dance","secret":"x"}"#);
    let method = r#"{"method":"session/dance","params":{"secret":"x"}}"#.to_owned();
    let (events, _) = translate([new, method].into_iter());
    let kinds: Vec<_> = events.iter().map(|event| (event.kind, event.data.is_some())).collect();
    assert_eq!(kinds, [(AgentWrapperEventKind::Unknown, false); 2]);
}

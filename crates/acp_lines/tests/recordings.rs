//! Reads and rewrites every line of the recorded conversations with real agents and clients.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

use acp_lines::event::answer::{Initialized, PromptEnded, SessionOpened};
use acp_lines::event::request::PermissionRequest;
use acp_lines::event::tool::ToolCall;
use acp_lines::send::{ClientAnswer, PermissionAnswer};
use acp_lines::serve::{PermissionAsk, ServedLine, Update};
use acp_lines::{
    AcpParser, AgentBody, AgentLine, AgentRequest, ClientBody, ClientLine, ClientRequest,
    Notification, OptionKind, Outcome, RequestId, SessionUpdate, StopReason, ToolKind, ToolStatus,
};
use serde_json::{Value, json};
use testkit::fixtures::acp::{Direction, Recorded, all, read};

/// Returns the lines of the agent in one recording.
fn told(name: &str) -> Vec<AgentLine> {
    let lines = read(name).expect("a recording").into_iter();
    lines.filter(|line| line.direction == Direction::Out).map(|line| parse(&line.line)).collect()
}

fn parse(line: &str) -> AgentLine {
    AcpParser::new().parse_line(line).expect("readable").expect("a line")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn updates(lines: &[AgentLine]) -> impl Iterator<Item = &SessionUpdate> {
    lines.iter().filter_map(|line| match &line.body {
        AgentBody::Notification(told) => match &**told {
            Notification::Update(update) => Some(update),
            _ => None,
        },
        _ => None,
    })
}

fn questions(lines: &[AgentLine]) -> Vec<(&RequestId, &PermissionRequest)> {
    lines
        .iter()
        .filter_map(|line| match &line.body {
            AgentBody::Request { id, request } => match &**request {
                AgentRequest::Permission(asked) => Some((id, &**asked)),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Returns the answers that have this form, in order.
fn answers<T: agent_lines::json::FromJson>(lines: &[AgentLine]) -> Vec<T> {
    let read = |line: &AgentLine| match &line.body {
        AgentBody::Answer(answer) => answer.outcome.read(),
        _ => None,
    };
    lines.iter().filter_map(read).collect()
}

/// Returns a call with all its updates merged.
fn merged(lines: &[AgentLine], id: &str) -> ToolCall {
    let mut whole = ToolCall::default();
    for line in lines {
        match &line.body {
            AgentBody::Notification(told) => {
                if let Notification::Update(
                    SessionUpdate::ToolCall(call) | SessionUpdate::ToolCallUpdate(call),
                ) = &**told
                    && call.tool_call_id == id
                {
                    whole.merge(call);
                }
            }
            AgentBody::Request { request, .. } => {
                if let AgentRequest::Permission(asked) = &**request
                    && asked.tool_call.tool_call_id == id
                {
                    whole.merge(&asked.tool_call);
                }
            }
            AgentBody::Answer(_) | AgentBody::Complaint(_) => {}
        }
    }
    whole
}

#[test]
fn every_recorded_line_is_read_and_known() {
    let mut lines = 0;
    for (name, recording) in all().expect("the recordings") {
        for (number, Recorded { direction, line, .. }) in recording.into_iter().enumerate() {
            lines += 1;
            let place = format!("{name}:{}", number + 1);
            let unknown = match direction {
                Direction::In => ClientLine::parse(&line).expect(&place).is_unknown(),
                Direction::Out => parse(&line).is_unknown(),
            };
            assert!(!unknown, "{place} is of an unknown kind");
        }
    }
    assert!(lines > 600, "only {lines} lines");
}

#[test]
fn a_line_is_written_as_it_was_read() {
    for (name, recording) in all().expect("the recordings") {
        for Recorded { direction, line, .. } in recording {
            let written = match direction {
                Direction::In => ClientLine::parse(&line).expect(&name).to_line(),
                Direction::Out => serde_json::to_string(&parse(&line)).expect(&name),
            };
            assert_eq!(json(&written), json(&line), "{name}");
            assert_eq!(written.trim_end().lines().count(), 1, "{name}");
        }
    }
}

/// Lines of an agent can be rebuilt from their typed parts without loss.
#[test]
fn recorded_updates_and_questions_are_built_again_from_typed_parts() {
    let (mut updates, mut asks) = (0, 0);
    for (name, recording) in all().expect("the recordings") {
        for line in recording.iter().filter(|line| line.direction == Direction::Out) {
            let line = json(&line.line);
            let built = match line["method"].as_str() {
                // This update belongs to a draft of the protocol's next version.
                Some("session/update") if line["params"]["update"]["sessionUpdate"] == "notice" => {
                    continue;
                }
                Some("session/update") => {
                    updates += 1;
                    let update: Update =
                        serde_json::from_value(line["params"]["update"].clone()).expect(&name);
                    let session_id = line["params"]["sessionId"].as_str().expect("a session");
                    ServedLine::Update { session_id: session_id.to_owned(), update }
                }
                Some("session/request_permission") => {
                    asks += 1;
                    let ask: PermissionAsk =
                        serde_json::from_value(line["params"].clone()).expect(&name);
                    let id = serde_json::from_value(line["id"].clone()).expect("an id");
                    ServedLine::Permission { id, ask: Box::new(ask) }
                }
                Some("$/cancel_request") => {
                    let id = line["params"]["requestId"].clone();
                    ServedLine::Withdraw { request_id: serde_json::from_value(id).expect("an id") }
                }
                _ => continue,
            };
            assert_eq!(built.to_json(), line, "{name}");
            assert_eq!(parse(&built.to_line()).raw(), built.to_line().trim_end(), "{name}");
        }
    }
    assert!(updates > 300 && asks > 40, "{updates} updates, {asks} questions");
}

#[test]
fn every_agent_introduces_itself_and_opens_a_session() {
    for (agent, mode, can_resume) in [
        ("gemini-allow", "default", false),
        ("opencode-allow", "build", true),
        ("goose-allow", "approve", false),
        ("claude-agent-acp-allow", "default", true),
    ] {
        let lines = told(agent);
        let hello = &answers::<Initialized>(&lines)[0];
        assert_eq!(hello.protocol_version, Some(1), "{agent}");
        assert!(hello.capabilities.load_session, "{agent}");
        assert_eq!(hello.capabilities.session.resume.is_some(), can_resume, "{agent}");
        let opened = answers::<SessionOpened>(&lines).into_iter();
        let opened: Vec<_> = opened.filter(|opened| opened.session_id.is_some()).collect();
        assert_eq!(opened[0].mode().as_deref(), Some(mode), "{agent}");
        let ended = answers::<PromptEnded>(&lines).pop().expect("the end of the turn");
        assert_eq!(ended.stop_reason, Some(StopReason::EndTurn), "{agent}");
    }
    let lines = told("opencode-allow");
    let opened = answers::<SessionOpened>(&lines).remove(1);
    let model = opened.option("model").expect("an option");
    assert_eq!(model.value().as_deref(), Some("fake/fake-model"));
}

#[test]
fn questions_offer_their_options_by_kind() {
    for (agent, allow, reject) in [
        ("gemini-allow", "proceed_once", "cancel"),
        ("opencode-allow", "once", "reject"),
        ("goose-allow", "allow_once", "reject_once"),
        ("claude-agent-acp-allow", "allow-once", "reject"),
    ] {
        let lines = told(agent);
        for (_, asked) in questions(&lines) {
            let option = |kind| asked.option(kind).map(|option| option.option_id.to_string());
            assert_eq!(option(OptionKind::AllowOnce).as_deref(), Some(allow), "{agent}");
            assert_eq!(option(OptionKind::RejectOnce).as_deref(), Some(reject), "{agent}");
        }
    }
    let goose = told("goose-allow");
    assert!(matches!(questions(&goose)[0].0, RequestId::Text(_)));
}

#[test]
fn a_call_is_whole_when_everything_about_it_is_merged() {
    // OpenCode sends the whole input in an update, which may come after the question.
    let lines = told("opencode-mcp");
    let asked = questions(&lines)[0].1;
    assert_eq!(asked.tool_call.raw_input.as_ref().map(|input| input.get()), Some("{}"));
    let call = merged(&lines, &asked.tool_call.tool_call_id);
    let input = call.raw_input.as_ref().expect("an input").to_value().expect("JSON");
    assert_eq!(input, json!({"text": "abc", "deep": {"a": [1, 2]}}));
    assert_eq!(call.status, Some(ToolStatus::Completed));
    // The name of the tool is in the title, or in fields of each agent's own.
    let name = |recording: &str| {
        let lines = told(recording);
        let asked = questions(&lines)[0].1.tool_call.tool_call_id.to_string();
        merged(&lines, &asked).tool_name().map(str::to_owned)
    };
    assert_eq!(name("claude-agent-acp-allow").as_deref(), Some("Bash"));
    assert_eq!(name("goose-allow").as_deref(), Some("shell"));
    assert_eq!(name("gemini-allow"), None);
    // A change of a file contains the old and the new text.
    let lines = told("gemini-allow");
    let edit = questions(&lines)
        .into_iter()
        .find(|(_, asked)| asked.tool_call.kind == Some(ToolKind::Edit));
    let content = edit.expect("an edit").1.tool_call.content.as_ref().expect("a change");
    assert_eq!(content[0].content_type, "diff");
    assert_eq!(content[0].new_text.as_deref(), Some("hello\nworld\n"));
}

#[test]
fn modes_move_and_the_session_tells_it() {
    let moved = |name: &str| {
        let lines = told(name);
        updates(&lines)
            .filter_map(|update| match update {
                SessionUpdate::CurrentMode(mode) => Some(mode.current_mode_id.to_string()),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    assert!(!moved("goose-modes").is_empty());
    assert!(moved("gemini-slip").is_empty(), "Gemini tells it in a text");
}

#[test]
fn a_refused_prompt_and_a_cancelled_one_are_told_apart() {
    let failed = told("gemini-api_error").into_iter().find_map(|line| match line.body {
        AgentBody::Answer(answer) => match answer.outcome {
            Outcome::Error(error) => Some(error.code),
            Outcome::Result(_) => None,
        },
        _ => None,
    });
    assert_eq!(failed, Some(401));
    for agent in ["gemini", "opencode", "claude-agent-acp"] {
        let lines = told(&format!("{agent}-cancel_ask"));
        let ended = answers::<PromptEnded>(&lines);
        let is_cancelled = |ended: &PromptEnded| ended.stop_reason == Some(StopReason::Cancelled);
        assert!(ended.iter().any(is_cancelled), "{agent}");
    }
}

#[test]
fn clients_answer_by_option_or_cancel() {
    let mut seen = Vec::new();
    for (name, recording) in all().expect("the recordings") {
        for line in recording.iter().filter(|line| line.direction == Direction::In) {
            if let ClientBody::Answer { answer, .. } =
                ClientLine::parse(&line.line).expect(&name).body
            {
                seen.push(answer);
            }
        }
    }
    let count = |of: fn(&ClientAnswer) -> bool| seen.iter().filter(|answer| of(answer)).count();
    assert!(
        count(|answer| {
            matches!(answer, ClientAnswer::Permission(PermissionAnswer::Selected { .. }))
        }) > 20
    );
    assert!(count(|answer| *answer == ClientAnswer::Permission(PermissionAnswer::Cancelled)) > 2);
    assert_eq!(count(|answer| matches!(answer, ClientAnswer::Error(_))), 3);
    assert_eq!(count(|answer| matches!(answer, ClientAnswer::Other(_))), 0);
}

#[test]
fn lines_of_tomorrow_are_kept_and_lines_of_nobody_refused() {
    let new = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"dance","x":[1.50]}}}"#;
    let line = parse(new);
    assert!(line.is_unknown());
    assert_eq!((line.session_id.as_deref(), line.raw()), (Some("s"), new));
    assert!(parse(r#"{"method":"session/dance","params":{}}"#).is_unknown());
    assert!(parse(r#"{"id":"a","method":"session/dance"}"#).is_unknown());
    assert!(!parse(r#"{"method":"_own/method"}"#).is_unknown());
    let complaints = [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#,
    ];
    for complaint in complaints {
        let line = parse(complaint);
        assert!(matches!(&line.body, AgentBody::Complaint(error) if error.code == -32700));
    }
    for (line, details) in [
        ("[]", "not an object"),
        ("{}", "neither a `method` nor an `id`"),
        (r#"{"id":1}"#, "an `id` with neither `method`, `result` nor `error`"),
        (r#"{"method":7}"#, "neither a `method` nor an `id`"),
        (r#"{"id":1,"result":1,"error":{}}"#, "both a `result` and an `error`"),
    ] {
        let error = AcpParser::new().parse_line(line).expect_err(line);
        assert_eq!(error.details, details, "{line}");
    }
    let other = r#"{"jsonrpc":"2.0","id":1,"method":"session/dance","params":{"a":1}}"#;
    let parsed = ClientLine::parse(other).expect("readable");
    assert!(parsed.is_unknown());
    assert_eq!(parsed.to_json(), json(other));
    let prompt = r#"{"id":1,"method":"session/prompt","params":{"prompt":"no list"}}"#;
    assert_eq!(ClientLine::parse(prompt).expect_err("wrong").details, "parameters of another form");
    let kept = r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[],"_meta":{"x":1}}}"#;
    let kept_line = ClientLine::parse(kept).expect("readable");
    assert_eq!(kept_line.to_json(), json(kept));
    assert!(matches!(
        &kept_line.body,
        ClientBody::Request { request, .. } if matches!(&**request, ClientRequest::SessionNew(_))
    ));
    assert!(
        ClientLine::parse("nonsense with a secret")
            .is_err_and(|error| { !format!("{error:?}").contains("secret") })
    );
}

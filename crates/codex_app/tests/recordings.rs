//! Reads and rewrites every line of the recorded conversations with the real server.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

use codex_app::event::{
    Item, ItemBody, Notification, answer, item::ToolStatus, thread::TurnStatus,
};
use codex_app::send::{ClientAnswer, UNSUPERVISED_METHODS};
use codex_app::{
    ClientBody, ClientLine, ClientRequest, CodexParser, Decision, Outcome, RequestId, ServerBody,
    ServerLine, ServerRequest,
};
use serde_json::Value;
use testkit::fixtures::codex::{Direction, Recorded, all, read};

/// Returns the lines of the server in one recording.
fn told(name: &str) -> Vec<ServerLine> {
    let lines = read(name).expect("a recording").into_iter();
    lines.filter(|line| line.direction == Direction::Out).map(|line| parse(&line.line)).collect()
}

fn parse(line: &str) -> ServerLine {
    CodexParser::new().parse_line(line).expect("readable").expect("a line")
}

fn notifications(lines: &[ServerLine]) -> impl Iterator<Item = &Notification> {
    lines.iter().filter_map(|line| match &line.body {
        ServerBody::Notification(notification) => Some(&**notification),
        ServerBody::Request { .. } | ServerBody::Answer(_) => None,
    })
}

fn requests(lines: &[ServerLine]) -> Vec<(&RequestId, &ServerRequest)> {
    lines
        .iter()
        .filter_map(|line| match &line.body {
            ServerBody::Request { id, request } => Some((id, &**request)),
            ServerBody::Notification(_) | ServerBody::Answer(_) => None,
        })
        .collect()
}

fn completed(lines: &[ServerLine]) -> Vec<&Item> {
    notifications(lines)
        .filter_map(|told| match told {
            Notification::ItemCompleted(note) => Some(&note.item),
            _ => None,
        })
        .collect()
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
    assert!(lines > 1000, "only {lines} lines");
}

#[test]
fn a_line_is_written_as_it_was_read() {
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
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

#[test]
fn nothing_recorded_acts_without_a_question() {
    for (name, recording) in all().expect("the recordings") {
        for line in recording.iter().filter(|line| line.direction == Direction::In) {
            let line = ClientLine::parse(&line.line).expect(&name);
            assert_eq!(line.unsupervised_method(), None, "{name}");
        }
    }
    for method in UNSUPERVISED_METHODS {
        let request = ClientRequest::Other { method: format!("{method}x"), params: None };
        assert!(ClientLine::request(1, request).unsupervised_method().is_some(), "{method}");
    }
}

#[test]
fn a_command_is_announced_asked_about_and_completed() {
    let lines = told("accept_command");
    let [(id, ServerRequest::CommandApproval(asked))] = requests(&lines)[..] else {
        panic!("{lines:?}")
    };
    assert_eq!(*id, RequestId::Number(0));
    assert_eq!(asked.command.as_deref(), Some("/bin/bash -lc 'echo ran >> a.txt'"));
    assert_eq!(asked.kind.as_ref().map(|kind| kind.get()), Some("\"command\""));
    assert_eq!(asked.approval_id, None);
    let ran = completed(&lines);
    let ran = ran.iter().find_map(|item| match &item.body {
        ItemBody::CommandExecution(command) => Some((&item.id, command)),
        _ => None,
    });
    let (item_id, command) = ran.expect("a command");
    assert_eq!(*item_id, asked.item_id);
    assert_eq!((command.status, command.exit_code), (ToolStatus::Completed, Some(0)));
    assert!(command.process_id.is_some());
    let about = lines.iter().find(|line| matches!(line.body, ServerBody::Request { .. }));
    let about = about.expect("a request");
    assert_eq!(about.thread_id.as_ref(), Some(&asked.thread_id));
    assert_eq!(about.turn_id.as_ref(), Some(&asked.turn_id));
}

#[test]
fn a_file_change_holds_its_changes_and_its_request_none() {
    let lines = told("file_changes");
    assert!(matches!(requests(&lines)[0].1, ServerRequest::FileChangeApproval(_)));
    let changes = completed(&lines).into_iter().find_map(|item| match &item.body {
        ItemBody::FileChange(change) => Some(&change.changes),
        _ => None,
    });
    let kinds: Vec<_> = changes
        .expect("a file change")
        .iter()
        .map(|change| (change.kind.kind_type.as_str(), change.path.rsplit('/').next()))
        .collect();
    assert_eq!(
        kinds,
        [("delete", Some("d.txt")), ("add", Some("n.txt")), ("update", Some("u.txt"))]
    );
}

#[test]
fn questions_of_every_kind_are_typed() {
    let lines = told("mcp_tool");
    let [(_, ServerRequest::Elicitation(of_codex)), .., (_, ServerRequest::Elicitation(of_server))] =
        &requests(&lines)[..]
    else {
        panic!("no elicitation")
    };
    assert_eq!(of_codex.meta.approval_kind.as_deref(), Some("mcp_tool_call"));
    assert_eq!(of_codex.meta.tool_params.as_ref().map(|p| p.get()), Some(r#"{"q":"1"}"#));
    assert_eq!(of_server.meta.approval_kind, None);
    let lines = told("user_input");
    let ServerRequest::UserInput(input) = requests(&lines)[0].1 else { panic!("{lines:?}") };
    assert_eq!(input.questions[0].options[1].label, "Blue");
    let lines = told("permissions_request");
    assert!(matches!(requests(&lines)[0].1, ServerRequest::PermissionsApproval(_)));
    let lines = told("write_stdin_asks");
    let ServerRequest::CommandApproval(typed) = requests(&lines)[1].1 else { panic!("{lines:?}") };
    assert_eq!(typed.kind.as_ref().map(|kind| kind.get()), Some("\"writeStdin\""));
    assert!(typed.approval_id.is_some());
    let lines = told("human_accept");
    let ServerRequest::CommandApproval(human) = requests(&lines)[0].1 else { panic!("{lines:?}") };
    assert_eq!(human.kind.as_ref().map(|kind| kind.get()), Some("\"humanCommand\""));
}

#[test]
fn turns_say_how_they_ended_and_why() {
    let turns = |name: &str| {
        let ended = |told: &Notification| match told {
            Notification::TurnCompleted(note) => {
                let error = note.turn.error.as_ref();
                Some((note.turn.status.clone(), error.map(|error| error.info.name.to_string())))
            }
            _ => None,
        };
        notifications(&told(name)).filter_map(ended).collect::<Vec<_>>()
    };
    assert_eq!(turns("cancel_command"), [(TurnStatus::Interrupted, None)]);
    let failed = |name: &str| (TurnStatus::Failed, Some(name.to_owned()));
    assert_eq!(
        turns("model_errors"),
        [
            (TurnStatus::Completed, None),
            failed("internalServerError"),
            failed("usageLimitExceeded"),
            (TurnStatus::Completed, None),
        ]
    );
}

#[test]
fn answers_are_typed_by_whoever_asked() {
    let lines = told("accept_command");
    let answers: Vec<_> = lines
        .iter()
        .filter_map(|line| match &line.body {
            ServerBody::Answer(answer) => Some(&answer.outcome),
            _ => None,
        })
        .collect();
    let initialized: answer::Initialized = answers[0].read().expect("an answer");
    assert!(initialized.user_agent.contains("0.169.0"));
    let opened: answer::ThreadOpened = answers[1].read().expect("a thread");
    assert_eq!(opened.approval_policy.expect("a policy").get(), "\"untrusted\"");
    assert_eq!(opened.approvals_reviewer.as_deref(), Some("user"));
    let refused = told("deny_reason_steer_after").into_iter().find_map(|line| match line.body {
        ServerBody::Answer(answer) => match answer.outcome {
            Outcome::Error(error) => Some(error.message.to_string()),
            Outcome::Result(_) => None,
        },
        _ => None,
    });
    assert_eq!(refused.as_deref(), Some("no active turn to steer"));
}

#[test]
fn only_answers_that_end_with_their_question_are_typed() {
    let answer = |line: &str| match ClientLine::parse(line).expect("readable").body {
        ClientBody::Answer { answer, .. } => answer,
        other => panic!("{other:?}"),
    };
    let accept = r#"{"id":0,"result":{"decision":"accept"}}"#;
    assert_eq!(answer(accept), ClientAnswer::Decision(Decision::Accept));
    for other in [
        r#"{"id":0,"result":{"decision":"acceptForSession"}}"#,
        r#"{"id":0,"result":{"decision":"accept","command":"rm"}}"#,
        r#"{"id":0,"result":{"action":"accept","content":{},"_meta":{"persist":"always"}}}"#,
    ] {
        assert!(matches!(answer(other), ClientAnswer::Other(_)), "{other}");
    }
}

#[test]
fn lines_of_tomorrow_are_kept_and_lines_of_nobody_refused() {
    let new = r#"{"method":"item/new","params":{"threadId":"t","turnId":"u","x":[1.50]},"emittedAtMs":7}"#;
    let line = parse(new);
    assert!(line.is_unknown());
    assert_eq!((line.thread_id.as_deref(), line.emitted_at_ms), (Some("t"), Some(7)));
    assert_eq!(line.raw(), new);
    let asked = parse(r#"{"method":"item/ask","id":"q-1","params":{}}"#);
    assert!(matches!(&asked.body, ServerBody::Request { id, .. } if id.to_string() == "q-1"));
    let item = parse(r#"{"method":"item/started","params":{"item":{"type":"dance","id":"1"}}}"#);
    assert!(item.is_unknown());
    for (line, details) in [
        ("[]", "not an object"),
        ("{}", "neither a `method` nor an `id`"),
        (r#"{"id":1}"#, "an `id` with neither `method`, `result` nor `error`"),
        (r#"{"method":7}"#, "neither a `method` nor an `id`"),
        (r#"{"id":1,"result":1,"error":{}}"#, "both a `result` and an `error`"),
    ] {
        let error = CodexParser::new().parse_line(line).expect_err(line);
        assert_eq!(error.details, details, "{line}");
    }
    assert!(
        ClientLine::parse("nonsense with a secret")
            .is_err_and(|error| { !format!("{error:?}").contains("secret") })
    );
}

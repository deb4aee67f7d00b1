//! Tests the control channel: the lines we write, and the duplex over a pair of streams.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

mod common;

use claude_code::control::{
    AfterDeny, ControlLine, Duplex, DuplexEvent, PermissionAnswer, answer_error, answer_permission,
    control_request, initialize, interrupt, set_model, set_permission_mode, user_prompt,
    user_prompt_blocks,
};
use claude_code::event::control::{ControlOutcome, ControlRequestBody, EchoedDecision};
use claude_code::{ClaudeStreamJsonParser, EventBody, RawJson};
use common::within;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};

fn value(line: ControlLine) -> Value {
    assert!(!line.as_str().contains(['\n', '\r']));
    let bytes = line.into_bytes();
    assert_eq!(bytes.iter().position(|byte| *byte == b'\n'), Some(bytes.len() - 1));
    serde_json::from_slice(&bytes).expect("JSON")
}

fn raw(text: &str) -> RawJson {
    RawJson::from_text(text.to_owned()).expect("JSON")
}

#[test]
fn every_line_is_one_object_of_the_right_shape() {
    let request = |id: &str, body: Value| json!({ "type": "control_request", "request_id": id, "request": body });
    let response = |body: Value| json!({ "type": "control_response", "response": body });
    let success = |body: Value| {
        response(json!({ "subtype": "success", "request_id": "r", "response": body }))
    };
    let user = |content: Value, uuid: Option<&str>| {
        let mut line = json!({
            "type": "user", "message": { "role": "user", "content": content }, "parent_tool_use_id": null, "session_id": "default"
        });
        if let Some(uuid) = uuid {
            line["uuid"] = uuid.into();
        }
        line
    };
    let deny = |then| PermissionAnswer::Deny { message: "no\n\"really\"".to_owned(), then };
    let input = raw("{\n  \"b\": 1.50,\r\n  \"a\": \"x\\ny\"\n}");
    for (line, expected) in [
        (initialize("r"), request("r", json!({ "subtype": "initialize" }))),
        (interrupt("r\"\n"), request("r\"\n", json!({ "subtype": "interrupt" }))),
        (
            set_model("r", Some("opus")),
            request("r", json!({ "subtype": "set_model", "model": "opus" })),
        ),
        (set_model("r", None), request("r", json!({ "subtype": "set_model" }))),
        (
            set_permission_mode("r", "plan"),
            request("r", json!({ "subtype": "set_permission_mode", "mode": "plan" })),
        ),
        (
            control_request("r", "stop_task", Map::from_iter([("task_id".to_owned(), json!("t"))])),
            request("r", json!({ "subtype": "stop_task", "task_id": "t" })),
        ),
        (user_prompt(None, "hi\nthere"), user(json!("hi\nthere"), None)),
        (user_prompt(Some("u"), "hi"), user(json!("hi"), Some("u"))),
        (
            user_prompt_blocks(Some("u"), vec![json!({ "type": "text", "text": "a" })]),
            user(json!([{ "type": "text", "text": "a" }]), Some("u")),
        ),
        (
            answer_permission(
                "r",
                &PermissionAnswer::Allow {
                    updated_input: input.clone(),
                    updated_permissions: None,
                },
            ),
            success(json!({ "behavior": "allow", "updatedInput": { "a": "x\ny", "b": 1.5 } })),
        ),
        (
            answer_permission(
                "r",
                &PermissionAnswer::Allow {
                    updated_input: raw("{}"),
                    updated_permissions: Some(raw("[\n1]")),
                },
            ),
            success(json!({ "behavior": "allow", "updatedInput": {}, "updatedPermissions": [1] })),
        ),
        (
            answer_permission("r", &deny(AfterDeny::GoOn)),
            success(json!({ "behavior": "deny", "message": "no\n\"really\"" })),
        ),
        (
            answer_permission("r", &deny(AfterDeny::Interrupt)),
            success(json!({ "behavior": "deny", "message": "no\n\"really\"", "interrupt": true })),
        ),
        (
            answer_error("r", "cannot"),
            response(json!({ "subtype": "error", "request_id": "r", "error": "cannot" })),
        ),
    ] {
        assert_eq!(value(line), expected);
    }
    let answer =
        PermissionAnswer::Allow { updated_input: raw(r#"{"n":1.50}"#), updated_permissions: None };
    assert!(
        answer_permission("r", &answer).as_str().contains(r#"{"n":1.50}"#),
        "the input goes out as it is"
    );
}

#[test]
fn recorded_control_lines_are_typed() {
    let text = std::fs::read_to_string(testkit::fixtures::folder().join("i_stdio.jsonl"))
        .expect("a fixture");
    let mut parser = ClaudeStreamJsonParser::new();
    let (mut initialized, mut asked) = (false, false);
    for line in text.lines() {
        match parser.parse_line(line).expect("parses").expect("an event").body {
            EventBody::ControlResponse(response) => {
                if let ControlOutcome::Success(success) = &response.outcome
                    && let Some(answer) = &success.initialize
                {
                    assert_eq!(answer.claude_code_version.as_deref(), Some("2.1.325"));
                    assert_eq!(answer.session_state.as_deref(), Some("idle"));
                    assert_eq!(response.pending_permission_requests.as_deref(), Some(&[][..]));
                    initialized = true;
                }
            }
            EventBody::ControlRequest(request) => {
                let ControlRequestBody::CanUseTool(tool) = &request.request else {
                    panic!("{request:?}")
                };
                assert_eq!(
                    (tool.tool_name.as_str(), tool.tool_use_id.as_deref()),
                    ("Bash", Some("toolu_fake000003"))
                );
                assert_eq!(
                    tool.input.get(),
                    r#"{"command":"touch made.txt && echo RAN-OK","description":"test"}"#
                );
                asked = true;
            }
            _ => {}
        }
    }
    assert!(initialized && asked);
}

#[test]
fn pending_requests_are_read_in_both_shapes() {
    let request =
        json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": "ls" } });
    let flat =
        json!({ "request_id": "b", "subtype": "can_use_tool", "tool_name": "Read", "input": {} });
    let line = json!({ "type": "control_response", "response": {
        "subtype": "success", "request_id": "r", "response": {},
        "pending_permission_requests": [{ "type": "control_request", "request_id": "a", "request": request }, flat],
    }});
    let event = ClaudeStreamJsonParser::new().parse_json(&line).expect("parses").expect("an event");
    let EventBody::ControlResponse(response) = &event.body else { panic!("{event:?}") };
    let pending = response.pending_permission_requests.as_ref().expect("a list");
    let names: Vec<_> = pending
        .iter()
        .map(|pending| match &pending.request {
            ControlRequestBody::CanUseTool(tool) => {
                (pending.request_id.as_str(), tool.tool_name.as_str())
            }
            _ => panic!("{pending:?}"),
        })
        .collect();
    assert_eq!(names, [("a", "Bash"), ("b", "Read")]);
}

#[test]
fn a_request_of_tomorrow_is_kept_so_that_it_can_be_refused() {
    let line = r#"{"type":"control_request","request_id":"r","request":{"subtype":"from_tomorrow","x":1}}"#;
    let event = ClaudeStreamJsonParser::new().parse_line(line).expect("parses").expect("an event");
    let EventBody::ControlRequest(request) = &event.body else { panic!("{event:?}") };
    let ControlRequestBody::Other { subtype, request } = &request.request else {
        panic!("{request:?}")
    };
    assert_eq!(
        (subtype.as_deref(), request.get()),
        (Some("from_tomorrow"), r#"{"subtype":"from_tomorrow","x":1}"#)
    );
}

#[test]
fn a_request_whose_id_is_no_string_can_be_refused_with_the_id_as_it_came() {
    for (id, answered) in [
        (r#""request_id":7,"#, "7"),
        (r#""request_id":null,"#, "null"),
        (r#""request_id":{"a":[1]},"#, r#"{"a":[1]}"#),
        ("", "null"),
    ] {
        let line = format!(
            r#"{{"type":"control_request",{id}"request":{{"subtype":"can_use_tool","tool_name":"Bash","input":{{}}}}}}"#
        );
        let event =
            ClaudeStreamJsonParser::new().parse_line(&line).expect("parses").expect("an event");
        let EventBody::ControlRequest(request) = &event.body else { panic!("{event:?}") };
        let ControlRequestBody::Unnamed { request_id } = &request.request else {
            panic!("{request:?}")
        };
        let answer = claude_code::control::answer_unnamed(request_id, "no \"name\"");
        assert_eq!(
            answer.as_str().trim_end(),
            format!(
                r#"{{"type":"control_response","response":{{"subtype":"error","request_id":{answered},"error":"no \"name\""}}}}"#
            )
        );
    }
}

/// The other end of the channel.
struct Cli {
    input: Lines<BufReader<DuplexStream>>,
    output: DuplexStream,
}

impl Cli {
    async fn read(&mut self) -> Value {
        let line =
            within("a line of ours", self.input.next_line()).await.expect("reads").expect("a line");
        serde_json::from_str(&line).expect("only whole objects reach the CLI")
    }

    async fn write(&mut self, line: Value) {
        self.output.write_all(format!("{line}\n").as_bytes()).await.expect("writes");
    }
}

fn channel() -> (Duplex<DuplexStream, DuplexStream>, Cli) {
    let (ours, theirs) = tokio::io::duplex(4096);
    let (their_input, our_output) = tokio::io::duplex(4096);
    (
        Duplex::new(ours, our_output),
        Cli { input: BufReader::new(their_input).lines(), output: theirs },
    )
}

async fn next(duplex: &mut Duplex<DuplexStream, DuplexStream>) -> DuplexEvent {
    within("the next event", duplex.next()).await.expect("not the end").expect("not broken")
}

#[tokio::test]
async fn a_permission_is_asked_answered_and_echoed() {
    let (mut duplex, mut cli) = channel();
    let uuid = duplex.prompt("go").expect("queued").to_string();
    let init = duplex.initialize().expect("queued");
    duplex.flush().await.expect("written");
    assert_eq!(cli.read().await["uuid"], uuid.as_str());
    assert_eq!(cli.read().await["request_id"], init.as_str());

    cli.write(json!({ "type": "control_response", "response": { "subtype": "success", "request_id": init, "response": { "claude_code_version": "2.1.325" } } })).await;
    let DuplexEvent::Answered(answer) = next(&mut duplex).await else { panic!("no answer") };
    assert_eq!(answer.request_id, init.as_str());

    cli.write(
        json!({ "type": "user", "uuid": uuid, "isReplay": true, "message": { "role": "user", "content": "go" } }),
    )
    .await;
    assert!(
        matches!(next(&mut duplex).await, DuplexEvent::PromptDelivered { uuid: seen } if seen == uuid.as_str())
    );

    cli.write(json!({ "type": "control_request", "request_id": "p", "request": { "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": "ls" } } })).await;
    let DuplexEvent::Permission(request) = next(&mut duplex).await else {
        panic!("no permission request")
    };
    let answer = request.allow();
    duplex.answer(*request, &answer).expect("queued");
    duplex.flush().await.expect("written");
    let sent = cli.read().await;
    assert_eq!(
        sent["response"]["response"],
        json!({ "behavior": "allow", "updatedInput": { "command": "ls" } })
    );
    cli.write(sent).await;
    let DuplexEvent::AnswerDelivered { request_id, decision } = next(&mut duplex).await else {
        panic!("no echo")
    };
    assert_eq!(request_id, "p");
    assert!(matches!(decision, Some(EchoedDecision::Allow { updated_input: Some(_) })));

    cli.write(json!({ "type": "control_cancel_request", "request_id": "q" })).await;
    assert!(
        matches!(next(&mut duplex).await, DuplexEvent::PermissionCancelled { request_id } if request_id == "q")
    );
    cli.write(json!({ "type": "result", "subtype": "success" })).await;
    assert!(
        matches!(next(&mut duplex).await, DuplexEvent::Event(event) if event.event_type() == "result")
    );

    duplex.close();
    drop(cli.output);
    assert!(within("the end", duplex.next()).await.is_none());
    assert_eq!(cli.input.next_line().await.expect("reads"), None, "its input is closed");
}

#[tokio::test]
async fn a_control_answer_to_nothing_we_asked_is_an_event_like_any_other() {
    let (mut duplex, mut cli) = channel();
    cli.write(json!({ "type": "control_response", "response": { "subtype": "success", "request_id": "stranger", "response": { "behavior": "allow" } } })).await;
    assert!(
        matches!(next(&mut duplex).await, DuplexEvent::Event(event) if event.event_type() == "control_response")
    );
}

#[tokio::test]
async fn a_dropped_future_never_tears_a_line() {
    let (mut duplex, mut cli) = channel();
    // Far more than the buffer of the stream, so that every write stops half way.
    let text = "x".repeat(50_000);
    for _ in 0..3 {
        duplex.prompt(&text).expect("queued");
        // The future is polled once and dropped.
        assert!(futures::FutureExt::now_or_never(duplex.next()).is_none());
    }
    let read = async {
        for _ in 0..3 {
            assert_eq!(cli.read().await["message"]["content"], text.as_str());
        }
    };
    within("three prompts", async {
        tokio::select! {
            () = read => {}
            event = duplex.next() => panic!("{event:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn both_sides_may_write_first() {
    let (mut duplex, mut cli) = channel();
    duplex.prompt(&"p".repeat(100_000)).expect("queued");
    // This CLI writes a lot before it reads anything.
    let talks = async {
        for _ in 0..100 {
            cli.write(json!({ "type": "n", "pad": "x".repeat(1000) })).await;
        }
        cli.read().await;
        drop(cli.output);
    };
    let listens = async {
        let mut count = 0;
        while let Some(event) = duplex.next().await {
            assert!(matches!(event.expect("not broken"), DuplexEvent::Event(_)));
            count += 1;
        }
        count
    };
    let ((), count) = within("both", async { tokio::join!(talks, listens) }).await;
    assert_eq!(count, 100);
}

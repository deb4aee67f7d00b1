//! Lines that no agent should write, and how each answer is written.

use std::path::Path;

use plexus_engine::driver::step::Hidden;
use plexus_engine::driver::{Driver as _, Memory as _, Say, Step, VersionAnswer};
use plexus_wire::ChatEvent;
use serde_json::{Value, json};
use uuid::Uuid;

use super::play::Play;
use crate::acp::{Acp, Homes, Profile};

#[test]
fn an_answer_takes_the_option_of_its_kind_and_never_one_that_stays() {
    for (agent, deny) in [
        ("goose", json!({"outcome": {"outcome": "selected", "optionId": "no"}})),
        ("claude_acp", Value::Null),
    ] {
        let mut play = Play::in_a_turn(agent);
        play.ask(json!(0), json!({"command": "ls"}));
        let key = play.asked();
        let allowed = play.decide(&key, true);
        let yes = json!({"outcome": {"outcome": "selected", "optionId": "yes"}});
        assert_eq!(allowed, [json!({"jsonrpc": "2.0", "id": 0, "result": yes})], "{agent}");
        let denied = play.decide(&key, false);
        assert_eq!(denied[0]["result"], deny, "{agent}");
        if deny.is_null() {
            assert_eq!(denied[0]["error"]["message"], "not here");
        }
    }
}

#[test]
fn a_question_that_cannot_be_answered_is_refused() {
    let only_always = json!([{"optionId": "a", "kind": "allow_always", "name": "A"}]);
    let refused = |steps: &[Step]| steps.iter().any(|step| matches!(step, Step::Refused { .. }));

    let mut play = Play::in_a_turn("goose");
    assert!(refused(&play.ask_with(json!(0), json!({"command": "ls"}), only_always)));

    let mut play = Play::in_a_turn("goose");
    play.ask(json!(0), json!({"command": "ls"}));
    let first = play.asked();
    let steps = play.ask(json!(0), json!({"command": "rm"}));
    assert!(refused(&steps), "two under one id");
    assert!(steps.contains(&Step::Withdrawn { request_id: first.clone() }));
    assert!(play.decide(&first, true).is_empty(), "neither of the two can be allowed");

    let mut play = Play::of("goose");
    assert!(refused(&play.ask(json!(0), json!({"command": "ls"}))), "before the handshake");

    let mut play = Play::in_a_turn("goose");
    play.memory.session = Some("another".to_owned());
    assert!(refused(&play.ask(json!(0), json!({"command": "ls"}))), "of another session");

    let mut play = Play::in_a_turn("goose");
    for id in 0..64 {
        assert!(!refused(&play.ask(json!(id), json!({"command": "ls"}))));
    }
    assert!(refused(&play.ask(json!(64), json!({"command": "ls"}))), "too many");
}

#[test]
fn an_id_that_is_used_again_is_another_question() {
    let mut play = Play::in_a_turn("goose");
    play.ask(json!(0), json!({"command": "ls"}));
    let first = play.asked();
    play.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}),
    );
    play.ask(json!(0), json!({"command": "rm"}));
    assert_ne!(play.asked(), first);
    assert!(play.decide(&first, true).is_empty());
}

#[test]
fn an_input_that_moves_after_the_question_is_a_breach() {
    let mut play = Play::in_a_turn("opencode");
    let call = |update: &str, command: &str| {
        json!({"sessionUpdate": update, "toolCallId": "c", "title": "bash",
               "status": "in_progress", "rawInput": {"command": command}})
    };
    play.update(call("tool_call", "ls"));
    play.ask(json!(0), json!({"command": "ls"}));
    let same = play.update(call("tool_call_update", "ls"));
    assert!(!same.iter().any(|step| matches!(step, Step::Breach(_))));
    let moved = play.update(call("tool_call_update", "rm -rf x"));
    assert!(moved.iter().any(|step| matches!(step, Step::Breach(_))), "{moved:?}");
}

#[test]
fn an_agent_may_ask_about_one_call_twice_with_an_input_for_each_question() {
    let mut play = Play::in_a_turn("opencode");
    let call = |update: &str, status: &str, input: Value| {
        json!({"sessionUpdate": update, "toolCallId": "c", "title": "write", "kind": "edit",
               "status": status, "rawInput": input})
    };
    let write = json!({"filePath": "/else/x", "content": "NEW"});
    play.update(call("tool_call", "pending", json!({})));
    play.ask(json!(0), json!({"filepath": "/else/x", "parentDir": "/else"}));
    play.update(call("tool_call_update", "in_progress", write.clone()));
    let of_the_directory = play.asked();
    play.ask(json!(1), json!({"filepath": "/else/x", "diff": "+NEW"}));
    let of_the_call = play.asked();
    assert_ne!(of_the_call, of_the_directory);
    let ran = play.update(call("tool_call_update", "completed", write));
    let is_breach = |step: &Step| matches!(step, Step::Breach(_));
    assert!(!play.steps.iter().any(is_breach), "{:?}", play.steps);
    let asked = ran.iter().find_map(|step| match step {
        Step::Ran { request_id, .. } => request_id.clone(),
        _ => None,
    });
    assert_eq!(asked, Some(of_the_call), "the newest question must have been allowed");
}

#[test]
fn a_request_that_says_something_else_than_the_call_shows_both() {
    let mut play = Play::in_a_turn("opencode");
    play.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "bash",
        "status": "in_progress", "rawInput": {"command": "rm", "workdir": "/x"}}));
    let steps = play.ask(json!(0), json!({"command": "ls", "more": 1}));
    let asked = steps.iter().find_map(|step| match step {
        Step::Asked(ask) => ask.input.to_value().ok(),
        _ => None,
    });
    let both = json!({"command": "rm", "workdir": "/x", "more": 1,
        "of_the_request": {"command": "ls"}});
    assert_eq!(asked, Some(both));
}

#[test]
fn an_agent_that_sends_only_a_title_says_so() {
    let mut play = Play::in_a_turn("goose");
    let steps = play.ask(json!(0), json!({}));
    let Some(Step::Asked(ask)) = steps.last() else { panic!("{steps:?}") };
    assert_eq!(ask.input.to_value().unwrap(), json!({"title": "shell"}));
    let words = ask.description.as_deref().unwrap();
    assert!(words.contains("no arguments"), "{words}");
}

#[test]
fn an_agent_that_cannot_be_used_fails_its_chat_with_the_reason() {
    let hello = |result: Value| json!({"id": "plexus-hello", "result": result});
    let images = json!({"promptCapabilities": {"image": true}});
    let good = hello(json!({"protocolVersion": 1, "agentCapabilities": images}));
    let opened = |result: Value| json!({"id": "plexus-open", "result": result});
    let mode = |mode: &str| json!({"currentModeId": mode, "availableModes": []});
    let error = json!({"code": -32000, "message": "log in first"});
    for (lines, expected) in [
        (vec![hello(json!({"protocolVersion": 2}))], "version 2"),
        (vec![hello(json!({"hello": "world"}))], "does not speak"),
        (vec![hello(json!({"protocolVersion": 1}))], "takes images"),
        (vec![json!({"id": "plexus-hello", "error": error})], "log in first"),
        (vec![opened(json!({"sessionId": "s"}))], "before it said who it is"),
        (vec![good.clone(), json!({"id": "plexus-open", "error": error})], "log in first"),
        (vec![good.clone(), opened(json!({"modes": mode("approve")}))], "without an id"),
        (
            vec![good.clone(), opened(json!({"sessionId": "s", "modes": mode("auto")}))],
            r#"in the mode "auto""#,
        ),
        (vec![good, opened(json!({"sessionId": "s"}))], "in which mode"),
    ] {
        let mut play = Play::of("goose");
        let words = play.failure(&lines);
        assert!(words.contains(expected), "{words}");
        assert!(play.memory.report().spent, "{expected}: nobody else gets this process");
        let said = play.write(&Say::Prompt { id: Uuid::nil(), text: "go", images: &[] });
        assert!(said.is_empty() || play.memory.session.is_some());
    }
}

#[test]
fn a_conversation_that_cannot_be_opened_again_names_the_next_step() {
    let mut play = Play::of("gemini");
    play.memory.session = Some("s".to_owned());
    let images = json!({"promptCapabilities": {"image": true}});
    let hello = json!({"protocolVersion": 1, "agentCapabilities": images});
    let error = json!({"code": -32603, "message": "No previous sessions found"});
    let words = play.failure(&[
        json!({"id": "plexus-hello", "result": hello}),
        json!({"id": "plexus-open", "error": error}),
    ]);
    assert!(words.contains("No previous sessions found"), "{words}");
    assert!(words.contains("agents.create"), "{words}");
}

#[test]
fn lines_outside_the_protocol_are_bounded_and_run_nothing() {
    let mut play = Play::in_a_turn("goose");
    let notice = |steps: Vec<Step>| matches!(steps[..], [Step::Event(ChatEvent::Notice { .. })]);
    assert!(notice(play.read_text("npm warn something")));
    assert!(notice(play.read(&json!({"id": 7, "result": {}}))), "an answer to nobody");
    assert!(notice(play.read(&json!({"id": "plexus-hello", "result": {}}))), "a second answer");
    let torn = play.read_text(r#"{"id":0,"method":"session/request_permission","par"#);
    assert!(
        matches!(torn[..], [Step::Unreadable { hides: Hidden::Anything, .. }]),
        "a question may hide in it: {torn:?}"
    );
    let served = play.read(&json!({"id": 1, "method": "terminal/create", "params": {}}));
    assert!(matches!(served[..], [Step::Refused { .. }]), "{served:?}");
    let write = json!({"id": 2, "method": "fs/write_text_file", "params": {"path": "/x"}});
    assert!(matches!(play.read(&write)[..], [Step::Send(_)]));
    for number in 0..3_000 {
        play.update(json!({"sessionUpdate": "tool_call", "toolCallId": format!("c{number}")}));
    }
    assert!(play.memory.calls.len() <= 1_024);
}

#[test]
fn a_long_text_becomes_several_events_and_none_of_it_is_lost() {
    let mut play = Play::in_a_turn("goose");
    let piece = "0123456789".repeat(100);
    for _ in 0..100 {
        let content = json!({"type": "text", "text": piece});
        play.update(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
        assert!(play.memory.speech.as_ref().unwrap().text.len() <= 16 * 1024);
    }
    play.read(&json!({"id": Uuid::nil(), "result": {"stopReason": "end_turn"}}));
    let texts = play.steps.iter().filter_map(|step| match step {
        Step::Event(ChatEvent::Content { text }) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(texts.collect::<String>(), piece.repeat(100));
}

#[test]
fn an_agent_that_nobody_checked_has_no_breach_by_its_tools() {
    let table = toml::from_str("label = 'Own'\nprogram = 'own'").unwrap();
    let profile = Profile::of("own", table).unwrap();
    let said = VersionAnswer::Said(Ok("1.2".to_owned()));
    let driver = Acp::new(profile.clone(), Homes::default());
    let label = driver.identify(Path::new("own"), said).unwrap().label;
    assert!(label.starts_with("Own 1.2") && label.contains("NOT CHECKED"), "{label}");
    let mut play = Play::with(profile);
    play.read(&json!({"id": "plexus-hello", "result": {"protocolVersion": 1}}));
    play.read(&json!({"id": "plexus-open", "result": {"sessionId": "s"}}));
    let update = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "status": "completed"});
    let steps = play.update(update);
    assert!(!steps.iter().any(|step| matches!(step, Step::Ran { .. })), "{steps:?}");
    // It must stay in the mode in which it opened, whichever that is.
    let mode = |mode: &str| json!({"sessionUpdate": "current_mode_update", "currentModeId": mode});
    assert_eq!(play.update(mode("some")), []);
    assert!(matches!(play.update(mode("other"))[..], [Step::Breach(_)]));
}

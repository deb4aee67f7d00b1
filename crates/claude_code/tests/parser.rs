//! Layer A of the contract: the promises of the parser, statement by statement.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

mod common;

use std::collections::HashSet;

use claude_code::event::message::{ContentBlock, MessageContent};
use claude_code::event::stream::{Delta, StreamPart};
use claude_code::event::system::SystemEvent;
use claude_code::{
    ClaudeStreamJsonEvent, ClaudeStreamJsonParseError, ClaudeStreamJsonParseErrorCode as Code,
    ClaudeStreamJsonParser, EventBody,
};
use common::fixture_lines;
use serde_json::{Value, json};

fn parse(line: &str) -> Result<Option<ClaudeStreamJsonEvent>, ClaudeStreamJsonParseError> {
    ClaudeStreamJsonParser::new().parse_line(line)
}

fn event(line: &str) -> ClaudeStreamJsonEvent {
    parse(line)
        .unwrap_or_else(|error| panic!("{line}: {error} ({})", error.details))
        .expect("not a blank line")
}

fn code(line: &str) -> Code {
    parse(line).expect_err(line).code
}

#[test]
fn s01_line_endings_blanks_and_a_byte_order_mark_do_no_harm() {
    let plain = event(r#"{"type":"keep_alive"}"#);
    for line in [
        "{\"type\":\"keep_alive\"}\r",
        "{\"type\":\"keep_alive\"}\r\n",
        "  \t{\"type\":\"keep_alive\"}",
        "\u{feff}{\"type\":\"keep_alive\"}",
        "\u{feff}  {\"type\":\"keep_alive\"}  \r",
    ] {
        assert_eq!(event(line), plain, "{line:?}");
    }
    for blank in ["", "\r", "   ", "\t\r\n", "\u{feff}"] {
        assert_eq!(parse(blank), Ok(None), "{blank:?}");
    }
}

#[test]
fn s02_what_is_no_event_is_typed_parse_and_what_is_no_json_is_json_parse() {
    for line in [
        "[]",
        "1",
        "null",
        "\"text\"",
        "{}",
        r#"{"type":5}"#,
        r#"{"type":null}"#,
        r#"{"kind":"user"}"#,
    ] {
        assert_eq!(code(line), Code::TypedParse, "{line}");
    }
    for line in [
        "{",
        "}",
        "{\"type\":\"user\"",
        "nope",
        r#"{"type":"x",}"#,
        "{'type':'x'}",
        r#"{"type":"x"} x"#,
        "\u{1}",
    ] {
        assert_eq!(code(line), Code::JsonParse, "{line}");
    }
}

#[test]
fn s03_unknown_types_subtypes_blocks_deltas_and_fields_are_kept() {
    let unknown = event(r#"{"type":"from_tomorrow","x":1}"#);
    assert!(unknown.is_unknown());
    assert_eq!(
        (unknown.event_type(), unknown.raw()),
        ("from_tomorrow", r#"{"type":"from_tomorrow","x":1}"#)
    );

    let system = event(r#"{"type":"system","subtype":"from_tomorrow","x":1}"#);
    let EventBody::System(SystemEvent::Other { subtype }) = &system.body else {
        panic!("{system:?}")
    };
    assert_eq!(subtype.as_deref(), Some("from_tomorrow"));

    let assistant = event(
        r#"{"type":"assistant","message":{"content":[{"type":"hologram","z":[1]},{"type":"text","text":"a"}]}}"#,
    );
    let EventBody::Assistant(assistant) = &assistant.body else { panic!("{assistant:?}") };
    let [ContentBlock::Unknown(block), ContentBlock::Text(text)] =
        assistant.message.content.blocks()
    else {
        panic!("{assistant:?}")
    };
    assert_eq!((block.get(), text.as_str()), (r#"{"type":"hologram","z":[1]}"#, "a"));

    let stream = event(
        r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"smell","s":1}}}"#,
    );
    let EventBody::Stream(stream) = &stream.body else { panic!("{stream:?}") };
    let StreamPart::ContentBlockDelta { delta: Delta::Unknown(delta), .. } = &stream.event else {
        panic!("{stream:?}")
    };
    assert_eq!(delta.get(), r#"{"type":"smell","s":1}"#);

    let result =
        event(r#"{"type":"result","subtype":"success","is_error":false,"from_tomorrow":{"a":1}}"#);
    assert!(result.raw().contains("from_tomorrow"));
}

#[test]
fn s04_the_session_id_is_the_first_string_of_two_names() {
    for (line, expected) in [
        (r#"{"type":"x","session_id":"a","sessionId":"b"}"#, Some("a")),
        (r#"{"type":"x","sessionId":"b","session_id":"a"}"#, Some("a")),
        (r#"{"type":"x","session_id":7,"sessionId":"b"}"#, Some("b")),
        (r#"{"type":"x","session_id":null}"#, None),
        (r#"{"type":"x"}"#, None),
    ] {
        assert_eq!(event(line).session_id(), expected, "{line}");
    }
}

#[test]
fn s05_a_result_of_any_subtype_parses_and_says_whether_it_failed() {
    for (subtype, is_error, failed) in [
        ("success", false, false),
        ("success", true, true),
        ("error_max_turns", false, true),
        ("error_during_execution", true, true),
        ("from_tomorrow", false, false),
    ] {
        let line =
            json!({ "is_error": is_error, "subtype": subtype, "type": "result" }).to_string();
        let result = event(&line);
        let EventBody::Result(result) = &result.body else { panic!("{line}") };
        assert_eq!((result.subtype.as_str(), result.failed()), (subtype, failed));
    }
    assert!(matches!(event(r#"{"type":"result"}"#).body, EventBody::Result(_)));
}

#[test]
fn s06_the_three_ways_to_parse_agree_on_every_fixture() {
    let mut parser = ClaudeStreamJsonParser::new();
    for (name, line) in fixture_lines() {
        let by_line = parser.parse_line(&line).expect(&name);
        assert_eq!(parser.parse_bytes(line.as_bytes()).expect(&name), by_line, "{name}");
        let value: Value = serde_json::from_str(&line).expect(&name);
        let by_json = parser.parse_json(&value).expect(&name).expect(&name);
        let by_line = by_line.expect(&name);
        assert_eq!(
            (by_json.event_type(), by_json.session_id(), &by_json.uuid),
            (by_line.event_type(), by_line.session_id(), &by_line.uuid)
        );
        assert!(
            in_any_order(&by_json) == in_any_order(&by_line),
            "{name}: {by_json:?} {by_line:?}"
        );
    }
    for value in [json!(null), json!([]), json!({}), json!({"type": 1}), json!({"type": "user"})] {
        assert_eq!(
            parser.parse_json(&value).expect_err("not an event").code,
            Code::TypedParse,
            "{value}"
        );
    }
}

/// Returns a fingerprint of the typed event that does not depend on the order of JSON keys: how
/// often each byte occurs. Digits are left out, because a tree of `serde_json` may round the last
/// digit of a float.
fn in_any_order(event: &ClaudeStreamJsonEvent) -> Vec<u32> {
    let mut counts = vec![0; 256];
    for byte in format!("{:?}", event.body).bytes().filter(|byte| !byte.is_ascii_digit()) {
        counts[usize::from(byte)] += 1;
    }
    counts
}

#[test]
fn s07_raw_is_lossless() {
    for (name, line) in fixture_lines() {
        let event = event(&line);
        assert_eq!(event.raw(), line, "{name}");
        let again: Value =
            serde_json::from_str(&serde_json::to_string(&event).expect("serialises"))
                .expect("is JSON");
        assert_eq!(again, serde_json::from_str::<Value>(&line).expect("is JSON"), "{name}");
    }
    let digits = r#"{"type":"x","n":1.000000000000000000000000001e+0005,"n":2}"#;
    assert_eq!(event(digits).raw(), digits);
}

#[test]
fn every_fixture_parses_and_every_type_seen_is_known() {
    let mut count = 0;
    for (name, line) in fixture_lines() {
        let event = event(&line);
        assert!(!event.is_unknown(), "{name}: {line}");
        count += 1;
    }
    assert!(count > 400, "only {count} lines: are the fixtures there?");
}

#[test]
fn s08_no_error_holds_bytes_of_the_line() {
    const SECRET: &str = "sk-ant-SECRET-in-the-line";
    let mut lines = vec![
        SECRET.to_owned(),
        format!("{{\"type\":\"{SECRET}\""),
        format!("{{\"{SECRET}\":1}}"),
        format!("[\"{SECRET}\"]"),
        format!("\"{SECRET}\""),
        format!("{{\"type\":\"control_request\",\"request\":\"{SECRET}\"}}"),
    ];
    // Plants the secret in every field of one line of each shape, and breaks the line in two ways.
    let mut shapes = HashSet::new();
    for (_, line) in fixture_lines() {
        let mut value: Value = serde_json::from_str(&line).expect("a fixture is JSON");
        let names: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        if !shapes.insert((value["type"].to_string(), value["subtype"].to_string(), names)) {
            continue;
        }
        let keys: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        for key in keys {
            value[&key] = Value::from(SECRET);
            lines.push(value.to_string());
            lines.push(format!("{value}x"));
            lines.push(value.to_string().trim_end_matches('}').to_owned());
        }
    }
    let mut errors = 0;
    for line in &lines {
        if let Err(error) = parse(line) {
            errors += 1;
            let said = format!("{error} {error:?}");
            assert!(!said.contains("SECRET") && !said.contains("sk-ant"), "{said}");
            assert_eq!(error.to_string(), error.message);
        }
    }
    assert!(errors > 100, "only {errors} errors: the lines are not broken");
}

#[test]
fn s09_invalid_utf8_is_repaired_and_marked() {
    let mut parser = ClaudeStreamJsonParser::new();
    let event = parser
        .parse_bytes(b"{\"type\":\"x\",\"session_id\":\"a\xff\xfeb\"}")
        .expect("repaired")
        .expect("an event");
    assert_eq!(event.session_id(), Some("a\u{fffd}\u{fffd}b"));
    assert!(event.repairs.invalid_utf8 && event.repairs.any());
    let clean = parser
        .parse_bytes("{\"type\":\"x\",\"session_id\":\"ä€🦀\"}".as_bytes())
        .expect("fine")
        .expect("an event");
    assert!(!clean.repairs.any());
}

#[test]
fn s09_a_lone_surrogate_does_not_lose_the_line() {
    for (escape, decoded) in [
        (r"\ud800", "\u{fffd}"),
        (r"\udc00", "\u{fffd}"),
        (r"\ud800\ud83e\udd80", "\u{fffd}🦀"),
        (r"\ud83ex", "\u{fffd}x"),
        (r"\ud83e\n", "\u{fffd}\n"),
        (r"\ud83e\u0041", "\u{fffd}A"),
    ] {
        let event = event(&format!(r#"{{"type":"x","session_id":"{escape}"}}"#));
        assert_eq!(event.session_id(), Some(decoded), "{escape}");
        assert!(event.repairs.lone_surrogate && !event.repairs.invalid_utf8, "{escape}");
        assert!(
            event.raw_json().to_value().is_ok(),
            "{escape}: raw is readable by others after the repair"
        );
    }
    let pair = event(r#"{"type":"x","session_id":"\ud83e\udd80\u00e4\"\\\/\b\f\n\r\t"}"#);
    assert_eq!(pair.session_id(), Some("🦀ä\"\\/\u{8}\u{c}\n\r\t"));
    assert!(!pair.repairs.any());
}

#[test]
fn s09_too_deep_nesting_is_one_redacted_error() {
    let nested =
        |depth: usize| format!(r#"{{"type":"x","a":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(126)).is_ok());
    let error = parse(&nested(127)).expect_err("too deep");
    assert_eq!(error.code, Code::JsonParse);
    assert!(error.details.contains("levels"), "{}", error.details);
    assert!(parse(&nested(1_000_000)).is_err());
}

#[test]
fn a_key_spelled_with_escapes_means_the_same() {
    let event =
        event(r#"{"ty\u0070e":"system","subtype":"st\u0061tus","st\u0061tus":"compacting"}"#);
    let EventBody::System(SystemEvent::Status(status)) = &event.body else { panic!("{event:?}") };
    assert_eq!(status.status.as_deref(), Some("compacting"));
}

#[test]
fn a_field_that_is_there_twice_counts_once_with_its_last_value() {
    let line = r#"{"type":"x","session_id":"first","session_id":"last"}"#;
    let tree: Value = serde_json::from_str(line).expect("is JSON");
    assert_eq!(event(line).session_id(), tree["session_id"].as_str());
}

#[test]
fn tool_results_come_as_text_or_as_blocks() {
    let line = r#"{"type":"user","message":{"role":"user","content":[
        {"type":"tool_result","tool_use_id":"a","content":"plain"},
        {"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"x\ny"},{"type":"image","source":{}}]}
    ]}}"#;
    let event = event(line);
    let EventBody::User(user) = &event.body else { panic!("{event:?}") };
    let [ContentBlock::ToolResult(plain), ContentBlock::ToolResult(blocks)] =
        user.message.content.blocks()
    else {
        panic!("{user:?}")
    };
    assert!(matches!(&plain.content, MessageContent::Text(text) if text == "plain"));
    assert_eq!(
        (blocks.content.text().as_str(), blocks.is_error, plain.is_error),
        ("x\ny", Some(true), None)
    );
    assert!(matches!(blocks.content.blocks(), [_, ContentBlock::Image(_)]));
}

#[test]
fn permission_decisions_are_typed() {
    let (_, line) = fixture_lines()
        .find(|(_, line)| line.contains("user_temporary"))
        .expect("a fixture has one");
    let event = event(&line);
    let EventBody::User(user) = &event.body else { panic!("{event:?}") };
    let decision = user.meta.tool_result_meta[0].permission_decision.as_ref().expect("a decision");
    assert_eq!(
        (decision.decision.as_deref(), decision.source.as_deref()),
        (Some("accept"), Some("user_temporary"))
    );
}

#[test]
fn the_envelope_agrees_with_the_event() {
    let mut parser = ClaudeStreamJsonParser::new();
    for (name, line) in fixture_lines() {
        let event = event(&line);
        let envelope = parser.parse_envelope(&line).expect(&name).expect(&name);
        assert_eq!(
            (
                &*envelope.event_type,
                envelope.session_id.as_deref(),
                envelope.uuid.as_deref(),
                envelope.raw
            ),
            (event.event_type(), event.session_id(), event.uuid.as_deref(), event.raw())
        );
        if let EventBody::System(system) = &event.body {
            assert_eq!(envelope.subtype.as_deref(), system.subtype());
        }
    }
    assert_eq!(parser.parse_envelope("  \r\n"), Ok(None));
    assert_eq!(parser.parse_envelope("[]").expect_err("no object").code, Code::TypedParse);
    assert_eq!(
        parser.parse_envelope("{\"type\":\"x\",\"a\":tru}").expect_err("no JSON").code,
        Code::JsonParse
    );
}

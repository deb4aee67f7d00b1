//! Every recorded log of the real CLI, translated: what readers of a chat would see of it, compared with what stands in `tests/data/translated`.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p plexus-activations --lib translate` writes the files anew; read the difference before you keep it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use claude_code::ClaudeStreamJsonParser;
use serde_json::{Value, json};

use super::*;

/// Translates a log as a run would, opening chats as its prompts come.
fn translate(log: &str) -> Vec<Step> {
    let mut parser = ClaudeStreamJsonParser::new();
    let mut translation = Translation::default();
    let mut next_chat = 0;
    let mut steps = Vec::new();
    for line in log.lines() {
        let Some(event) = parser.parse_line(line).unwrap() else { continue };
        let prompt = match &event.body {
            EventBody::CommandLifecycle(event) => {
                event.command_uuid.as_deref().map(|uuid| uuid.parse().unwrap())
            }
            _ => None,
        };
        if translation.chat.is_none() && (prompt.is_some() || translation.needs_own_chat(&event)) {
            translation.chat = Some(OpenChat::new(next_chat, prompt, Begun::OnWarm));
            next_chat += 1;
        }
        for step in translation.line(&event) {
            let over = step == Step::ChatOver;
            steps.push(step);
            if over {
                translation.close_chat();
            }
        }
    }
    steps
}

/// One line for each step, long texts cut, live text added up.
fn shown(steps: &[Step]) -> String {
    let mut out = String::new();
    let mut deltas = 0;
    for step in steps {
        if let Step::Delta(text) = step {
            deltas += text.len();
            continue;
        }
        if deltas > 0 {
            writeln!(out, "live text of {deltas} bytes").unwrap();
            deltas = 0;
        }
        let line = match step {
            Step::Event(event) => short(serde_json::to_value(event).unwrap()).to_string(),
            Step::Asked(ask) => {
                format!(
                    "asked {} {} {}",
                    ask.request_id,
                    ask.tool_name,
                    short(ask.input.to_value().unwrap())
                )
            }
            Step::Answered { request_id, outcome } => {
                let open = outcome.open_requests.as_ref().map(Vec::len);
                format!(
                    "answered {request_id} still_queued={:?} open={open:?} error={:?}",
                    outcome.still_queued, outcome.error
                )
            }
            other => format!("{other:?}"),
        };
        writeln!(out, "{line}").unwrap();
    }
    out
}

fn short(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > 80 => {
            json!(text.chars().take(80).chain(['…']).collect::<String>())
        }
        Value::Array(list) => list.into_iter().map(short).collect(),
        // Whole lines that are passed on are not our words.
        Value::Object(map) if map.get("type") == Some(&json!("passthrough")) => {
            json!({"passthrough": map["event_type"]})
        }
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, short(value))).collect())
        }
        other => other,
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/translated")
}

#[test]
fn every_recorded_log_translates_as_before() {
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    let mut wrong = Vec::new();
    for (name, log) in testkit::fixtures::all().unwrap() {
        let path = folder().join(format!("{name}.txt"));
        let now = shown(&translate(&log));
        if update {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &now).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != now {
            wrong.push(format!("--- {name} now translates to\n{now}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn text_and_tool_uses_are_told_once_also_with_partial_messages() {
    for (name, log) in testkit::fixtures::all().unwrap() {
        let mut texts = Vec::new();
        let mut uses = BTreeMap::<String, u32>::new();
        for step in translate(&log) {
            match step {
                Step::Event(ChatEvent::Content { text }) => texts.push(text),
                Step::Event(ChatEvent::ToolUse { tool_use_id, .. }) => {
                    *uses.entry(tool_use_id).or_default() += 1
                }
                _ => {}
            }
        }
        assert!(uses.values().all(|count| *count == 1), "{name}: {uses:?}");
        // What the log itself holds: whole text blocks of the main agent, by the message they belong to.
        let mut expected = Vec::new();
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let main_agent = line["type"] == "assistant" && line["parent_tool_use_id"].is_null();
            if !main_agent || line["message"]["model"] == "<synthetic>" {
                continue;
            }
            let blocks = line["message"]["content"].as_array().unwrap();
            let texts = blocks
                .iter()
                .filter(|block| block["type"] == "text")
                .map(|block| block["text"].as_str().unwrap().to_owned());
            expected.extend(texts);
        }
        assert_eq!(texts, expected, "{name}");
    }
}

/// A translation with a chat open for one prompt.
fn with_prompt(uuid: Uuid) -> Translation {
    Translation {
        chat: Some(OpenChat::new(0, Some(uuid), Begun::WithProcess)),
        ..Translation::default()
    }
}

fn feed(translation: &mut Translation, line: Value) -> Vec<Step> {
    let mut parser = ClaudeStreamJsonParser::new();
    translation.line(&parser.parse_line(&line.to_string()).unwrap().unwrap())
}

fn lifecycle(uuid: Uuid, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state, "uuid": Uuid::now_v7(), "session_id": "s"})
}

fn state(state: &str) -> Value {
    json!({"type": "system", "subtype": "session_state_changed", "state": state, "uuid": Uuid::now_v7(), "session_id": "s"})
}

fn tasks(ids: &[&str]) -> Value {
    let tasks: Vec<Value> = ids.iter().map(|id| json!({"task_id": id})).collect();
    json!({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks, "uuid": Uuid::now_v7(), "session_id": "s"})
}

#[test]
fn a_chat_is_over_at_idle_and_only_when_prompt_messages_and_tasks_are_done() {
    let (prompt, message) = (Uuid::now_v7(), Uuid::now_v7());
    let mut translation = with_prompt(prompt);
    translation.chat.as_mut().unwrap().outstanding.insert(message);
    let over = [Step::ChatOver];
    assert_eq!(
        feed(&mut translation, state("idle")),
        [],
        "an idle from before the prompt was taken"
    );
    feed(&mut translation, lifecycle(prompt, "queued"));
    feed(&mut translation, tasks(&["t"]));
    feed(&mut translation, lifecycle(prompt, "completed"));
    assert_eq!(feed(&mut translation, state("idle")), [], "a message is still to be answered");
    feed(&mut translation, lifecycle(message, "cancelled"));
    assert_eq!(feed(&mut translation, state("idle")), [], "a task still runs");
    feed(&mut translation, tasks(&[]));
    assert_eq!(feed(&mut translation, state("running")), []);
    assert_eq!(feed(&mut translation, state("idle")), over);
}

#[test]
fn what_nobody_knows_is_passed_on_whole() {
    let mut translation = with_prompt(Uuid::now_v7());
    for (line, kind) in [
        (json!({"type": "from_the_future", "a": [1, {"b": null}]}), "from_the_future"),
        (json!({"type": "system", "subtype": "from_the_future", "x": 1}), "system/from_the_future"),
        (
            json!({"type": "assistant", "message": {"content": [{"type": "hologram", "x": 1}]}}),
            "assistant",
        ),
        (
            json!({"type": "user", "message": {"role": "user", "content": [{"type": "hologram"}]}}),
            "user",
        ),
    ] {
        let steps = feed(&mut translation, line.clone());
        let [Step::Event(ChatEvent::Passthrough { event_type, data })] = steps.as_slice() else {
            panic!("{line} became {steps:?}")
        };
        assert_eq!((event_type.as_str(), data.to_value()), (kind, line));
    }
}

#[test]
fn a_tool_result_is_text_or_the_blocks_as_they_were() {
    let mut translation = with_prompt(Uuid::now_v7());
    let image = json!([{"type": "text", "text": "see"}, {"type": "image", "source": {"type": "base64", "data": "AA=="}}]);
    for (content, output) in [
        (json!("plain"), json!("plain")),
        (json!([{"type": "text", "text": "one"}]), json!("one")),
        (image.clone(), image),
    ] {
        let block = json!({"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": true});
        let steps = feed(
            &mut translation,
            json!({"type": "user", "message": {"role": "user", "content": [block]}}),
        );
        let [
            Step::Event(ChatEvent::ToolResult { output: told, is_error, .. }),
            Step::Finished { .. },
        ] = steps.as_slice()
        else {
            panic!("{steps:?}")
        };
        assert_eq!((told.to_value(), *is_error), (output, true));
    }
}

#[test]
fn stderr_is_told_up_to_a_bound_and_its_end_is_kept() {
    let mut translation = with_prompt(Uuid::now_v7());
    let mut told = 0;
    for n in 0..500 {
        told += feed(
            &mut translation,
            json!({"type": "plexus_stderr", "text": format!("{n} {}", "x".repeat(50))}),
        )
        .len();
    }
    assert_eq!(told, MAX_STDERR_NOTICES as usize);
    assert!(
        translation.stderr_tail.len() <= STDERR_TAIL_BYTES
            && translation.stderr_tail.contains("499 ")
    );
}

#[test]
fn what_is_no_id_never_becomes_one() {
    let hostile = "--dangerously-skip-permissions";
    for (id, taken) in [
        ("0f0e0d0c-0b0a-4908-8706-050403020100", true),
        (hostile, false),
        ("../../x", false),
        ("", false),
    ] {
        let mut translation = with_prompt(Uuid::now_v7());
        let steps =
            feed(&mut translation, json!({"type": "system", "subtype": "init", "session_id": id}));
        assert_eq!(steps == [Step::ClaudeSession(id.to_owned())], taken, "{steps:?}");
        assert!(taken || matches!(&steps[..], [Step::Event(ChatEvent::Error { .. })]), "{steps:?}");
        let message = json!({"role": "assistant", "content": [{"type": "text", "text": "x"}]});
        feed(&mut translation, json!({"type": "assistant", "uuid": id, "message": message}));
        assert_eq!(translation.chat.unwrap().last_message.is_some(), taken, "{id:?}");
    }
}

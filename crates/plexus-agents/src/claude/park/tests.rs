//! Whether a call can be parked, for recorded lines of the CLI and for transcripts of each shape.

use agent_lines::journal::LineContent;
use plexus_engine::driver::{Memory as _, Step};
use serde_json::json;

use super::*;
use crate::claude::read;

const CALL: &str = "toolu_1";
const INPUT: &str = r#"{"command":"echo  RAN","description":"t"}"#;

fn call() -> WaitingCall<'static> {
    WaitingCall {
        tool_use_id: CALL,
        tool_name: "Bash",
        input: INPUT,
        working_dir: Path::new("/sandbox/work"),
    }
}

/// A turn whose prompt has begun.
fn memory() -> ClaudeMemory {
    let mut memory = ClaudeMemory::default();
    memory.begin_turn(Some(Uuid::nil()));
    if let Some(turn) = &mut memory.turn {
        turn.started = true;
    }
    memory
}

fn assistant(uuid: &str, message: &str, call: &str) -> Value {
    json!({"type": "assistant", "uuid": uuid, "parentUuid": "u0", "isSidechain": false,
        "cwd": "/sandbox/work", "sessionId": "s", "version": "2.1.325", "gitBranch": "HEAD",
        "userType": "external", "entrypoint": "sdk-cli", "timestamp": "2026-11-16T00:56:53.896Z",
        "message": {"id": message, "content": [{"type": "tool_use", "id": call, "name": "Bash"}]}})
}

fn result(uuid: &str, call: &str) -> Value {
    json!({"type": "user", "uuid": uuid, "parentUuid": "a1",
        "message": {"content": [{"type": "tool_result", "tool_use_id": call}]}})
}

fn prompt(uuid: &str) -> Value {
    json!({"type": "user", "uuid": uuid, "message": {"content": "go"}})
}

fn written(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// A transcript that ends with the waiting call.
fn waiting() -> Vec<Value> {
    vec![prompt("u0"), assistant("a1", "m1", CALL), json!({"type": "last-prompt"})]
}

#[test]
fn the_mark_is_the_row_that_the_cli_writes_for_a_deferred_call() {
    let mark = parkable(&memory(), &call(), &written(&waiting())).unwrap();
    // The input keeps its bytes exactly.
    assert!(mark.line.contains(&format!(r#""toolInput":{INPUT}"#)), "{}", mark.line);
    let mut row: Value = serde_json::from_str(&mark.line).unwrap();
    assert!(Uuid::try_parse(row["uuid"].as_str().unwrap()).is_ok());
    row["uuid"] = Value::Null;
    let expected = json!({"parentUuid": "a1", "isSidechain": false, "type": "attachment",
        "uuid": null, "timestamp": "2026-11-16T00:56:53.896Z", "attachment": {
            "type": "hook_deferred_tool", "toolUseID": CALL, "toolName": "Bash",
            "toolInput": {"command": "echo  RAN", "description": "t"}, "hookName": "settings",
            "hookEvent": "PreToolUse", "permissionMode": "default"},
        "userType": "external", "entrypoint": "sdk-cli", "cwd": "/sandbox/work",
        "sessionId": "s", "version": "2.1.325", "gitBranch": "HEAD"});
    assert_eq!(row, expected);
}

#[test]
fn a_transcript_that_would_lose_or_change_the_call_is_not_parkable() {
    let with = |more: &[Value]| written(&[waiting().as_slice(), more].concat());
    let of_subagent = |name: &str, value: Value| {
        let mut rows = waiting();
        rows[1][name] = value;
        written(&rows)
    };
    let torn = written(&waiting());
    let mut planned = assistant("a0", "m0", "toolu_0");
    planned["message"]["content"][0]["name"] = json!("EnterPlanMode");
    let planned = [prompt("u0"), planned, result("u1", "toolu_0"), waiting()[1].clone()];
    let deferred = json!({"type": "attachment", "uuid": "x",
        "attachment": {"type": "hook_deferred_tool", "toolUseID": CALL}});
    for (transcript, expected) in [
        (String::new(), NotParkable::NoTranscript),
        (torn.trim_end().to_owned(), NotParkable::NoTranscript),
        (format!("{torn}{{\"type\":\n"), NotParkable::NoTranscript),
        (written(&[prompt("u0")]), NotParkable::NotInTranscript),
        (of_subagent("isSidechain", json!(true)), NotParkable::NotInTranscript),
        (of_subagent("agentId", json!("a")), NotParkable::NotInTranscript),
        (with(&[assistant("a2", "m1", "toolu_2")]), NotParkable::OtherCalls),
        (with(&[assistant("a2", "m2", "toolu_2")]), NotParkable::NotLast),
        (with(&[result("u1", CALL)]), NotParkable::NotLast),
        (with(&[result("u1", "toolu_of_another")]), NotParkable::NotLast),
        (with(&[prompt("u1")]), NotParkable::NotLast),
        (with(&[deferred]), NotParkable::NotLast),
        (of_subagent("cwd", json!("/sandbox/work/sub")), NotParkable::Moved),
        (of_subagent("cwd", Value::Null), NotParkable::Moved),
        (of_subagent("version", json!("2.1.184")), NotParkable::Version),
        (of_subagent("version", json!("two")), NotParkable::Version),
        (of_subagent("version", Value::Null), NotParkable::Version),
        (written(&planned), NotParkable::Mode),
        (of_subagent("permissionMode", json!("acceptEdits")), NotParkable::Mode),
    ] {
        assert_eq!(parkable(&memory(), &call(), &transcript), Err(expected), "{transcript}");
    }
}

#[test]
fn plan_mode_is_parkable_once_the_transcript_says_that_it_was_entered_or_left() {
    let mut enters = assistant("a0", "m0", "toolu_0");
    enters["message"]["content"][0]["name"] = json!("EnterPlanMode");
    let mode = |kind: &str| json!({"type": "attachment", "attachment": {"type": kind}});
    let mut rows = vec![prompt("u0"), enters, result("u1", "toolu_0"), mode("plan_mode")];
    for expected in ["plan", "default"] {
        let written = written(&[rows.as_slice(), &waiting()[1..]].concat());
        let mark = parkable(&memory(), &call(), &written).unwrap();
        let row: Value = serde_json::from_str(&mark.line).unwrap();
        assert_eq!(row["attachment"]["permissionMode"], expected);
        rows.push(mode("plan_mode_exit"));
    }
}

#[test]
fn the_last_open_call_of_a_message_is_parkable_once_its_siblings_have_results() {
    let mut rows = vec![prompt("u0"), assistant("a0", "m1", "toolu_0")];
    rows.push(assistant("a1", "m1", CALL));
    rows.push(result("u1", "toolu_0"));
    let mark = parkable(&memory(), &call(), &written(&rows)).unwrap();
    assert!(mark.line.starts_with(r#"{"parentUuid":"u1","#), "{}", mark.line);
}

#[test]
fn what_the_process_says_beside_the_call_is_not_parkable() {
    let change = |change: fn(&mut ClaudeMemory)| {
        let mut memory = memory();
        change(&mut memory);
        parkable(&memory, &call(), &written(&waiting())).unwrap_err()
    };
    assert_eq!(change(|memory| memory.background_tasks = 1), NotParkable::BackgroundTask);
    assert_eq!(change(|memory| memory.steered(Uuid::nil())), NotParkable::Queued);
    assert_eq!(change(|memory| memory.begin_turn(Some(Uuid::nil()))), NotParkable::Queued);
    assert_eq!(change(ClaudeMemory::end_turn), NotParkable::Ending);
}

/// Returns whether the call of a recorded story's first question can be parked.
fn at_the_question(story: &str) -> Result<(), NotParkable> {
    let log = testkit::fixtures::parking(story).unwrap();
    let mut memory = ClaudeMemory::default();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.filter(|recorded| recorded["run"] == 0).collect();
    let said_in = |recorded: &Value| -> Value {
        serde_json::from_str(recorded["line"].as_str().unwrap()).unwrap()
    };
    let mut messages = BTreeSet::new();
    for recorded in &lines {
        let text = recorded["line"].as_str().unwrap();
        let said = said_in(recorded);
        if recorded["dir"] == "in" {
            if said["type"] == "user" {
                let id = said["uuid"].as_str().unwrap().parse().unwrap();
                match memory.turn {
                    None => memory.begin_turn(Some(id)),
                    Some(_) => memory.steered(id),
                }
            }
            continue;
        }
        if said["type"] == "assistant" && said["parent_tool_use_id"].is_null() {
            messages.insert(said["message"]["id"].to_string());
        }
        let steps = read::line(&mut memory, &LineContent::Whole(text.as_bytes().to_vec()));
        // If a hook asked first, its call is the one that would be parked.
        let hook = &said["request"]["tool_use_id"];
        let asked = steps.iter().find_map(|step| match step {
            Step::Asked(ask) => Some(ask.tool_use_id.clone()),
            Step::Refused { .. } => hook.as_str().map(str::to_owned),
            _ => None,
        });
        let Some(id) = asked else { continue };
        // The rows of a message appear all at once, a moment after its end.
        let mut rows: Vec<Value> = lines.iter().map(said_in).collect();
        rows.retain(|row| {
            row["type"] == "assistant" && messages.contains(&row["message"]["id"].to_string())
        });
        for row in &mut rows {
            (row["cwd"], row["version"]) = (json!("/sandbox/work"), json!("2.1.325"));
        }
        let call = WaitingCall { tool_use_id: &id, ..call() };
        return parkable(&memory, &call, &written(&rows)).map(drop);
    }
    panic!("{story}: nothing was asked");
}

#[test]
fn recorded_stories_are_judged_at_their_first_question() {
    for (story, expected) in [
        ("row_by_hand", Ok(())),
        ("park_question", Ok(())),
        ("park_mcp", Ok(())),
        ("park_two_calls", Err(NotParkable::OtherCalls)),
    ] {
        assert_eq!(at_the_question(story), expected, "{story}");
    }
}

#[test]
fn a_woken_call_without_a_result_is_taken_out_of_the_transcript() {
    let before = written(&waiting());
    let mark = parkable(&memory(), &call(), &before).unwrap().line;
    let id = serde_json::from_str::<Value>(&mark).unwrap()["uuid"].clone();
    let after = json!({"type": "attachment", "uuid": "x", "parentUuid": id});
    let marked = format!("{before}{mark}\n{after}\n{{\"type\":\"us");
    let WokenCall::Open { unmarked } = woken_call(CALL, &marked) else { panic!("settled") };
    let expected = json!({"type": "attachment", "uuid": "x", "parentUuid": "a1"});
    assert_eq!(unmarked, format!("{before}{expected}\n"));
    // With its result, or without a mark, the call is not asked about again.
    let settled = format!("{before}{mark}\n{}\n", result("u1", CALL));
    assert_eq!(woken_call(CALL, &settled), WokenCall::Settled);
    assert_eq!(woken_call(CALL, &before), WokenCall::Settled);
    assert_eq!(woken_call("toolu_other", &marked), WokenCall::Settled);
}

#[test]
fn the_transcript_lies_in_the_configuration_directory_of_the_child() {
    let id = "53eaddf9-aef3-4035-a21b-ae6fd4604dec";
    let at = |env: &[(&str, &str)], id: &str| {
        let find = |name: &str| {
            let found = env.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| std::ffi::OsString::from(*value))
        };
        transcript(id, &find).map(|place| place.root.join(place.name))
    };
    let home = [("HOME", "/h")];
    let name = format!("{id}.jsonl");
    assert_eq!(at(&home, id), Some(Path::new("/h/.claude/projects").join(&name)));
    let own = [("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")];
    assert_eq!(at(&own, id), Some(Path::new("/c/projects").join(&name)));
    assert_eq!(at(&[], id), None);
    assert_eq!(at(&home, "../../etc/passwd"), None);
}

//! Every recorded log of the real CLI, translated: the events that readers of a chat would see,
//! compared with the files in `tests/data/translated`.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p plexus-agents --lib read` writes the files anew; read the
//! difference before you keep it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use plexus_engine::driver::Memory as _;
use serde_json::{Value, json};

use super::*;

/// Translates a log as a run would, opening chats as its prompts come.
fn translate(log: &str) -> Vec<Step> {
    let mut parser = ClaudeStreamJsonParser::new();
    // Logs without these lines are of the MCP channel, where no turn names its prompt.
    let names_prompts = log.contains("command_lifecycle");
    let turns_without_prompt = if names_prompts { 0 } else { MAX_TURNS_WITHOUT_PROMPT };
    let mut memory = ClaudeMemory { turns_without_prompt, ..ClaudeMemory::default() };
    let mut steps = Vec::new();
    for line in log.lines() {
        let Some(event) = parser.parse_line(line).unwrap() else { continue };
        let prompt = match &event.body {
            EventBody::CommandLifecycle(event) => {
                event.command_uuid.as_deref().map(|uuid| uuid.parse().unwrap())
            }
            _ => None,
        };
        match (&memory.turn, prompt) {
            (None, Some(_)) => memory.begin_turn(prompt),
            (Some(turn), Some(prompt)) if turn.prompt != Some(prompt) && is_queued(&event) => {
                memory.steered(prompt);
            }
            _ => {}
        }
        let mut read = memory.line(&event);
        if read.contains(&Step::TurnBegan) {
            memory.begin_turn(None);
            read = memory.line(&event);
        }
        for step in read {
            let over = step == Step::TurnEnded;
            steps.push(step);
            if over {
                memory.end_turn();
            }
        }
    }
    steps
}

fn is_queued(event: &ClaudeStreamJsonEvent) -> bool {
    matches!(&event.body, EventBody::CommandLifecycle(event)
        if event.state.as_deref() == Some("queued"))
}

/// Returns one line for each step, with long texts cut and live text joined.
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
            Step::StillOpen(open) => format!("still open: {}", open.len()),
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
        // Lines that are passed through are not our words.
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
        // The log's own text: whole text blocks of the main agent, by message.
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

/// A memory with a turn of one prompt.
fn with_prompt(uuid: Uuid) -> ClaudeMemory {
    let mut memory = ClaudeMemory::default();
    memory.begin_turn(Some(uuid));
    memory
}

fn feed(memory: &mut ClaudeMemory, line: Value) -> Vec<Step> {
    super::line(memory, &LineContent::Whole(line.to_string().into_bytes()))
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
    let mut memory = with_prompt(prompt);
    memory.steered(message);
    let over = [Step::TurnEnded];
    assert_eq!(feed(&mut memory, state("idle")), [], "an idle from before the prompt was taken");
    feed(&mut memory, lifecycle(prompt, "queued"));
    feed(&mut memory, tasks(&["t"]));
    feed(&mut memory, lifecycle(prompt, "completed"));
    assert_eq!(feed(&mut memory, state("idle")), [], "a message is still to be answered");
    feed(&mut memory, lifecycle(message, "cancelled"));
    assert_eq!(feed(&mut memory, state("idle")), [], "a task still runs");
    feed(&mut memory, tasks(&[]));
    assert_eq!(feed(&mut memory, state("running")), []);
    assert_eq!(feed(&mut memory, state("idle")), over);
}

#[test]
fn an_unknown_line_is_passed_on_whole() {
    let mut memory = with_prompt(Uuid::now_v7());
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
        let steps = feed(&mut memory, line.clone());
        let [Step::Event(ChatEvent::Passthrough { event_type, data })] = steps.as_slice() else {
            panic!("{line} became {steps:?}")
        };
        assert_eq!((event_type.as_str(), data.to_value()), (kind, line));
    }
}

#[test]
fn a_tool_result_is_text_or_the_blocks_as_they_were() {
    let mut memory = with_prompt(Uuid::now_v7());
    let image = json!([{"type": "text", "text": "see"}, {"type": "image", "source": {"type": "base64", "data": "AA=="}}]);
    for (content, output) in [
        (json!("plain"), json!("plain")),
        (json!([{"type": "text", "text": "one"}]), json!("one")),
        (image.clone(), image),
    ] {
        let block = json!({"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": true});
        let steps = feed(
            &mut memory,
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
fn a_malformed_conversation_id_is_not_taken() {
    let hostile = "--dangerously-skip-permissions";
    for (id, taken) in [
        ("0f0e0d0c-0b0a-4908-8706-050403020100", true),
        (hostile, false),
        ("../../x", false),
        ("", false),
    ] {
        let mut memory = with_prompt(Uuid::now_v7());
        memory.turns_without_prompt = 1;
        let steps =
            feed(&mut memory, json!({"type": "system", "subtype": "init", "session_id": id}));
        assert_eq!(steps == [Step::Conversation(id.to_owned())], taken, "{steps:?}");
        assert!(taken || matches!(&steps[..], [Step::Event(ChatEvent::Error { .. })]), "{steps:?}");
        let message = json!({"role": "assistant", "content": [{"type": "text", "text": "x"}]});
        feed(&mut memory, json!({"type": "assistant", "uuid": id, "message": message}));
        assert_eq!(memory.turn.unwrap().last_message.is_some(), taken, "{id:?}");
    }
}

#[test]
fn a_turn_about_an_ended_task_waits_for_a_chat() {
    let init = json!({"type": "system", "subtype": "init", "session_id": Uuid::nil()});
    let mut memory = ClaudeMemory { turns_without_prompt: 1, ..ClaudeMemory::default() };
    let before = memory.clone();
    let steps = feed(&mut memory, init.clone());
    assert_eq!(steps.first(), Some(&Step::TurnBegan));
    assert_eq!(memory, before);
    memory.begin_turn(None);
    assert_eq!(feed(&mut memory, init.clone()), [Step::Conversation(Uuid::nil().to_string())]);
    assert!(matches!(feed(&mut memory, init)[..], [Step::UnpromptedTurn(_)]));
}

#[test]
fn a_woken_process_goes_on_once_under_its_own_id() {
    let started = json!({"type": "command_lifecycle", "state": "started",
        "command_uuid": Uuid::now_v7()});
    let init = json!({"type": "system", "subtype": "init", "session_id": Uuid::nil()});
    let mut memory = ClaudeMemory { turns_without_prompt: 1, ..ClaudeMemory::default() };
    memory.begin_turn(None);
    assert_eq!(feed(&mut memory, started.clone()), []);
    assert_eq!(feed(&mut memory, init), [Step::Conversation(Uuid::nil().to_string())]);
    assert!(matches!(feed(&mut memory, started)[..], [Step::UnpromptedTurn(_)]));
}

/// Real logs, in which a turn followed that no prompt of ours began.
#[test]
fn turns_that_nobody_prompted_are_known_before_the_model_is_asked() {
    for (name, ours) in [
        ("2.1.325_bash_background", true),
        ("2.1.328_task", true),
        ("2.1.328_cron", false),
        ("2.1.328_wakeup", false),
        ("2.1.328_peer_default", false),
        ("2.1.328_monitor_harmless", false),
    ] {
        let path =
            testkit::fixtures::workspace_root().join(format!("fixtures/claude-turns/{name}.jsonl"));
        let log = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut memory = ClaudeMemory::default();
        let mut parser = ClaudeStreamJsonParser::new();
        let (mut heard, mut results) = (None, 0);
        for line in log.lines() {
            let Some(event) = parser.parse_line(line).unwrap() else { continue };
            // The first turn is ours, also in logs whose prompt had no uuid.
            if let EventBody::System(SystemEvent::Init(init)) = &event.body
                && memory.turn.is_none()
                && results == 0
            {
                let prompt = init.user_message_uuids.first().map(|it| it.as_str().parse().unwrap());
                memory.turns_without_prompt = u32::from(prompt.is_none());
                memory.begin_turn(prompt);
            }
            if let EventBody::CommandLifecycle(lifecycle) = &event.body
                && memory.turn.is_none()
                && results == 0
            {
                memory
                    .begin_turn(Some(lifecycle.command_uuid.as_deref().unwrap().parse().unwrap()));
            }
            results += usize::from(matches!(event.body, EventBody::Result(_)));
            let steps = memory.line(&event);
            if steps.iter().any(|step| matches!(step, Step::UnpromptedTurn(_))) {
                heard.get_or_insert(results);
            }
        }
        assert_eq!(heard, (!ours).then_some(1), "{name}");
    }
}

#[test]
fn a_question_in_a_line_that_cannot_be_read_is_found_by_the_id_at_its_head() {
    let head = |text: &str| LineContent::TooLong { head: text.as_bytes().to_vec(), size: 1 << 30 };
    // The input of a call says what the model likes.
    let input = r#"{"input":{"type":"control_response","request_id":"b","x"#;
    let asks = format!(r#"{{"type":"control_request","request_id":"a","request":{input}"#);
    let says = format!(r#"{{"type":"assistant","message":{input}"#);
    let asks_last = format!(r#"{{"request":{input}":1}}}},"type":"control_request""#);
    for (text, hides) in [
        (&*asks, Hidden::Question("a".into())),
        (&says, Hidden::Anything),
        (&asks_last, Hidden::Anything),
        (r#"{"type":"control_request","request_id":"a-1_B","x"#, Hidden::Question("a-1_B".into())),
        (r#"{"type":"control_request","request_id":"a b","x"#, Hidden::Anything),
        (r#"{"type":"control_request","request_id":"","x"#, Hidden::Anything),
        (r#"{"type":"control_response","request_id":"a","x"#, Hidden::OwnAnswer),
        (r#"{"type":"assistant","x"#, Hidden::Anything),
    ] {
        assert_eq!(hidden_in(&head(text)), hides, "{text}");
    }
}

#[test]
fn memory_of_the_first_stage_is_read() {
    let prompt = Uuid::now_v7();
    let stored = json!({
        "chat": {
            "number": 3, "prompt": prompt, "begun": "on_warm", "began_at": 5, "progress": "taken",
            "outstanding": [], "result": null, "usage": {"input_tokens": 1, "output_tokens": 2,
            "num_turns": 3, "cost_usd": 0.0}, "cancel": "enough", "breach": null, "stderr_notices": 4
        },
        "background_tasks": 2, "cost_before": 0.25, "cost_total": 0.5, "stderr_tail": "x",
        "conversation": "c", "allowed": ["a"], "refused": [], "breach": null
    });
    let memory: ClaudeMemory = serde_json::from_value(stored).unwrap();
    let report = memory.report();
    let turn = report.turn.unwrap();
    assert!(turn.heard_of_prompt && report.works_in_background);
    assert_eq!((turn.usage.num_turns, turn.usage.cost_usd), (3, 0.25));
}

#[test]
fn a_question_of_a_subagent_says_which_one_asks() {
    let mut memory = with_prompt(Uuid::now_v7());
    let started = json!({"type": "system", "subtype": "task_started", "task_id": "a1",
        "description": "look around", "subagent_type": "explorer", "task_type": "local_agent"});
    feed(&mut memory, started);
    let mut ask = |agent: Value, description: Value| {
        let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {},
            "tool_use_id": "t", "agent_id": agent, "description": description});
        let line = json!({"type": "control_request", "request_id": "r", "request": request});
        let steps = feed(&mut memory, line);
        let [Step::Asked(asked)] = steps.as_slice() else { panic!("{steps:?}") };
        asked.description.clone()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        ask(json!("a1"), json!("list files")),
        some("subagent explorer \"look around\": list files")
    );
    assert_eq!(ask(json!("a1"), Value::Null), some("subagent explorer \"look around\""));
    assert_eq!(ask(json!("a2"), json!("list files")), some("subagent a2: list files"));
    assert_eq!(ask(Value::Null, json!("list files")), some("list files"));
}

#[test]
fn marks_of_the_cli_leave_a_call_to_a_person() {
    let reason = |tool: &str, input: Value, marks: Value| {
        let mut request = json!({"subtype": "can_use_tool", "tool_name": tool, "input": input,
            "tool_use_id": "t"});
        request.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
        let line = json!({"type": "control_request", "request_id": "r", "request": request});
        let steps = feed(&mut ClaudeMemory::default(), line);
        let [Step::Asked(asked)] = steps.as_slice() else { panic!("{steps:?}") };
        asked.person_only.clone()
    };
    let ours = json!({"source": "flagSettings", "tool_name": "Bash"});
    let bash = || json!({"command": "ls"});
    for (marks, words) in [
        (json!({}), None),
        (json!({"decision_reason_type": "other", "matched_ask_rule": ours}), None),
        (
            json!({"decision_reason_type": "rule", "decision_reason_rule_source": "flagSettings"}),
            None,
        ),
        (json!({"decision_reason_type": "safetyCheck", "classifier_approvable": true}), None),
        (json!({"requires_user_interaction": true}), Some("demands a person")),
        (
            json!({"classifier_approvable": false, "decision_reason": "Dangerous rm"}),
            Some("safety check leaves it to a person: Dangerous rm"),
        ),
        (json!({"default_to_no": true}), Some("proposes to refuse")),
        (json!({"decision_reason_type": "sandboxOverride"}), Some("sandbox")),
        (json!({"decision_reason_type": "classifier"}), Some("classifier")),
        (json!({"decision_reason_type": "hook"}), Some("hook")),
        // A narrow rule of somebody else is the reason, beside a rule of ours that matched too.
        (
            json!({"decision_reason_type": "rule", "decision_reason_rule_source": "userSettings",
                "matched_ask_rule": ours}),
            Some("ask rule of Claude Code covers it (userSettings)"),
        ),
        (
            json!({"matched_ask_rule": {"source": "policySettings", "tool_name": "Write"}}),
            Some("(policySettings)"),
        ),
    ] {
        let found = reason("Bash", bash(), marks.clone());
        match words {
            None => assert_eq!(found, None, "{marks}"),
            Some(words) => assert!(
                found.as_ref().is_some_and(|found| found.contains(words)),
                "{marks}: {found:?}"
            ),
        }
    }
    // A question that can be answered is no call to allow.
    let marked = json!({"requires_user_interaction": true});
    let which = json!({"questions": [{"question": "Which?", "options": [{"label": "a"}]}]});
    assert_eq!(reason("AskUserQuestion", which, marked.clone()), None);
    assert_eq!(reason("ExitPlanMode", json!({}), marked.clone()), None);
    assert!(reason("AskUserQuestion", json!({}), marked).is_some());
}

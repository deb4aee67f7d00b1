//! Recorded runs of the control channel, replayed with the simulator.

use serde_json::{Value, json};

use crate::driver::{
    Running, Sandbox, UNTIL_TOLD, allow, answer, deny, interrupt, prompt, request, wait_for_file,
};
use crate::shape::assert_same_shape;

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

const RUN_IT: &str = r#"sim:
say I will run it.
tool Bash {"command":"touch made.txt && echo RAN-OK","description":"t"}
say done"#;

const TOUCH: &str = "sim:\ntool Bash {\"command\":\"touch e1\",\"description\":\"t\"}\nsay done";

/// Returns the lines since the last call.
fn taken(run: &mut Running) -> Vec<Value> {
    std::mem::take(&mut run.seen)
}

fn without_state(lines: &[Value]) -> Vec<Value> {
    lines.iter().filter(|line| line["subtype"] != "session_state_changed").cloned().collect()
}

/// Sends a prompt and allows its one tool call.
fn play_allowed(run: &mut Running, uuid: &str, script: &str) {
    run.send(&[prompt(uuid, script)]);
    let question = run.until_question();
    run.send(&[allow(&question)]);
    run.until_idle();
}

#[test]
fn initialize_and_a_permission_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    // The recorded run had neither echoes, nor ids of prompts, nor a list of tasks after
    // `initialize`.
    let mut run = sandbox.start(
        &[
            "--print",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-prompt-tool",
            "stdio",
            "--mcp-config",
            r#"{"mcpServers":{"plexus":{"command":"a-program-that-does-not-exist"}}}"#,
        ],
        crate::driver::Stdin::Piped,
    );
    run.send(&[request("req_init", &json!({"subtype": "initialize"}))]);
    run.until("the answer to initialize", |line| line["type"] == "control_response");
    run.send(&[json!({"type": "user", "message": {"role": "user", "content": RUN_IT}})]);
    let question = run.until_question();
    run.send(&[allow(&question)]);
    run.until_idle();
    let lines: Vec<Value> = run
        .seen
        .iter()
        .filter(|line| line["subtype"] != "background_tasks_changed")
        .cloned()
        .collect();
    assert_same_shape("i_stdio", None, &without_state(&lines));
}

#[test]
fn echoes_and_lifecycles_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    play_allowed(&mut run, FIRST, RUN_IT);
    // A repeated prompt is echoed and does not run again.
    run.send(&[prompt(FIRST, RUN_IT)]);
    run.until("the echo", |line| line["isReplay"] == true);
    run.send(&[prompt(SECOND, "sim:\nsay next turn")]);
    run.until_idle();
    assert_same_shape("control_echo_uuid", None, &without_state(&run.seen));
}

#[test]
fn states_and_background_tasks_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&["--allowedTools", "Bash(while:*)"]);
    let in_background = |command: &str| {
        let input = json!({"command": command, "description": "t", "run_in_background": true});
        format!("sim:\ntool Bash {input}\nsay main")
    };
    run.send(&[prompt(FIRST, &in_background(UNTIL_TOLD))]);
    run.until_idle();
    sandbox.tell();
    run.until_idle();
    play_allowed(&mut run, SECOND, RUN_IT);
    run.send(&[prompt(
        "33333333-3333-4333-8333-333333333333",
        &in_background("sleep 60; echo BG"),
    )]);
    run.until_idle();
    let started = run.seen.iter().rfind(|line| line["subtype"] == "task_started").unwrap();
    let task_id = started["task_id"].clone();
    run.send(&[request("stop", &json!({"subtype": "stop_task", "task_id": task_id}))]);
    run.until_idle();
    assert_same_shape("control_state_events", 0..55, &run.seen);
}

#[test]
fn a_background_task_beside_another_prompt_looks_like_the_recorded_one() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&["--allowedTools", "Bash"]);
    let input = json!({"command": UNTIL_TOLD, "description": "t", "run_in_background": true});
    run.send(&[prompt(FIRST, &format!("sim:\ntool Bash {input}\nsay main2"))]);
    run.until_idle();
    run.send(&[prompt(SECOND, "sim:\nsay prompt while bg open")]);
    run.until_idle();
    sandbox.tell();
    run.until_idle();
    assert_same_shape("control_background", 17..41, &without_state(&run.seen));
}

#[test]
fn an_interrupted_question_looks_like_the_recorded_one() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, RUN_IT)]);
    let question = run.until_question();
    // An allow directly after the interrupt loses, and is not echoed.
    run.send(&[interrupt("int1"), allow(&question)]);
    run.until_idle();
    play_allowed(&mut run, SECOND, RUN_IT);
    run.send(&[interrupt("int2")]);
    run.until("the answer to the idle interrupt", |line| line["response"]["request_id"] == "int2");
    assert_same_shape("control_cancel_races", 0..26, &without_state(&run.seen));
    taken(&mut run);
    // A prompt with an interrupt directly after it stays queued, and runs.
    let third = "44444444-4444-4444-8444-444444444444";
    run.send(&[prompt(third, "sim:\nsay prompt then interrupt glued"), interrupt("int4")]);
    run.until_idle();
    let receipt = run.seen.iter().find(|line| line["type"] == "control_response").unwrap();
    assert_eq!(receipt["response"]["response"], json!({"still_queued": [third]}));
    assert_same_shape("control_cancel_races", 41..49, &without_state(&run.seen));
}

#[test]
fn steering_and_an_interrupted_tool_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, "sim:\ntool Bash {\"command\":\"touch s1\",\"description\":\"t\"}")]);
    let question = run.until_question();
    run.send(&[prompt(SECOND, "and one more thing")]);
    run.until("the queued prompt", |line| line["state"] == "queued");
    run.send(&[allow(&question)]);
    run.until_idle();
    let result = run.seen.iter().find(|line| line["type"] == "result").unwrap();
    assert_eq!(result["user_message_uuids"], json!([FIRST, SECOND]));
    assert_same_shape("control_steer_interrupt", 0..19, &taken(&mut run));
    run.send(&[prompt("44444444-4444-4444-8444-444444444444", "sim:\nslowly 60000 a long text")]);
    run.until("the beginning of the turn", |line| line["subtype"] == "init");
    run.send(&[interrupt("int0")]);
    run.until_idle();
    assert_same_shape("control_steer_interrupt", 19..30, &taken(&mut run));
    let script = r#"sim:
tool Bash {"command":"touch began; while ! test -e stop; do sleep 0.1; done; touch zz","description":"t"}
say done"#;
    run.send(&[prompt("33333333-3333-4333-8333-333333333333", script)]);
    let question = run.until_question();
    run.send(&[allow(&question)]);
    wait_for_file(&sandbox.work().join("began"));
    run.send(&[interrupt("int")]);
    run.until_idle();
    assert_same_shape("control_steer_interrupt", 30..46, &run.seen);
}

#[test]
fn an_edited_input_looks_like_the_recorded_one() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(
        FIRST,
        "sim:\ntool Bash {\"command\":\"touch original\",\"description\":\"t\"}\nsay done",
    )]);
    let question = run.until_question();
    let edited = json!({"behavior": "allow", "updatedInput": {"command": "touch edited", "description": "t"}});
    run.send(&[
        answer(&question, &edited),
        deny(&question, "too late"),
        allow(&json!({"request_id": "nobody"})),
    ]);
    run.until_idle();
    run.send(&[prompt(SECOND, "sim:\ntool Read {\"file_path\":\"edited\"}\nsay done")]);
    run.until_idle();
    assert_same_shape("control_edited_input", None, &run.seen);
    assert!(sandbox.work().join("edited").exists());
    assert!(!sandbox.work().join("original").exists());
}

#[test]
fn the_end_of_stdin_in_a_question_looks_like_the_recorded_one() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, TOUCH)]);
    run.until_question();
    let finished = run.finish();
    assert_same_shape("control_eof_in_permission", None, &finished.lines);
    assert_eq!(finished.code(), Some(0));
    assert!(!sandbox.work().join("e1").exists());
}

#[test]
fn open_questions_in_initialize_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.work().join("a.txt"), "A").unwrap();
    std::fs::write(sandbox.work().join("b.txt"), "B").unwrap();
    let mut run = sandbox.control(&["--settings", r#"{"permissions":{"ask":["Bash","Read"]}}"#]);
    run.send(&[prompt(
        FIRST,
        "sim:\nparallel Read {\"file_path\":\"a.txt\"} ;; Read {\"file_path\":\"b.txt\"}\nsay done",
    )]);
    let (first, second) = (run.until_question(), run.until_question());
    run.send(&[request("init", &json!({"subtype": "initialize"}))]);
    let initialized =
        run.until("the answer to initialize", |line| line["type"] == "control_response");
    let mut pending = initialized["response"]["pending_permission_requests"].clone();
    assert_eq!(
        pending.as_array_mut().map(std::mem::take),
        Some(vec![first.clone(), second.clone()])
    );
    run.send(&[allow(&second), deny(&first, "not this one")]);
    run.until_idle();
    assert_same_shape("control_initialize_pending", None, &run.seen);
}

#[test]
fn too_many_turns_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&["--max-turns", "1", "--allowedTools", "Bash"]);
    run.send(&[prompt(
        FIRST,
        "sim:\ntool Bash {\"command\":\"echo 1\",\"description\":\"t\"}\nsay never",
    )]);
    run.until_idle();
    run.send(&[prompt(SECOND, "sim:\nsay next prompt after max turns")]);
    run.until_idle();
    assert_same_shape("control_max_turns", None, &run.seen);
}

#[test]
fn partial_messages_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&["--include-partial-messages"]);
    let script = "sim:\nthink hmm\nsay abcdef\ntool Bash {\"command\":\"touch pm\",\"description\":\"t\"}\nsay done";
    play_allowed(&mut run, FIRST, script);
    assert_same_shape("control_partial", None, &run.seen);
}

#[test]
fn set_model_and_set_permission_mode_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(SECOND, "sim:\nsay one")]);
    run.until_idle();
    taken(&mut run);
    run.send(&[
        request("1", &json!({"subtype": "set_model", "model": "other-model"})),
        request("2", &json!({"subtype": "set_permission_mode", "mode": "acceptEdits"})),
        request("3", &json!({"subtype": "no_such_thing"})),
    ]);
    run.until("the answer to the unknown request", |line| line["response"]["request_id"] == "3");
    run.send(&[prompt(FIRST, "sim:\nsay three")]);
    run.until_idle();
    assert_same_shape("control_two_prompts_set_model", 16..30, &run.seen);
    let init = run.seen.iter().find(|line| line["subtype"] == "init").unwrap();
    assert_eq!(
        (&init["model"], &init["permissionMode"]),
        (&json!("other-model"), &json!("acceptEdits"))
    );
}

#[test]
fn resumed_and_forked_conversations_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, "sim:\nsay two")]);
    run.until_idle();
    let session_id = run.seen[0]["session_id"].as_str().unwrap().to_owned();
    assert_eq!(run.finish().code(), Some(0));

    let mut lines = Vec::new();
    let mut run = sandbox.control(&["--resume", &session_id]);
    run.send(&[prompt(SECOND, "sim:\nsay three")]);
    run.until_idle();
    // A prompt that the earlier process has run does not run again.
    run.send(&[prompt(FIRST, "sim:\nsay two")]);
    run.until_idle();
    lines.extend(run.finish().lines);
    let mut run = sandbox.control(&["--resume", &session_id, "--fork-session"]);
    run.send(&[prompt("33333333-3333-4333-8333-333333333333", "sim:\nsay forked")]);
    run.until_idle();
    lines.extend(run.finish().lines);
    assert_same_shape("control_resume_fork", None, &lines);
    assert_ne!(lines.last().unwrap()["session_id"], session_id.as_str());
}

#[test]
fn a_failing_api_looks_like_the_recorded_one() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, "sim:\nfail 400")]);
    run.until_idle();
    run.send(&[prompt(SECOND, "sim:\nsay works again")]);
    run.until_idle();
    assert_same_shape("control_api_error", None, &run.seen);
}

#[cfg(unix)]
#[test]
fn sigint_in_a_question_looks_like_the_recorded_one() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, TOUCH)]);
    run.until_question();
    crate::process::signal(run.pid(), rustix::process::Signal::INT);
    run.until_end();
    let finished = run.finish();
    assert_same_shape("control_permission_SIGINT", None, &finished.lines);
    assert_eq!(finished.code(), Some(0));
}
